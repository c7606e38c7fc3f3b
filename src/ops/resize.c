/* resize.c — Resize, and the older Upsample. */
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/_resize.h"

#define RESIZE_TYPES (MOVE_WHOLE)
#define TEXT_ATTR(text_name, member, text)                                                                             \
  { .name = text_name, .kind = RLX_ATTR_STRING, .offset = offsetof(resize_params, member), .default_string = text }
const rlx_attr_def resize_attrs[] = {
    {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(resize_params, axes)},
    {.name = "antialias", .kind = RLX_ATTR_INT, .offset = offsetof(resize_params, antialias)},
    {.name = "exclude_outside", .kind = RLX_ATTR_INT, .offset = offsetof(resize_params, exclude_outside)},
    TEXT_ATTR("coordinate_transformation_mode", coordinates, "half_pixel"),
    TEXT_ATTR("mode", mode, "nearest"),
    TEXT_ATTR("nearest_mode", nearest_mode, "round_prefer_floor"),
    TEXT_ATTR("keep_aspect_ratio_policy", aspect, "stretch"),
    {.name = "cubic_coeff_a",
     .kind = RLX_ATTR_FLOAT,
     .offset = offsetof(resize_params, cubic_a),
     .default_float = -0.75f},
    {.name = "extrapolation_value", .kind = RLX_ATTR_FLOAT, .offset = offsetof(resize_params, extrapolation)},
    {0}};
static const rlx_port resize_inputs_ports[] = {
    {.name = "X", .variable = "T1", .dtypes = RESIZE_TYPES},
    {.name = "roi",
     .dtypes = RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16),
     .flags = RLX_HOST | RLX_OPTIONAL},
    {.name = "scales", .dtypes = RLX_SET(RLX_FLOAT), .flags = RLX_HOST | RLX_OPTIONAL},
    {.name = "sizes", .dtypes = MOVE_INT64, .flags = RLX_HOST | RLX_OPTIONAL},
    {0}};
static const rlx_port resize_outputs[] = {{.name = "Y", .variable = "T1", .dtypes = RESIZE_TYPES}, {0}};

static bool is_empty(const rlx_infer *ctx, int i) { return !infer_given(ctx, i) || infer_length(ctx, i) == 0; }

static rlx_status resize_infer(rlx_infer *ctx) {
  const resize_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  rlx_status status = resize_check(ctx, p);
  bool nearest = p->mode.size == 7 && memcmp(p->mode.data, "nearest", 7) == 0;
  bool moved_only = x->dtype == RLX_STRING || x->dtype == RLX_COMPLEX64 || x->dtype == RLX_COMPLEX128;
  if (status == RLX_OK && moved_only && !nearest)
    return rlx_fail(ctx, RLX_INVALID, "interpolation of %s", rlx_dtype_name(x->dtype));
  if (status != RLX_OK || x->rank == RLX_UNKNOWN) return status;
  bool no_sizes = is_empty(ctx, 3), no_scales = is_empty(ctx, 2);
  const rlx_tensor *sizes = no_sizes ? NULL : rlx_infer_value(ctx, 3);
  const rlx_tensor *scales = no_scales ? NULL : rlx_infer_value(ctx, 2);
  if ((!no_sizes && !sizes) || (!no_scales && !scales)) {
    infer_unknown(ctx, 0, x->rank);
    return RLX_OK;
  }
  resize_inputs in = {0};
  if (sizes) {
    in.sizes = sizes->data;
    in.size_count = sizes->count;
  }
  if (scales) {
    in.scales = scales->data;
    in.scale_count = scales->count;
  }
  resize_request r;
  status = resize_request_of(ctx, p, x->rank, x->dims, &in, &r);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, x->rank, r.out);
  return RLX_OK;
}

static void resize_operands(const rlx_ctx *ctx, resize_inputs *in) {
  *in = (resize_inputs){0};
  if (run_given(ctx, 1)) {
    in->roi = ctx->inputs[1].data;
    in->roi_dtype = ctx->inputs[1].dtype;
    in->roi_count = ctx->inputs[1].count;
  }
  if (run_given(ctx, 2)) {
    in->scales = ctx->inputs[2].data;
    in->scale_count = ctx->inputs[2].count;
  }
  if (run_given(ctx, 3)) {
    in->sizes = ctx->inputs[3].data;
    in->size_count = ctx->inputs[3].count;
  }
}

rlx_status resize_eval(rlx_ctx *ctx) {
  const resize_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  bool texts = x->dtype == RLX_STRING || x->dtype == RLX_COMPLEX64 || x->dtype == RLX_COMPLEX128;
  resize_inputs in;
  resize_request r;
  resize_operands(ctx, &in);
  rlx_status status = resize_request_of(ctx, p, x->rank, x->dims, &in, &r);
  if (status != RLX_OK) return status;
  for (int d = 0; d < y->rank; d++)
    if (r.out[d] != y->dims[d])
      return rlx_fail(ctx, RLX_INVALID, "dim %d of the output is %lld, not %lld", d, (long long)y->dims[d],
                      (long long)r.out[d]);
  resize_plan plan;
  status = resize_make(ctx, p, &r, &plan);
  if (status != RLX_OK) return status;
  if (texts && !plan.nearest) {
    resize_finish(&plan);
    return rlx_fail(ctx, RLX_UNSUPPORTED, "interpolation of %s", rlx_dtype_name(x->dtype));
  }
  int64_t bytes = resize_scratch(&plan, x->dtype, x->count);
  void *scratch = bytes > 0 ? mem_aligned(64, (size_t)bytes) : NULL;
  if (bytes && !scratch)
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld bytes", (long long)bytes);
  else
    status = resize_run(ctx, &plan, scratch);
  mem_free(scratch);
  resize_finish(&plan);
  return status;
}

static rlx_status resize_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const resize_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  rlx_attr attrs[RESIZE_ATTRS] = {
      RLX_ATTR_I("antialias", p->antialias),
      RLX_ATTR_I("exclude_outside", p->exclude_outside),
      RLX_ATTR_F("cubic_coeff_a", p->cubic_a),
      RLX_ATTR_F("extrapolation_value", p->extrapolation),
      {.name = "mode", .kind = RLX_ATTR_STRING, .s = p->mode},
      {.name = "nearest_mode", .kind = RLX_ATTR_STRING, .s = p->nearest_mode},
      {.name = "coordinate_transformation_mode", .kind = RLX_ATTR_STRING, .s = p->coordinates},
      {.name = "keep_aspect_ratio_policy", .kind = RLX_ATTR_STRING, .s = p->aspect},
      {.name = "axes", .kind = RLX_ATTR_INTS, .ints = p->axes.data, .count = (size_t)p->axes.count}};
  rlx_value *inputs[5] = {output_grads[0], graph_op1(g, "onnx.Shape", rlx_node_input(n, 0))};
  for (int i = 1; i < 4 && i < rlx_node_input_count(n); i++) inputs[i + 1] = rlx_node_input(n, i);
  input_grads[0] = rlx_graph_op(g, "rlx.grad.Resize", attrs,
                                p->given & RESIZE_GIVEN_AXES ? RESIZE_ATTRS : RESIZE_ATTRS - 1, inputs, 5);
  return rlx_graph_status(g);
}

static const rlx_op resize = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Resize",
    .version = 11,
    .samples = (const char *const[]){"float[1,1,2,4], , float[4] = {1.0, 1.0, 2.0, 0.5}",
                                     "float[1,2,3,3], , , int64[4] = {1, 2, 5, 4} {mode = \"linear\"}",
                                     "float[1,1,4,4], , float[4] = {1.0, 1.0, 1.5, 1.5} {mode = \"cubic\"}", NULL},
    .doc = "The input sampled on another grid, by scales or to sizes, axis by axis: the nearest element, or "
           "linear or cubic interpolation, optionally with antialiasing.",
    .inputs = resize_inputs_ports,
    .outputs = resize_outputs,
    .attrs = resize_attrs,
    .params_size = sizeof(resize_params),
    .traits = RLX_PURE,
    .infer = resize_infer,
    .vjp = resize_vjp,
    .eval = resize_eval,
};

/* ---- Resize 10 and Upsample: floor of x / scale --------------------------------------------- */

typedef struct upsample_params {
  uint64_t given;
  rlx_string mode;
  rlx_floats scales;
  float height_scale, width_scale;
} upsample_params;

static const rlx_attr_def mode_attrs[] = {
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(upsample_params, mode), .default_string = "nearest"},
    {0}};
static const rlx_attr_def scales_attrs[] = {
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(upsample_params, mode), .default_string = "nearest"},
    {.name = "scales", .kind = RLX_ATTR_FLOATS, .flags = RLX_REQUIRED, .offset = offsetof(upsample_params, scales)},
    {0}};
static const rlx_attr_def height_attrs[] = {
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(upsample_params, mode), .default_string = "nearest"},
    {.name = "height_scale",
     .kind = RLX_ATTR_FLOAT,
     .flags = RLX_REQUIRED,
     .offset = offsetof(upsample_params, height_scale)},
    {.name = "width_scale",
     .kind = RLX_ATTR_FLOAT,
     .flags = RLX_REQUIRED,
     .offset = offsetof(upsample_params, width_scale)},
    {0}};
static const rlx_port upsample_inputs[] = {{.name = "X", .variable = "T", .dtypes = RESIZE_TYPES},
                                           {.name = "scales", .dtypes = RLX_SET(RLX_FLOAT), .flags = RLX_HOST},
                                           {0}};
static const rlx_port image_inputs[] = {{.name = "X", .variable = "T", .dtypes = RESIZE_TYPES}, {0}};
static const rlx_port upsample_outputs[] = {{.name = "Y", .variable = "T", .dtypes = RESIZE_TYPES}, {0}};

static rlx_status upsample_infer(rlx_infer *ctx) {
  const upsample_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  const float image[4] = {1, 1, p->height_scale, p->width_scale};
  const resize_params meant = {.coordinates = {"asymmetric", 10}, .mode = {"nearest", 7}, .aspect = {"stretch", 7}};
  resize_inputs in = {.scales = image, .scale_count = 4};
  resize_request r;
  if (x->rank < 0) return RLX_OK;
  if (rlx_infer_input_count(ctx) > 1) {
    const rlx_tensor *scales = rlx_infer_value(ctx, 1);
    if (!scales) {
      infer_unknown(ctx, 0, x->rank);
      return RLX_OK;
    }
    in.scales = scales->data;
    in.scale_count = scales->count;
  } else if (p->scales.count) {
    in.scales = p->scales.data;
    in.scale_count = p->scales.count;
  }
  RLX_TRY(resize_request_of(ctx, &meant, x->rank, x->dims, &in, &r));
  rlx_infer_set(ctx, 0, x->rank, r.out);
  return RLX_OK;
}

static rlx_value *float_vector(rlx_graph *g, const float *values, int64_t count) {
  rlx_tensor *t = NULL;
  rlx_status status = rlx_tensor_create(RLX_FLOAT, 1, &count, &t);
  if (status != RLX_OK) {
    rlx_graph_fail(g, status, "no memory for %lld scales", (long long)count);
    return NULL;
  }
  if (count) memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

static rlx_status lower_to_resize(rlx_graph *g, const rlx_node *n, rlx_value *scales, rlx_value **outputs) {
  const upsample_params *p = rlx_node_params(n);
  bool bilinear = p->mode.size == 8 && memcmp(p->mode.data, "bilinear", 8) == 0;
  rlx_attr attrs[3] = {
      {.name = "mode", .kind = RLX_ATTR_STRING, .s = bilinear ? (rlx_string){"linear", 6} : p->mode},
      {.name = "coordinate_transformation_mode", .kind = RLX_ATTR_STRING, .s = {"asymmetric", 10}},
      {.name = "nearest_mode", .kind = RLX_ATTR_STRING, .s = {RESIZE_SIMPLE, sizeof RESIZE_SIMPLE - 1}}};
  rlx_value *inputs[3] = {rlx_node_input(n, 0), NULL, scales};
  outputs[0] = rlx_graph_op(g, "onnx.Resize", attrs, 3, inputs, 3);
  return rlx_graph_status(g);
}

static rlx_status scales_input_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  return lower_to_resize(g, n, rlx_node_input(n, 1), outputs);
}

static rlx_status upsample7_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const upsample_params *p = rlx_node_params(n);
  return lower_to_resize(g, n, float_vector(g, p->scales.data, p->scales.count), outputs);
}

static rlx_status upsample1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const upsample_params *p = rlx_node_params(n);
  float scales[4] = {1, 1, p->height_scale, p->width_scale};
  return lower_to_resize(g, n, float_vector(g, scales, 4), outputs);
}

#define OLD_RESIZE(id, op_name, since, text, its_inputs, its_attrs, its_lower, row)                                    \
  static const rlx_op id = {                                                                                           \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = op_name,                                                                                                 \
      .version = since,                                                                                                \
      .doc = text,                                                                                                     \
      .samples = (const char *const[]){row, NULL},                                                                     \
      .inputs = its_inputs,                                                                                            \
      .outputs = upsample_outputs,                                                                                     \
      .attrs = its_attrs,                                                                                              \
      .params_size = sizeof(upsample_params),                                                                          \
      .traits = RLX_PURE,                                                                                              \
      .infer = upsample_infer,                                                                                         \
      .lower = its_lower,                                                                                              \
  }

OLD_RESIZE(resize_10, "onnx.Resize", 10,
           "Resize on the grid x / scale, its nearest element before it, or after it where the axis shrinks.",
           upsample_inputs, mode_attrs, scales_input_lower, "float[1,1,2,4], float[4] = {1.0, 1.0, 2.0, 0.5}");
OLD_RESIZE(upsample_9, "onnx.Upsample", 9, "The old name of Resize.", upsample_inputs, mode_attrs, scales_input_lower,
           "float[1,1,2,2], float[4] = {1.0, 1.0, 2.0, 1.5}");
OLD_RESIZE(upsample_7, "onnx.Upsample", 7, "Upsample with the scales as an attribute.", image_inputs, scales_attrs,
           upsample7_lower, "float[1,1,2,2] {scales = [1.0, 1.0, 2.0, 1.5]}");
OLD_RESIZE(upsample_1, "onnx.Upsample", 1, "Upsample of height and width.", image_inputs, height_attrs, upsample1_lower,
           "float[1,1,2,2] {width_scale = 2.0, height_scale = 1.5}");

static const rlx_op *const ops[] = {&upsample_1, &upsample_7, &upsample_9, &resize_10, &resize, NULL};
const rlx_module ops_resize = {.ops = ops};
