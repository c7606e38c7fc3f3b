/* attn.c — gdino.ms_deform_attn: multi-scale deformable attention with its projections, as in Grounding DINO. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "deform.h"

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* Weights [out, in] of port i; any of them RLX_UNKNOWN. NULL, or what does not fit. */
static const char *check_weight(const rlx_type *const *inputs, int i, int64_t out, int64_t in) {
  static const char *const names[] = {"value", "offset", "attention", "output"};
  const char *name = names[(i - ATTN_VALUE_WEIGHT) / 2];
  const rlx_type *w = inputs[i], *b = inputs[i + 1];
  if (w->rank != RLX_UNKNOWN && w->rank != 2) return rlx_reason("the %s weight has rank %d, not 2", name, w->rank);
  if (b->rank != RLX_UNKNOWN && b->rank != 1) return rlx_reason("the %s bias has rank %d, not 1", name, b->rank);
  int64_t has_out = w->rank == 2 ? w->dims[0] : RLX_UNKNOWN, has_in = w->rank == 2 ? w->dims[1] : RLX_UNKNOWN;
  int64_t has_bias = b->rank == 1 ? b->dims[0] : RLX_UNKNOWN;
  if (out != RLX_UNKNOWN && has_out != RLX_UNKNOWN && has_out != out)
    return rlx_reason("the %s weight has %lld rows, not %lld", name, (long long)has_out, (long long)out);
  if (in != RLX_UNKNOWN && has_in != RLX_UNKNOWN && has_in != in)
    return rlx_reason("the %s weight has %lld columns, not %lld", name, (long long)has_in, (long long)in);
  if (has_out != RLX_UNKNOWN && has_bias != RLX_UNKNOWN && has_bias != has_out)
    return rlx_reason("the %s bias has %lld elements, not %lld", name, (long long)has_bias, (long long)has_out);
  return NULL;
}

static int64_t dim(const rlx_type *t, int from_end) {
  return t->rank == RLX_UNKNOWN ? RLX_UNKNOWN : t->dims[t->rank - from_end];
}

static bool differ(int64_t a, int64_t b) { return a != b && a != RLX_UNKNOWN && b != RLX_UNKNOWN; }

/* query [queries, d], source [places, d], reference [queries, levels, 2 or 4]; all with a leading batch or none. */
static const char *check_sequences(const rlx_type *const *inputs, const attn_shape *s) {
  const rlx_type *q = inputs[ATTN_QUERY], *x = inputs[ATTN_SOURCE], *r = inputs[ATTN_REFERENCE];
  if (q->rank != RLX_UNKNOWN && q->rank != 2 && q->rank != 3) return rlx_reason("a query of rank %d", q->rank);
  if (x->rank != RLX_UNKNOWN && x->rank != 2 && x->rank != 3) return rlx_reason("a source of rank %d", x->rank);
  if (r->rank != RLX_UNKNOWN && r->rank != 3 && r->rank != 4) return rlx_reason("reference points of rank %d", r->rank);
  if (differ(q->rank, x->rank) || (q->rank != RLX_UNKNOWN && differ(q->rank + 1, r->rank)))
    return "query, source and reference points do not all have a batch, or none";
  if (differ(dim(x, 2), s->levels.total))
    return rlx_reason("the levels have %lld places, the source %lld", (long long)s->levels.total, (long long)dim(x, 2));
  if (differ(dim(r, 2), s->levels.count))
    return rlx_reason("reference points of %lld levels, not %lld", (long long)dim(r, 2), (long long)s->levels.count);
  if (differ(dim(r, 1), 2) && differ(dim(r, 1), 4))
    return rlx_reason("reference points of %lld numbers, not 2 or 4", (long long)dim(r, 1));
  if (differ(dim(r, 3), dim(q, 2))) return "as many reference points as queries are needed";
  bool batched = q->rank == 3 && x->rank == 3 && r->rank == 4;
  if (batched && (differ(q->dims[0], x->dims[0]) || differ(q->dims[0], r->dims[0])))
    return "query, source and reference points have different batches";
  return NULL;
}

const char *attn_resolve(const attn_params *p, const rlx_type *const *inputs, attn_shape *s) {
  *s = (attn_shape){.heads = p->heads, .points = p->points};
  if (p->shapes.count % 2) return "level_shapes are not pairs of height and width";
  const char *bad = deform_levels_from(p->shapes.data, p->shapes.count / 2, &s->levels);
  if (!bad) bad = check_sequences(inputs, s);
  if (bad) return bad;
  const rlx_type *q = inputs[ATTN_QUERY];
  s->batch = q->rank == RLX_UNKNOWN ? RLX_UNKNOWN : q->rank == 3 ? q->dims[0] : 1;
  s->queries = dim(q, 2);
  s->query_width = dim(q, 1);
  s->source_width = dim(inputs[ATTN_SOURCE], 1);
  s->reference = dim(inputs[ATTN_REFERENCE], 1);
  s->width = dim(inputs[ATTN_VALUE_WEIGHT], 2);
  s->out_width = dim(inputs[ATTN_OUTPUT_WEIGHT], 2);
  int64_t samples = p->heads * s->levels.count * p->points;
  if (s->width != RLX_UNKNOWN && s->width % p->heads)
    return rlx_reason("a value of width %lld in %lld heads", (long long)s->width, (long long)p->heads);
  bad = check_weight(inputs, ATTN_VALUE_WEIGHT, RLX_UNKNOWN, s->source_width);
  if (!bad) bad = check_weight(inputs, ATTN_OFFSET_WEIGHT, 2 * samples, s->query_width);
  if (!bad) bad = check_weight(inputs, ATTN_SCORE_WEIGHT, samples, s->query_width);
  return bad ? bad : check_weight(inputs, ATTN_OUTPUT_WEIGHT, RLX_UNKNOWN, s->width);
}

const char *attn_resolve_run(const rlx_ctx *ctx, attn_shape *s) {
  rlx_type types[ATTN_INPUTS];
  const rlx_type *inputs[ATTN_INPUTS];
  for (int i = 0; i < ATTN_INPUTS; i++) {
    types[i] = (rlx_type){.dtype = ctx->inputs[i].dtype, .rank = ctx->inputs[i].rank};
    memcpy(types[i].dims, ctx->inputs[i].dims, (size_t)types[i].rank * sizeof *types[i].dims);
    inputs[i] = &types[i];
  }
  return attn_resolve(ctx->params, inputs, s);
}

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *inputs[ATTN_INPUTS], *q = rlx_infer_input(ctx, ATTN_QUERY);
  for (int i = 0; i < ATTN_INPUTS; i++) inputs[i] = rlx_infer_input(ctx, i);
  attn_shape s;
  const char *bad = attn_resolve(rlx_infer_params(ctx), inputs, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (q->rank == RLX_UNKNOWN) return RLX_OK;
  int64_t dims[3] = {s.batch, s.queries, s.out_width};
  rlx_infer_set(ctx, 0, q->rank, dims + 3 - q->rank);
  return RLX_OK;
}

/* ---- the reference ---------------------------------------------------------------------------------------------- */

typedef struct attn_reals {
  double *in[ATTN_INPUTS];
  double *value, *out;                     /* [batch, places, width]; of the output's size */
  double *offsets, *scores, *places, *sum; /* of one query */
} attn_reals;

/* y = W x + b */
static void project(const double *w, const double *b, const double *x, int64_t out, int64_t in, double *y) {
  for (int64_t o = 0; o < out; o++) {
    double sum = b[o];
    for (int64_t i = 0; i < in; i++) sum += w[o * in + i] * x[i];
    y[o] = sum;
  }
}

static void softmax(double *x, int64_t n) {
  double peak = x[0], sum = 0;
  for (int64_t i = 1; i < n; i++) peak = x[i] > peak ? x[i] : peak;
  for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - peak);
  for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

/* Where the samples of a query lie, from its reference points and the offsets of all heads. */
static void locate(const attn_shape *s, const double *reference, const double *offsets, double *places) {
  int64_t samples = s->levels.count * s->points;
  for (int64_t i = 0; i < s->heads * samples; i++) {
    int64_t level = i % samples / s->points;
    const double *r = reference + level * s->reference;
    const deform_level *map = &s->levels.of[level];
    for (int c = 0; c < 2; c++) {
      double unit = s->reference == 4 ? r[2 + c] * 0.5 / (double)s->points : 1 / (double)(c ? map->height : map->width);
      places[2 * i + c] = r[c] + offsets[2 * i + c] * unit;
    }
  }
}

static void attend(const attn_shape *s, attn_reals *r, int64_t query) {
  int64_t samples = s->levels.count * s->points, b = query / s->queries, head_width = s->width / s->heads;
  const double *x = r->in[ATTN_QUERY] + query * s->query_width;
  project(r->in[ATTN_OFFSET_WEIGHT], r->in[ATTN_OFFSET_BIAS], x, 2 * s->heads * samples, s->query_width, r->offsets);
  project(r->in[ATTN_SCORE_WEIGHT], r->in[ATTN_SCORE_BIAS], x, s->heads * samples, s->query_width, r->scores);
  locate(s, r->in[ATTN_REFERENCE] + query * s->levels.count * s->reference, r->offsets, r->places);
  memset(r->sum, 0, (size_t)s->width * sizeof *r->sum);
  for (int64_t h = 0; h < s->heads; h++) {
    softmax(r->scores + h * samples, samples);
    const deform_head_f64 head = {.value = r->value + b * s->levels.total * s->width + h * head_width,
                                  .places = r->places + 2 * h * samples,
                                  .weights = r->scores + h * samples,
                                  .stride = s->width,
                                  .width = head_width,
                                  .points = s->points};
    deform_sample_f64(&s->levels, &head, r->sum + h * head_width);
  }
  project(r->in[ATTN_OUTPUT_WEIGHT], r->in[ATTN_OUTPUT_BIAS], r->sum, s->out_width, s->width,
          r->out + query * s->out_width);
}

static double *room(int64_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static bool reals_open(const rlx_ctx *ctx, const attn_shape *s, attn_reals *r) {
  int64_t samples = s->heads * s->levels.count * s->points;
  bool good = true;
  for (int i = 0; i < ATTN_INPUTS; i++) good = (r->in[i] = deform_load(&ctx->inputs[i])) && good;
  good = (r->value = room(s->batch * s->levels.total * s->width)) && good;
  good = (r->out = room(ctx->outputs[0].count)) && good;
  good = (r->offsets = room(2 * samples)) && good;
  good = (r->scores = room(samples)) && good;
  good = (r->places = room(2 * samples)) && good;
  return (r->sum = room(s->width)) && good;
}

static void reals_close(attn_reals *r) {
  for (int i = 0; i < ATTN_INPUTS; i++) free(r->in[i]);
  free(r->value);
  free(r->out);
  free(r->offsets);
  free(r->scores);
  free(r->places);
  free(r->sum);
}

static rlx_status eval(rlx_ctx *ctx) {
  attn_shape s;
  attn_reals r = {.value = NULL};
  const char *bad = attn_resolve_run(ctx, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  rlx_status status = RLX_OK;
  if (reals_open(ctx, &s, &r)) {
    for (int64_t i = 0; i < s.batch * s.levels.total; i++)
      project(r.in[ATTN_VALUE_WEIGHT], r.in[ATTN_VALUE_BIAS], r.in[ATTN_SOURCE] + i * s.source_width, s.width,
              s.source_width, r.value + i * s.width);
    for (int64_t i = 0; i < s.batch * s.queries; i++) attend(&s, &r, i);
    deform_store(&ctx->outputs[0], r.out);
  } else {
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for operands in double");
  }
  reals_close(&r);
  return status;
}

/* ---- record ----------------------------------------------------------------------------------------------------- */

#define REALS (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16))
#define PORT(name) {name, "T", REALS, 0, 0}
#define SIZE(attr_name, member)                                                                                        \
  {.name = attr_name, .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED | RLX_RANGED, .offset = offsetof(attn_params, member), \
   .min = 1, .max = 4096}

const rlx_op vision_ms_deform_attn = {
    .struct_size = sizeof(rlx_op),
    .name = "gdino.ms_deform_attn",
    .doc =
        "Multi-scale deformable attention (Zhu et al. 2020) with its four projections, weights [out, in]. The value is "
        "projected from source [places, d], maps of level_shapes (height, width) one after the other, and split into "
        "heads. Each query has, for each head, level and point, an offset and a score, whose softmax over levels and "
        "points weighs a bilinear sample at reference + offset / (width, height), or, with references (x, y, width, "
        "height), at (x, y) + offset / points * (width, height) / 2; places are location * size - 0.5, zero outside. "
        "The output projection of the heads' sums is the result [queries, d]. A leading batch is permitted.",
    .samples =
        (const char *const[]){"float[5,8], float[14,8], float[5,2,2], float[8,8], float[8], float[24,8], float[24], "
                              "float[12,8], float[12], float[8,8], float[8] {num_heads = 2, num_points = 3, "
                              "level_shapes = [3, 4, 1, 2]}",
                              "float[2,3,6], float[2,6,6], float[2,3,1,4], float[4,6], float[4], float[8,6], "
                              "float[8], float[4,6], float[4], float[5,4], float[5] {num_heads = 2, num_points = "
                              "2, level_shapes = [2, 3]}",
                              "double[0,2], double[4,2], double[0,1,2], double[2,2], double[2], double[2,2], "
                              "double[2], double[1,2], double[1], double[2,2], double[2] {num_heads = 1, "
                              "num_points = 1, level_shapes = [2, 2]}",
                              NULL},
    .inputs = (const rlx_port[]){PORT("query"),
                                 PORT("source"),
                                 PORT("reference_points"),
                                 PORT("value_weight"),
                                 PORT("value_bias"),
                                 PORT("offset_weight"),
                                 PORT("offset_bias"),
                                 PORT("attention_weight"),
                                 PORT("attention_bias"),
                                 PORT("output_weight"),
                                 PORT("output_bias"),
                                 {0}},
    .outputs = (const rlx_port[]){PORT("output"), {0}},
    .attrs = (const rlx_attr_def[]){SIZE("num_heads", heads),
                                    SIZE("num_points", points),
                                    {.name = "level_shapes",
                                     .kind = RLX_ATTR_INTS,
                                     .flags = RLX_REQUIRED,
                                     .offset = offsetof(attn_params, shapes)},
                                    {0}},
    .params_size = sizeof(attn_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = attn_vjp,
    .lower = attn_lower,
    .eval = eval,
};
