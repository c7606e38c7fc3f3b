/* conv.c — onnx.Conv and rlx.conv by oneDNN: direct and Winograd convolutions in blocked or channels-last layouts. */
#include <string.h>

#include "backend/cpu/onednn/_kernel.h"
#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/fused_conv.h"

/* The two ops share inputs X, W, B and the first params; rlx.conv adds Z and the activation. */
static bool is_fused(const rlx_node *n) { return strcmp(rlx_node_op(n), "rlx.conv") == 0; }

static conv_params plain_params(const void *params, bool fused) {
  const fused_conv_params *p = params;
  if (!fused) return *(const conv_params *)params;
  return (conv_params){.given = p->given, .window = p->window, .group = p->group};
}

/* First layers: so few channels that they do not fill a vector. */
enum { FEW_CHANNELS = 4 };

/* oneDNN 2.6 reads out of bounds where a window lies wholly in the padding. */
static const char *why_not_pads(const window_attrs *a, const rlx_type *w) {
  for (int64_t i = 0; i < a->pads.count; i++) {
    int64_t pad = a->pads.data[i], axis = i % (w->rank - 2), kernel = w->dims[axis + 2];
    if (pad < 0) return "negative padding";
    if (pad == 0) continue;
    if (kernel == RLX_UNKNOWN && a->kernel_shape.count) kernel = a->kernel_shape.data[axis];
    if (kernel == RLX_UNKNOWN) return "padding, and a window whose size is not known";
    int64_t dilation = a->dilations.count ? a->dilations.data[axis] : 1;
    if (pad > (kernel - 1) * dilation) return "a window that lies wholly in the padding";
  }
  return NULL;
}

static const char no_channels[] = "no input channels";

static const char *why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0), *w = rlx_node_input_type(n, 1);
  const char *bad = onednn_check_type(w, "W", 3, 5);
  rlx_type as_weights = *x;
  if (x->rank == RLX_UNKNOWN && !bad) as_weights.rank = w->rank; /* prepare finds out if it is not */
  if (!bad) bad = onednn_check_type(&as_weights, "X", 3, 5);
  if (bad) return bad;
  if (!onednn_convolves()) return "the processor has no AVX2";
  conv_params p = plain_params(rlx_node_params(n), is_fused(n));
  const char *pads = why_not_pads(&p.window, w);
  if (pads || w->dims[1] > 0) return pads;
  return w->dims[1] == 0 ? no_channels : rlx_depends_on_extents;
}

static const char *why_not_bound(const rlx_bound *b) {
  return rlx_bound_input(b, 1)->dims[1] == 0 ? no_channels : NULL;
}

/* A group whose channels do not fill blocks is served in no layout but row-major and channels last. */
static bool takes_blocks(const rlx_type *x, const rlx_type *y, int64_t group) {
  int64_t in = x->dims[1], out = y->dims[1];
  if (group == 1 || (group == in && group == out)) return true;
  int64_t block = onednn_channel_block();
  return block > 0 && in / group % block == 0 && out / group % block == 0;
}

static void layouts(const rlx_node *n, rlx_layouts *l) {
  const rlx_type *x = rlx_node_input_type(n, 0), *y = rlx_node_output_type(n, 0);
  conv_params p = plain_params(rlx_node_params(n), is_fused(n));
  uint32_t proposal = l->inputs[0];
  for (int i = 0; i < l->input_count; i++) l->inputs[i] = LAYOUT_ROW_MAJOR;
  l->outputs[0] = LAYOUT_ROW_MAJOR;
  if (!x || !y || x->rank < 3 || y->rank != x->rank || x->dims[1] < 1 || y->dims[1] < 1) return;
  bool few = x->dims[1] <= FEW_CHANNELS;
  uint32_t chosen = onednn_choose_layout(proposal, few ? y : x, y, takes_blocks(x, y, p.group));
  l->inputs[0] = few && chosen != LAYOUT_CHANNELS_LAST ? LAYOUT_ROW_MAJOR : chosen;
  l->outputs[0] = chosen;
  if (l->input_count > FUSED_CONV_Z) l->inputs[FUSED_CONV_Z] = chosen;
}

/* Weights [M, C / g, k…] as [g, M / g, C / g, k…]: the same bytes. */
static onednn_tensor weights_tensor(const rlx_type *w, int64_t group) {
  if (group == 1) return onednn_dense(w->rank, w->dims);
  int64_t dims[ONEDNN_RANK] = {group, w->dims[0] / group};
  for (int i = 1; i < w->rank; i++) dims[i + 1] = w->dims[i];
  return onednn_dense(w->rank + 1, dims);
}

static bool describe_post(const rlx_bound *b, onednn_post *post) {
  if (!is_fused(rlx_bound_node(b))) return true;
  const fused_conv_params *p = rlx_bound_params(b);
  if (rlx_bound_input(b, FUSED_CONV_Z)) post->ops[post->count++] = (onednn_post_op){ONEDNN_SUM, 1, 0};
  return onednn_add_activation(post, fused_activation_parse(&p->activation.name), p->activation.alpha,
                               p->activation.beta);
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0), *w = rlx_bound_input(b, 1), *y = rlx_bound_output(b, 0);
  const rlx_type *bias = rlx_bound_input(b, 2);
  conv_params p = plain_params(rlx_bound_params(b), is_fused(rlx_bound_node(b)));
  conv_shape s;
  const char *bad = conv_resolve(&p, x->rank, x->dims, w->rank, w->dims, &s);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  if (bias && (bias->rank != 1 || bias->dims[0] != s.maps)) {
    return rlx_fail(b, RLX_INVALID, "the bias does not have %lld elements", (long long)s.maps);
  }
  *state = NULL;
  if (onednn_has_zero(y)) return RLX_OK;
  onednn_convolution_desc d = {.src = onednn_activation(x, rlx_bound_input_layout(b, 0)),
                               .weights = weights_tensor(w, p.group),
                               .dst = onednn_activation(y, rlx_bound_output_layout(b, 0)),
                               .window = onednn_window_of(&s.window),
                               .winograd = rlx_bound_constant(b, FUSED_CONV_W) != NULL}; /* packing takes long */
  if (bias) d.bias = onednn_dense(1, bias->dims);
  if (!describe_post(b, &d.post)) return rlx_fail(b, RLX_UNSUPPORTED, "oneDNN has no such activation");
  double work = (double)shape_count(y->rank, y->dims) * (double)shape_count(w->rank, w->dims) / (double)w->dims[0];
  onednn_primitive *primitive = NULL;
  RLX_TRY(onednn_make_convolution(b, onednn_threads(b, work), &d, &primitive));
  *state = primitive;
  return RLX_OK;
}

static rlx_status packing(rlx_bound *b, const void *state, int input, rlx_packing *out) {
  (void)b;
  if (state && input == FUSED_CONV_W) onednn_packing(state, out);
  return RLX_OK;
}

static rlx_status pack(rlx_bound *b, const void *state, int input, const rlx_operand *from, void *to) {
  (void)input;
  return onednn_pack(b, state, from->data, to);
}

static int64_t workspace(rlx_bound *b, const void *state) {
  return state ? onednn_workspace(state, rlx_bound_constant(b, FUSED_CONV_W) != NULL) : 0;
}

static rlx_status run(rlx_ctx *ctx) {
  rlx_operand *y = &ctx->outputs[0];
  if (!ctx->state) return RLX_OK;
  const rlx_operand *z = ctx->input_count > FUSED_CONV_Z ? &ctx->inputs[FUSED_CONV_Z] : NULL;
  if (z && z->data && z->data != y->data) memcpy(y->data, z->data, (size_t)y->bytes);
  onednn_args args = {.src = ctx->inputs[FUSED_CONV_X].data,
                      .weights = ctx->inputs[FUSED_CONV_W].data,
                      .bias = ctx->input_count > FUSED_CONV_B ? ctx->inputs[FUSED_CONV_B].data : NULL,
                      .dst = y->data,
                      .workspace = ctx->workspace,
                      .packed = ctx->inputs[FUSED_CONV_W].packed != 0};
  return onednn_execute(ctx, ctx->state, ctx->run_state, &args);
}

#define HEAD(op_name)                                                                                                  \
  .op = (op_name), .name = "onednn", .why_not = why_not, .why_not_bound = why_not_bound, .layouts = layouts,           \
  .packing = packing, .pack = pack, .workspace = workspace, .prepare = prepare, .release = onednn_release,             \
  .run_init = onednn_run_init, .run_done = onednn_run_done

static const rlx_cpu_kernel conv = {.struct_size = sizeof(rlx_cpu_kernel), .head = {HEAD("onnx.Conv")}, .run = run};

/* The sum is accumulated where Z was. */
static const rlx_pair fused_in_place[] = {{0, FUSED_CONV_Z}};
static const rlx_cpu_kernel fused = {.struct_size = sizeof(rlx_cpu_kernel),
                                     .head = {HEAD("rlx.conv"), .in_place = fused_in_place, .in_place_count = 1},
                                     .run = run};

const rlx_module onednn_conv = {.kernels = (const rlx_cpu_kernel *const[]){&conv, &fused, NULL}};
