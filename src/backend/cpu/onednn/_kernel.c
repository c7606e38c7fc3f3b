/* _kernel.c — what the kernels over oneDNN share. */
#include "backend/cpu/onednn/_kernel.h"

const char *onednn_check_type(const rlx_type *type, const char *what, int min_rank, int max_rank) {
  if (!type) return rlx_reason("%s is left out", what);
  if (type->kind != RLX_KIND_TENSOR || type->dtype != RLX_FLOAT) {
    return rlx_reason("%s is of %s, only float is served", what, rlx_dtype_name(type->dtype));
  }
  if (type->rank == RLX_UNKNOWN) return rlx_reason("the rank of %s is not known", what);
  if (type->rank < min_rank || type->rank > max_rank) {
    return rlx_reason("%s has rank %d, only %d to %d are served", what, type->rank, min_rank, max_rank);
  }
  return NULL;
}

static onednn_format format_of(uint32_t layout) {
  switch (layout) {
    case LAYOUT_BLOCK8: return ONEDNN_BLOCK8;
    case LAYOUT_BLOCK16: return ONEDNN_BLOCK16;
    case LAYOUT_CHANNELS_LAST: return ONEDNN_CHANNELS_LAST;
    default: return ONEDNN_DENSE;
  }
}

onednn_tensor onednn_dense(int rank, const int64_t *dims) {
  onednn_tensor t = {.format = ONEDNN_DENSE, .rank = rank};
  for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
  return t;
}

onednn_tensor onednn_activation(const rlx_type *type, uint32_t layout) {
  onednn_tensor t = onednn_dense(type->rank, type->dims);
  t.format = format_of(layout);
  return t;
}

onednn_window onednn_window_of(const window *w) {
  onednn_window o = {.kernel = {0}};
  for (int i = 0; i < w->rank && i < 3; i++) {
    o.kernel[i] = w->kernel[i];
    o.strides[i] = w->stride[i];
    o.dilations[i] = w->dilation[i];
    o.before[i] = w->begin[i];
    o.after[i] = w->end[i];
  }
  return o;
}

bool onednn_add_activation(onednn_post *post, fused_activation kind, float alpha, float beta) {
  onednn_post_op op = {.alpha = alpha, .beta = beta};
  switch (kind) {
    case FUSED_NONE: return true;
    case FUSED_RELU: op = (onednn_post_op){.kind = ONEDNN_RELU}; break;
    case FUSED_LEAKY_RELU: op.kind = ONEDNN_RELU; break;
    case FUSED_CLIP: op.kind = ONEDNN_CLIP; break;
    case FUSED_SIGMOID: op.kind = ONEDNN_SIGMOID; break;
    case FUSED_TANH: op.kind = ONEDNN_TANH; break;
    case FUSED_SWISH: op.kind = ONEDNN_SWISH; break;
    case FUSED_HARD_SWISH: op.kind = ONEDNN_HARD_SWISH; break;
    case FUSED_GELU: op.kind = ONEDNN_GELU; break;
    case FUSED_UNKNOWN: return false;
  }
  if (post->count == ONEDNN_POST_OPS) return false;
  post->ops[post->count++] = op;
  return true;
}

int onednn_threads(const rlx_bound *b, double work) { return work < 1.5e6 ? 1 : rlx_bound_threads(b); }

bool onednn_has_zero(const rlx_type *type) {
  for (int i = 0; i < type->rank; i++) {
    if (type->dims[i] == 0) return true;
  }
  return false;
}

uint32_t onednn_choose_layout(uint32_t proposal, const rlx_type *src, const rlx_type *dst, bool blocked) {
  uint32_t wanted = proposal;
  if (proposal == LAYOUT_ROW_MAJOR) {
    int block = onednn_channel_block();
    if (block == 0) return LAYOUT_ROW_MAJOR;
    wanted = block == 16 ? LAYOUT_BLOCK16 : LAYOUT_BLOCK8;
  }
  bool is_block = wanted == LAYOUT_BLOCK8 || wanted == LAYOUT_BLOCK16;
  if ((!is_block || blocked) && layout_fits(wanted, src) && layout_fits(wanted, dst)) return wanted;
  if (layout_fits(LAYOUT_CHANNELS_LAST, src) && layout_fits(LAYOUT_CHANNELS_LAST, dst)) return LAYOUT_CHANNELS_LAST;
  return LAYOUT_ROW_MAJOR;
}

void onednn_release(void *state) { onednn_destroy(state); }

rlx_status onednn_run_init(const void *state, void **run_state) {
  onednn_run *r = NULL;
  rlx_status status = state ? onednn_run_create(state, &r) : RLX_OK;
  if (status == RLX_OK) *run_state = r;
  return status;
}

void onednn_run_done(void *run_state) { onednn_run_destroy(run_state); }
