/* attn_kernel.c — gdino.ms_deform_attn on the CPU: the value is projected once; then each thread takes a few queries
 * through offsets, scores, sampling and the output projection, so that nothing of the size queries × heads × levels ×
 * points is ever made. */
#include <math.h>
#include <string.h>

#include "deform.h"

enum { QUERIES = 32, PLACES = 64, SLOTS_PER_THREAD = 4 }; /* rows of a product */

/* The parts of the workspace, in floats. */
typedef struct attn_memory {
  int64_t weights[4], biases[4];     /* packed: value, offsets, scores, output */
  int64_t value, zeros, slots, slot; /* slot: the floats of one */
  int64_t slot_count;
} attn_memory;

static int64_t round_up(int64_t floats) { return (floats + 15) / 16 * 16; }

static int64_t slot_floats(const attn_shape *s) {
  int64_t samples = s->heads * s->levels.count * s->points;
  return round_up(QUERIES * (3 * samples + s->width) + 2 * s->levels.count * s->points);
}

/* Floats of all of it. */
static int64_t lay_out(const attn_shape *s, int64_t slot_count, attn_memory *m) {
  int64_t samples = s->heads * s->levels.count * s->points, at = 0;
  const int64_t out[4] = {s->width, 2 * samples, samples, s->out_width};
  const int64_t in[4] = {s->source_width, s->query_width, s->query_width, s->width};
  for (int i = 0; i < 4; i++) {
    m->weights[i] = at;
    m->biases[i] = at += round_up(deform_packed(out[i], in[i]));
    at += round_up(deform_packed_bias(out[i]));
  }
  m->zeros = at;
  m->value = at += round_up(s->width);
  m->slots = at += round_up(s->batch * s->levels.total * s->width);
  m->slot = slot_floats(s);
  m->slot_count = slot_count;
  return at + slot_count * m->slot;
}

static int64_t blocks_of(const attn_shape *s) { return (s->queries + QUERIES - 1) / QUERIES * s->batch; }

static int64_t workspace(rlx_bound *b, const void *state) {
  const rlx_type *inputs[ATTN_INPUTS];
  attn_shape s;
  attn_memory m;
  (void)state;
  for (int i = 0; i < ATTN_INPUTS; i++) inputs[i] = rlx_bound_input(b, i);
  if (attn_resolve(rlx_bound_params(b), inputs, &s)) return 0;
  int64_t blocks = blocks_of(&s), most = (int64_t)rlx_bound_threads(b) * SLOTS_PER_THREAD;
  return lay_out(&s, blocks < most ? blocks : most, &m) * (int64_t)sizeof(float);
}

typedef struct attn_run {
  rlx_ctx *ctx;
  attn_shape s;
  attn_memory m;
  float *memory;
  const deform_isa *isa;
} attn_run;

static const float *input(const attn_run *r, int i) { return r->ctx->inputs[i].data; }

/* Product `which`: value, offsets, scores, output. */
static void product(const attn_run *r, int which, const float *x, int64_t k, int64_t rows, float *y, int64_t columns) {
  r->isa->product(&(deform_product){.x = x,
                                    .weights = r->memory + r->m.weights[which],
                                    .bias = r->memory + r->m.biases[which],
                                    .y = y,
                                    .rows = rows,
                                    .k = k,
                                    .columns = columns,
                                    .x_stride = k,
                                    .y_stride = columns});
}

static void project_places(void *arg, int64_t begin, int64_t end) {
  const attn_run *r = arg;
  const attn_shape *s = &r->s;
  product(r, 0, input(r, ATTN_SOURCE) + begin * s->source_width, s->source_width, end - begin,
          r->memory + r->m.value + begin * s->width, s->width);
}

static void softmax(float *x, int64_t n) {
  float peak = x[0], sum = 0;
  for (int64_t i = 1; i < n; i++) peak = x[i] > peak ? x[i] : peak;
  for (int64_t i = 0; i < n; i++) sum += x[i] = expf(x[i] - peak);
  for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

/* Where the samples of one head lie. */
static void locate(const attn_shape *s, const float *reference, const float *offsets, float *places) {
  for (int64_t l = 0; l < s->levels.count; l++) {
    const float *r = reference + l * s->reference;
    const deform_level *map = &s->levels.of[l];
    bool box = s->reference == 4;
    float across = box ? r[2] * 0.5F / (float)s->points : 1 / (float)map->width;
    float down = box ? r[3] * 0.5F / (float)s->points : 1 / (float)map->height;
    for (int64_t p = l * s->points; p < (l + 1) * s->points; p++) {
      places[2 * p] = r[0] + offsets[2 * p] * across;
      places[2 * p + 1] = r[1] + offsets[2 * p + 1] * down;
    }
  }
}

/* Queries [first, first + count) of one batch, in the memory of a slot. */
static void attend(const attn_run *r, int64_t first, int64_t count, float *memory) {
  const attn_shape *s = &r->s;
  int64_t samples = s->levels.count * s->points, all = s->heads * samples, width = s->width / s->heads;
  float *offsets = memory, *scores = offsets + QUERIES * 2 * all, *sums = scores + QUERIES * all;
  float *places = sums + QUERIES * s->width;
  const float *query = input(r, ATTN_QUERY) + first * s->query_width;
  const float *value = r->memory + r->m.value + first / s->queries * s->levels.total * s->width;
  product(r, 1, query, s->query_width, count, offsets, 2 * all);
  product(r, 2, query, s->query_width, count, scores, all);
  for (int64_t i = 0; i < count * s->heads; i++) {
    const float *reference = input(r, ATTN_REFERENCE) + (first + i / s->heads) * s->levels.count * s->reference;
    softmax(scores + i * samples, samples);
    locate(s, reference, offsets + 2 * i * samples, places);
    const deform_head h = {.value = value + i % s->heads * width,
                           .places = places,
                           .weights = scores + i * samples,
                           .zeros = r->memory + r->m.zeros,
                           .stride = s->width,
                           .width = width,
                           .points = s->points};
    r->isa->sample(&s->levels, &h, sums + i * width);
  }
  product(r, 3, sums, s->width, count, (float *)r->ctx->outputs[0].data + first * s->out_width, s->out_width);
}

static void run_slots(void *arg, int64_t begin, int64_t end) {
  const attn_run *r = arg;
  int64_t blocks = blocks_of(&r->s), per = blocks / r->s.batch;
  for (int64_t slot = begin; slot < end; slot++) {
    int64_t last = blocks * (slot + 1) / r->m.slot_count;
    for (int64_t i = blocks * slot / r->m.slot_count; i < last && !rlx_cancelled(r->ctx); i++) {
      int64_t first = i % per * QUERIES, left = r->s.queries - first;
      attend(r, i / per * r->s.queries + first, left < QUERIES ? left : QUERIES,
             r->memory + r->m.slots + slot * r->m.slot);
    }
  }
}

static rlx_status run(rlx_ctx *ctx) {
  attn_run r = {.ctx = ctx, .memory = ctx->workspace, .isa = deform_isa_best()};
  const char *bad = attn_resolve_run(ctx, &r.s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  int64_t fixed = lay_out(&r.s, 0, &r.m);
  r.m.slot_count = (ctx->workspace_bytes / (int64_t)sizeof(float) - fixed) / r.m.slot;
  for (int i = 0; i < 4; i++) {
    const rlx_operand *w = &ctx->inputs[ATTN_VALUE_WEIGHT + 2 * i];
    deform_pack(w->data, w[1].data, w->dims[0], w->dims[1], r.memory + r.m.weights[i], r.memory + r.m.biases[i]);
  }
  memset(r.memory + r.m.zeros, 0, (size_t)r.s.width * sizeof(float));
  rlx_parallel_for(ctx, r.s.batch * r.s.levels.total, PLACES, project_places, &r);
  rlx_parallel_for(ctx, r.m.slot_count, 1, run_slots, &r);
  return rlx_cancelled(ctx) ? RLX_CANCELLED : RLX_OK;
}

static const char *why_not(const rlx_node *n) {
  return rlx_node_input_type(n, ATTN_QUERY)->dtype == RLX_FLOAT ? NULL : "elements are not float";
}

const rlx_cpu_kernel vision_attn_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "gdino.ms_deform_attn", .name = "blocks", .why_not = why_not, .workspace = workspace},
    .run = run,
};
