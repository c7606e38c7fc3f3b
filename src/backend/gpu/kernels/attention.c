/* attention.c — onnx.Attention on GPUs, fused: a workgroup a query row, keys in blocks of 256, the softmax as it goes.
 */
#include <math.h>

#include "backend/gpu/kernels/_launch.h"
#include "ir/graph.h"
#include "ops/attention.h"

enum { MOST_SIZE = 512 }; /* of a head: the query in workgroup memory, two results a thread */

/* clang-format off */
static const char start[] = RLX_GPU_TEXT(
  for (u32 row = GROUP_ID; row < rows; row += GROUPS) {
    u32 i = row / q_length;
    u32 q_row = row - i * q_length;
    u32 b = i / q_heads;
    u32 h = i - b * q_heads;
    u32 kv = h / (q_heads / kv_heads);
    i64 q_at = packed_rows != 0u ? ((i64(b) * i64(q_length) + i64(q_row)) * i64(q_heads) + i64(h)) * i64(size)
                                 : ((i64(b) * i64(q_heads) + i64(h)) * i64(q_length) + i64(q_row)) * i64(size);
    BARRIER();
    for (u32 d = LOCAL_ID; d < size; d += WG) query[d] = q[q_at + i64(d)];
    BARRIER();
    i64 valid = i64(total);
    if (PRESENT(lengths)) valid = i64(lengths[b]);
    i64 position = i64(q_row) + (PRESENT(lengths) ? valid - i64(q_length) : i64(past));
    f32 peak = -INF;
    f32 sum = 0.0f;
    f32 first = 0.0f;
    f32 second = 0.0f;
    for (u32 block = 0u; block < total; block += 256u) {
      u32 j = block + LOCAL_ID;
      i64 column = i64(j);
      f32 score = -INF;
      bool open = j < total && column < valid;
      open = open && !(causal != 0u && column > position);
      open = open && !(left_window >= 0 && position - column > i64(left_window));
      open = open && !(right_window >= 0 && column - position > i64(right_window));
      f32 bias = 0.0f;
);
/* … the mask … */
static const char middle[] = RLX_GPU_TEXT(
      if (open && !(bias == -INF)) {
        f32 dot = 0.0f;
        if (j < past) {
          i64 at = ((i64(b) * i64(kv_heads) + i64(kv)) * i64(past) + column) * i64(size);
          for (u32 d = 0u; d < size; d++) dot = FMA(query[d], past_k[at + i64(d)], dot);
        } else {
          u32 k_row = j - past;
          i64 at = packed_rows != 0u ? ((i64(b) * i64(kv_length) + i64(k_row)) * i64(kv_heads) + i64(kv)) * i64(size)
                                     : ((i64(b) * i64(kv_heads) + i64(kv)) * i64(kv_length) + i64(k_row)) * i64(size);
          for (u32 d = 0u; d < size; d++) dot = FMA(query[d], k[at + i64(d)], dot);
        }
        dot = dot * scale;
        if (cap > 0.0f) dot = cap * TANH(dot / cap);
        score = dot + bias;
      }
      f32 higher = MAX(peak, GROUP_MAX(score));
      f32 shrink = peak == -INF ? 0.0f : EXP(peak - higher);
      f32 chance = score == -INF ? 0.0f : EXP(score - higher);
      chances[LOCAL_ID] = chance;
      sum = sum * shrink + GROUP_SUM(chance);
      peak = higher;
      u32 count = total - block < 256u ? total - block : 256u;
      u32 e = LOCAL_ID;
      first = first * shrink;
      second = second * shrink;
      for (u32 t = 0u; t < count; t++) {
        f32 c = chances[t];
        if (c != 0.0f) {
          u32 v_row = block + t;
          if (v_row < past) {
            i64 at = ((i64(b) * i64(kv_heads) + i64(kv)) * i64(past) + i64(v_row)) * i64(v_size);
            if (e < v_size) first = FMA(c, past_v[at + i64(e)], first);
            if (e + 256u < v_size) second = FMA(c, past_v[at + i64(e + 256u)], second);
          } else {
            v_row = v_row - past;
            i64 at = packed_rows != 0u ? ((i64(b) * i64(kv_length) + i64(v_row)) * i64(kv_heads) + i64(kv)) * i64(v_size)
                                       : ((i64(b) * i64(kv_heads) + i64(kv)) * i64(kv_length) + i64(v_row)) * i64(v_size);
            if (e < v_size) first = FMA(c, v[at + i64(e)], first);
            if (e + 256u < v_size) second = FMA(c, v[at + i64(e + 256u)], second);
          }
        }
      }
    }
    i64 y_at = packed_rows != 0u ? ((i64(b) * i64(q_length) + i64(q_row)) * i64(q_heads) + i64(h)) * i64(v_size)
                                 : ((i64(b) * i64(q_heads) + i64(h)) * i64(q_length) + i64(q_row)) * i64(v_size);
    f32 share = peak == -INF ? 0.0f : 1.0f / sum;
    if (LOCAL_ID < v_size) y[y_at + i64(LOCAL_ID)] = peak == -INF ? 0.0f : first * share;
    if (LOCAL_ID + 256u < v_size) y[y_at + i64(LOCAL_ID + 256u)] = peak == -INF ? 0.0f : second * share;
  }
);
/* past and new rows, one after the other: batch × heads × total × size */
static const char present_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 line = i / part;
    u32 d = i - line * part;
    u32 j = line / total;
    u32 b = j / kv_heads;
    u32 h = j - b * kv_heads;
    j = line - j * total;
    if (j < past) {
      to[i] = before[((i64(b) * i64(kv_heads) + i64(h)) * i64(past) + i64(j)) * i64(part) + i64(d)];
    } else {
      j = j - past;
      i64 at = packed_rows != 0u ? ((i64(b) * i64(kv_length) + i64(j)) * i64(kv_heads) + i64(h)) * i64(part)
                                 : ((i64(b) * i64(kv_heads) + i64(h)) * i64(kv_length) + i64(j)) * i64(part);
      to[i] = from[at + i64(d)];
    }
  }
);
/* clang-format on */

static rlx_status make_body(rlx_gpu_text *t, const rlx_node *n) {
  const rlx_type *mask = rlx_node_input_type(n, ATTENTION_MASK);
  rlx_gpu_write(t, "%s", start);
  if (mask) {
    rlx_gpu_write(t, "if (open) {\n  open = j < mask_columns;\n  if (open) {\n");
    rlx_gpu_write(t,
                  "    i64 at = i64(b) * mask_step[0] + i64(h) * mask_step[1] + i64(q_row) * mask_step[2] + column * "
                  "mask_step[3];\n");
    rlx_gpu_write(t, mask->dtype == RLX_BOOL ? "    bias = mask[at] ? 0.0f : -INF;\n" : "    bias = f32(mask[at]);\n");
    rlx_gpu_write(t, "  }\n}\n");
  }
  rlx_gpu_write(t, "%s", middle);
  return RLX_OK;
}

#define SIZES                                                                                                          \
  ARG_SCALAR("kv_heads", "u32"), ARG_SCALAR("kv_length", "u32"), ARG_SCALAR("past", "u32"), ARG_SCALAR("total", "u32"),  \
      ARG_SCALAR("packed_rows", "u32")
static const rlx_gpu_arg args[] = {ARG_IN("q", ATTENTION_Q),
                                   ARG_IN("k", ATTENTION_K),
                                   ARG_IN("v", ATTENTION_V),
                                   ARG_IN("mask", ATTENTION_MASK),
                                   ARG_IN("past_k", ATTENTION_PAST_K),
                                   ARG_IN("past_v", ATTENTION_PAST_V),
                                   ARG_IN("lengths", ATTENTION_LENGTHS),
                                   ARG_OUT("y", 0),
                                   SIZES,
                                   ARG_SCALAR("rows", "u32"),
                                   ARG_SCALAR("q_heads", "u32"),
                                   ARG_SCALAR("q_length", "u32"),
                                   ARG_SCALAR("size", "u32"),
                                   ARG_SCALAR("v_size", "u32"),
                                   ARG_SCALAR("causal", "u32"),
                                   ARG_SCALAR("left_window", "i32"),
                                   ARG_SCALAR("right_window", "i32"),
                                   ARG_SCALAR("mask_columns", "u32"),
                                   ARG_SCALAR("scale", "f32"),
                                   ARG_SCALAR("cap", "f32"),
                                   ARG_LIST("mask_step", "i64", 4),
                                   {0}};
#define PRESENT_ARGS(now, old, output)                                                                                 \
  { ARG_IN("from", now), ARG_IN("before", old), ARG_OUT("to", output), SIZES, ARG_SCALAR("n", "u32"), ARG_SCALAR("part", "u32"), {0} }
static const rlx_gpu_arg k_args[] = PRESENT_ARGS(ATTENTION_K, ATTENTION_PAST_K, 1);
static const rlx_gpu_arg v_args[] = PRESENT_ARGS(ATTENTION_V, ATTENTION_PAST_V, 2);
static const rlx_gpu_shared shared[] = {{"query", "f32", MOST_SIZE}, {"chances", "f32", 256}, {0}};
enum { ATTEND, PRESENT_K, PRESENT_V };
static const rlx_gpu_function functions[] = {
    [ATTEND] = {.name = "attention", .args = args, .shared = shared, .make_body = make_body},
    [PRESENT_K] = {.name = "present_keys", .args = k_args, .body = present_body},
    [PRESENT_V] = {.name = "present_values", .args = v_args, .body = present_body},
    {0},
};

/* ---- launching ---- */

static void shape_of(const rlx_gpu_dispatch *d, attention_shape *s) {
  const attention_params *p = rlx_gpu_params(d);
  const rlx_operand *q = rlx_gpu_input(d, 0), *k = rlx_gpu_input(d, 1), *v = rlx_gpu_input(d, 2);
  const rlx_operand *past = rlx_gpu_input(d, ATTENTION_PAST_K);
  *s = (attention_shape){.packed = q->rank == 3, .batch = q->dims[0]};
  int length = s->packed ? 1 : 2, last = q->rank - 1;
  s->q_heads = s->packed ? p->q_num_heads : q->dims[1];
  s->kv_heads = s->packed ? p->kv_num_heads : k->dims[1];
  s->q_length = q->dims[length];
  s->kv_length = k->dims[length];
  s->size = q->dims[last] / (s->packed ? s->q_heads : 1);
  s->v_size = v->dims[last] / (s->packed ? s->kv_heads : 1);
  s->past = past && past->rank == 4 ? past->dims[2] : 0;
  s->total = s->past + s->kv_length;
  s->scale = p->given & 1 ? (double)p->scale : s->size ? 1 / sqrt((double)s->size) : 1;
}

static void set_mask(rlx_gpu_dispatch *d, const rlx_operand *mask) {
  int64_t step[4] = {0}, at = 1;
  for (int i = mask ? mask->rank - 1 : -1; i >= 0; i--) {
    step[4 - mask->rank + i] = mask->dims[i] == 1 ? 0 : at;
    at *= mask->dims[i];
  }
  rlx_gpu_set_int(d, "mask_columns", mask && mask->rank ? mask->dims[mask->rank - 1] : 0);
  rlx_gpu_set_ints(d, "mask_step", step, 4);
}

static void set_sizes(rlx_gpu_dispatch *d, const attention_shape *s) {
  const attention_params *p = rlx_gpu_params(d);
  rlx_gpu_set_int(d, "kv_heads", s->kv_heads);
  rlx_gpu_set_int(d, "kv_length", s->kv_length);
  rlx_gpu_set_int(d, "past", s->past);
  rlx_gpu_set_int(d, "total", s->total);
  rlx_gpu_set_int(d, "packed_rows", s->packed);
  rlx_gpu_set_int(d, "rows", s->batch * s->q_heads * s->q_length);
  rlx_gpu_set_int(d, "q_heads", s->q_heads);
  rlx_gpu_set_int(d, "q_length", s->q_length);
  rlx_gpu_set_int(d, "size", s->size);
  rlx_gpu_set_int(d, "v_size", s->v_size);
  rlx_gpu_set_int(d, "causal", p->is_causal != 0);
  rlx_gpu_set_int(d, "left_window", p->left_window_size < INT32_MAX ? p->left_window_size : INT32_MAX);
  rlx_gpu_set_int(d, "right_window", p->right_window_size < INT32_MAX ? p->right_window_size : INT32_MAX);
  rlx_gpu_set_float(d, "scale", s->scale);
  rlx_gpu_set_float(d, "cap", (double)p->softcap);
}

static rlx_status launch_present(rlx_gpu_dispatch *d, int function, int output, int64_t part) {
  const rlx_operand *to = rlx_gpu_output(d, output);
  if (!to || to->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(to->count));
  rlx_gpu_set_int(d, "n", to->count);
  rlx_gpu_set_int(d, "part", part);
  return launch_items(d, function, to->count, 256);
}

static rlx_status encode(rlx_gpu_dispatch *d) {
  attention_shape s;
  shape_of(d, &s);
  if (s.size > MOST_SIZE || s.v_size > MOST_SIZE) return RLX_FAIL(UNSUPPORTED, "heads of more than %d", MOST_SIZE);
  RLX_TRY(launch_fits(s.batch * s.q_heads * s.q_length));
  RLX_TRY(launch_fits(s.total));
  set_sizes(d, &s);
  set_mask(d, rlx_gpu_input(d, ATTENTION_MASK));
  if (rlx_gpu_output(d, 0)->count) RLX_TRY(launch_items(d, ATTEND, s.batch * s.q_heads * s.q_length, 1));
  RLX_TRY(launch_present(d, PRESENT_K, 1, s.size));
  return launch_present(d, PRESENT_V, 2, s.v_size);
}

static bool wanted(const rlx_node *n, int i) { return i < n->output_count && *n->outputs[i]->name; }

static const char *why_not(const rlx_node *n) {
  const attention_params *p = rlx_node_params(n);
  const char *wrong = NULL;
  for (int i = 0; i < 6 && !wrong; i++)
    if (i != ATTENTION_MASK) wrong = launch_needs_real(n, i);
  const rlx_type *mask = rlx_node_input_type(n, ATTENTION_MASK), *q = rlx_node_input_type(n, 0),
                 *v = rlx_node_input_type(n, 2);
  if (wrong) return wrong;
  if (mask && mask->dtype == RLX_DOUBLE) return "a mask of doubles";
  if (wanted(n, 3)) return "the scores are wanted";
  if (q->rank != 4 && q->rank != 3) return "the rank of Q is not known";
  int64_t heads = q->rank == 3 ? p->q_num_heads : 1, kv = q->rank == 3 ? p->kv_num_heads : 1;
  int64_t size = q->dims[q->rank - 1], v_size = v->rank == q->rank ? v->dims[v->rank - 1] : -1;
  if (size < 0 || v_size < 0 || heads < 1 || kv < 1) return rlx_depends_on_extents;
  return size / heads > MOST_SIZE || v_size / kv > MOST_SIZE ? rlx_reason("heads of more than %d", MOST_SIZE) : NULL;
}

static const char *why_not_bound(const rlx_bound *b) {
  const attention_params *p = rlx_bound_params(b);
  const rlx_type *q = rlx_bound_input(b, 0), *v = rlx_bound_input(b, 2);
  int64_t heads = q->rank == 3 ? p->q_num_heads : 1, kv = q->rank == 3 ? p->kv_num_heads : 1;
  if (heads < 1 || kv < 1) return "heads are not given";
  return q->dims[q->rank - 1] / heads > MOST_SIZE || v->dims[v->rank - 1] / kv > MOST_SIZE
             ? rlx_reason("heads of more than %d", MOST_SIZE)
             : NULL;
}

static const rlx_gpu_kernel attention = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.Attention",
             .version_min = 23,
             .version_max = INT32_MAX,
             .name = "fused",
             .why_not = why_not,
             .why_not_bound = why_not_bound},
    .functions = functions,
    .encode = encode,
};
static const rlx_gpu_kernel *const kernels[] = {&attention, NULL};
const rlx_module gpu_attention = {.gpu_kernels = kernels};
