/* cast.c — onnx.Cast and onnx.CastLike: every pair of number types, and strings. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_cast.h"

rlx_status cast_rule(const void *ctx, const cast_params *p, convert_rule *rule) {
  static const char *const words[] = {[CONVERT_UP] = "up", [CONVERT_DOWN] = "down", [CONVERT_NEAREST] = "nearest"};
  *rule = (convert_rule){.saturate = p->saturate != 0, .rounding = CONVERT_UP};
  if (p->round_mode.size == 0) return RLX_OK;
  for (int i = 0; i < 3; i++) {
    if (p->round_mode.size != strlen(words[i]) || memcmp(p->round_mode.data, words[i], p->round_mode.size) != 0) {
      continue;
    }
    rule->rounding = (convert_rounding)i;
    return RLX_OK;
  }
  return rlx_fail(ctx, RLX_INVALID, "round_mode \"%.*s\" is not up, down or nearest", (int)p->round_mode.size,
                  p->round_mode.data);
}

static bool castable(rlx_dtype dtype) { return dtype == RLX_STRING || convert_supports(dtype); }

static rlx_status infer_cast(rlx_infer *ctx) {
  const cast_params *p = rlx_infer_params(ctx);
  convert_rule rule;
  RLX_TRY(cast_rule(ctx, p, &rule));
  if (p->to <= 0 || p->to >= RLX_DTYPE_COUNT || !castable((rlx_dtype)p->to)) {
    return rlx_fail(ctx, RLX_INVALID, "attribute to = %lld is no type to cast to", (long long)p->to);
  }
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = (rlx_dtype)p->to;
  return RLX_OK;
}

static rlx_status infer_cast_like(rlx_infer *ctx) {
  convert_rule rule;
  RLX_TRY(cast_rule(ctx, rlx_infer_params(ctx), &rule));
  rlx_dtype dtype = rlx_infer_input(ctx, 1)->dtype;
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = dtype;
  return RLX_OK;
}

/* One number as text, NUL-terminated. Integers are read exactly when the whole text is one. */
static bool parse_number(const char *text, rlx_dtype to, void *out, int64_t i, const convert_rule *rule) {
  char *end;
  if (dtype_is_integer(to)) {
    errno = 0;
    bool negative = *text == '-';
    long long value = negative ? strtoll(text, &end, 10) : (long long)strtoull(text, &end, 10);
    if (end != text && *end == 0 && errno == 0) {
      int64_t exact = value;
      convert_run(RLX_INT64, &exact, 0, to, out, i, 1, rule);
      return true;
    }
  }
  double value = strtod(text, &end);
  if (end == text || *end != 0) return false;
  convert_run(RLX_DOUBLE, &value, 0, to, out, i, 1, rule);
  return true;
}

static rlx_status from_strings(rlx_ctx *ctx, const convert_rule *rule) {
  const rlx_string *texts = ctx->inputs[0].data;
  const rlx_operand *out = &ctx->outputs[0];
  if (rlx_dtype_bits(out->dtype) < 8) {
    return rlx_fail(ctx, RLX_UNSUPPORTED, "strings to %s", rlx_dtype_name(out->dtype));
  }
  for (int64_t i = 0; i < out->count; i++) {
    char text[128];
    size_t size = texts[i].size;
    if (size >= sizeof text) return rlx_fail(ctx, RLX_INVALID, "element %lld is no number", (long long)i);
    if (size != 0) memcpy(text, texts[i].data, size);
    text[size] = 0;
    if (!parse_number(text, out->dtype, out->data, i, rule)) {
      return rlx_fail(ctx, RLX_INVALID, "element %lld, \"%.40s\", is no number", (long long)i, text);
    }
  }
  return RLX_OK;
}

/* The shortest text that reads back as the same element; NaN, INF and -INF as ONNX spells them. */
static void print_float(rlx_dtype dtype, double value, char text[40]) {
  if (value != value || value == INFINITY || value == -INFINITY) {
    strcpy(text, value != value ? "NaN" : value > 0 ? "INF" : "-INF");
    return;
  }
  for (int precision = 1; precision <= 17; precision++) {
    uint64_t back = 0;
    snprintf(text, 40, "%.*g", precision, value);
    double read = strtod(text, NULL);
    convert_run(RLX_DOUBLE, &read, 0, dtype, &back, 0, 1, &convert_default);
    if (dtype_load(dtype, &back, 0) == value) return;
  }
}

static rlx_status to_strings(rlx_ctx *ctx) {
  const rlx_operand *in = &ctx->inputs[0];
  rlx_string *out = ctx->outputs[0].data;
  for (int64_t i = 0; i < in->count; i++) {
    char text[40];
    if (dtype_is_float(in->dtype)) {
      print_float(in->dtype, dtype_load(in->dtype, in->data, i), text);
    } else {
      int64_t value = dtype_load_int(in->dtype, in->data, i);
      snprintf(text, sizeof text, in->dtype == RLX_UINT64 ? "%" PRIu64 : "%" PRId64, (uint64_t)value);
    }
    size_t size = strlen(text);
    char *copy = rlx_text(ctx, size);
    if (copy == NULL) return RLX_OUT_OF_MEMORY;
    memcpy(copy, text, size);
    out[i] = (rlx_string){copy, size};
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *in = &ctx->inputs[0], *out = &ctx->outputs[0];
  convert_rule rule;
  RLX_TRY(cast_rule(ctx, ctx->params, &rule));
  if (in->dtype == RLX_STRING && out->dtype == RLX_STRING) {
    if (out->count > 0) memcpy(out->data, in->data, (size_t)out->count * sizeof(rlx_string));
    return RLX_OK;
  }
  if (out->dtype == RLX_STRING) return to_strings(ctx);
  if (in->dtype == RLX_STRING) return from_strings(ctx, &rule);
  convert_run(in->dtype, in->data, 0, out->dtype, out->data, 0, out->count, &rule);
  return RLX_OK;
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  rlx_value *x = rlx_node_input(n, 0);
  bool flows =
      (RLX_SET_FLOATS >> rlx_value_type(x)->dtype & 1) && (RLX_SET_FLOATS >> rlx_node_output_type(n, 0)->dtype & 1);
  if (output_grads[0] == NULL || !flows) return RLX_OK;
  input_grads[0] = rlx_graph_op(g, "onnx.CastLike", NULL, 0, (rlx_value *[]){output_grads[0], x}, 2);
  return rlx_graph_status(g);
}

static rlx_status jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out) {
  if (tangents[0] == NULL || !(RLX_SET_FLOATS >> rlx_node_output_type(n, 0)->dtype & 1)) return RLX_OK;
  out[0] = rlx_graph_op(g, "onnx.CastLike", NULL, 0, (rlx_value *[]){tangents[0], rlx_node_output(n, 0)}, 2);
  return rlx_graph_status(g);
}

/* Opset 1 names the type: "FLOAT". */
typedef struct named_params {
  uint64_t given;
  rlx_string to;
} named_params;

static rlx_dtype named_dtype(rlx_string name) {
  for (int d = 1; d < RLX_DTYPE_COUNT; d++) {
    const char *known = rlx_dtype_name((rlx_dtype)d);
    if (name.size == strlen(known) && strncasecmp(name.data, known, name.size) == 0) return (rlx_dtype)d;
  }
  return RLX_UNDEFINED;
}

static rlx_status infer_named(rlx_infer *ctx) {
  const named_params *p = rlx_infer_params(ctx);
  if (named_dtype(p->to) == RLX_UNDEFINED) {
    return rlx_fail(ctx, RLX_INVALID, "attribute to = \"%.*s\" is no type", (int)p->to.size, p->to.data);
  }
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = named_dtype(p->to);
  return RLX_OK;
}

static rlx_status lower_named(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const named_params *p = rlx_node_params(n);
  rlx_attr to = RLX_ATTR_I("to", named_dtype(p->to));
  rlx_value *x = rlx_node_input(n, 0);
  outputs[0] = rlx_graph_op(g, "onnx.Cast", &to, 1, &x, 1);
  return rlx_graph_status(g);
}

#define CASTABLE ~(RLX_SET(RLX_COMPLEX64) | RLX_SET(RLX_COMPLEX128))
#define RULE_ATTRS                                                                                                     \
  {.name = "saturate", .kind = RLX_ATTR_INT, .offset = offsetof(cast_params, saturate), .default_int = 1}, {           \
    .name = "round_mode", .kind = RLX_ATTR_STRING, .offset = offsetof(cast_params, round_mode), .default_string = "up" \
  }
#define SHARED .struct_size = sizeof(rlx_op), .traits = RLX_PURE, .vjp = vjp, .jvp = jvp

static const rlx_port one_input[] = {{.name = "input", .dtypes = CASTABLE}, {0}};
static const rlx_port free_output[] = {{.name = "output", .dtypes = CASTABLE}, {0}};

static const rlx_op cast = {
    SHARED,
    .name = "onnx.Cast",
    .version = 6,
    .doc = "Converts elements to the type `to`. Integers wrap; floats truncate towards zero to integers.",
    .samples = (const char *const[]){"float[2,3] {to = 7}", "int64[2,3] {to = 1}", "float[5] {to = 16}",
                                     "float[5] {to = 17}", "int32[3] {to = 22}", NULL},
    .inputs = one_input,
    .outputs = free_output,
    .attrs =
        (const rlx_attr_def[]){
            {.name = "to", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = offsetof(cast_params, to)},
            RULE_ATTRS,
            {0}},
    .params_size = sizeof(cast_params),
    .infer = infer_cast,
    .eval = eval,
};

static const rlx_op cast_like = {
    SHARED,
    .name = "onnx.CastLike",
    .version = 15,
    .doc = "Converts elements to the type of the second input, whose contents are not read.",
    .samples = (const char *const[]){"float[2,3], int64[1]", "int32[2,3], float16[4]", NULL},
    .inputs = (const rlx_port[]){{.name = "input", .dtypes = CASTABLE},
                                 {.name = "target_type", .variable = "T2", .dtypes = CASTABLE},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "output", .variable = "T2", .dtypes = CASTABLE}, {0}},
    .attrs = (const rlx_attr_def[]){RULE_ATTRS, {0}},
    .params_size = sizeof(cast_params),
    .infer = infer_cast_like,
    .eval = eval,
};

static const rlx_op cast_named = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Cast",
    .version = 1,
    .samples = (const char *const[]){"float[2,3] {to = \"INT32\"}", NULL},
    .doc = "Cast with the type as a word (an old version, lowered to the newest).",
    .inputs = one_input,
    .outputs = free_output,
    .attrs =
        (const rlx_attr_def[]){
            {.name = "to", .kind = RLX_ATTR_STRING, .flags = RLX_REQUIRED, .offset = offsetof(named_params, to)}, {0}},
    .params_size = sizeof(named_params),
    .traits = RLX_PURE,
    .infer = infer_named,
    .lower = lower_named,
};

static const rlx_op *const ops[] = {&cast, &cast_like, &cast_named, NULL};
const rlx_module ops_cast = {.ops = ops};
