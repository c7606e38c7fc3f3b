/* nms.c — NonMaxSuppression: the best boxes of each class that do not overlap a better one too much. */
#include <stddef.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_move.h"

typedef struct nms_params {
  uint64_t given;
  int64_t center_point_box;
} nms_params;

static const rlx_attr_def nms_attrs[] = {{.name = "center_point_box",
                                          .kind = RLX_ATTR_INT,
                                          .flags = RLX_RANGED,
                                          .offset = offsetof(nms_params, center_point_box),
                                          .min = 0,
                                          .max = 1},
                                         {0}};
static const rlx_port nms_inputs[] = {
    {.name = "boxes", .dtypes = RLX_SET(RLX_FLOAT)},
    {.name = "scores", .dtypes = RLX_SET(RLX_FLOAT)},
    {.name = "max_output_boxes_per_class", .dtypes = MOVE_INT64, .flags = RLX_OPTIONAL},
    {.name = "iou_threshold", .dtypes = RLX_SET(RLX_FLOAT), .flags = RLX_OPTIONAL},
    {.name = "score_threshold", .dtypes = RLX_SET(RLX_FLOAT), .flags = RLX_OPTIONAL},
    {0}};
static const rlx_port nms_outputs[] = {{.name = "selected_indices", .dtypes = MOVE_INT64}, {0}};

static rlx_status nms_infer(rlx_infer *ctx) {
  const rlx_type *boxes = rlx_infer_input(ctx, 0), *scores = rlx_infer_input(ctx, 1);
  int64_t dims[2] = {RLX_UNKNOWN, 3};
  rlx_infer_output(ctx, 0)->dtype = RLX_INT64;
  rlx_infer_set(ctx, 0, 2, dims);
  if ((boxes->rank >= 0 && boxes->rank != 3) || (scores->rank >= 0 && scores->rank != 3))
    return rlx_fail(ctx, RLX_INVALID, "boxes and scores have ranks %d and %d, not 3", boxes->rank, scores->rank);
  if (boxes->rank < 0 || scores->rank < 0) return RLX_OK;
  const int64_t *b = boxes->dims, *s = scores->dims;
  if (b[2] >= 0 && b[2] != 4) return rlx_fail(ctx, RLX_INVALID, "boxes have %lld numbers, not 4", (long long)b[2]);
  if ((b[0] >= 0 && s[0] >= 0 && b[0] != s[0]) || (b[1] >= 0 && s[2] >= 0 && b[1] != s[2]))
    return rlx_fail(ctx, RLX_INVALID, "boxes of %lld × %lld do not fit scores of %lld × … × %lld", (long long)b[0],
                    (long long)b[1], (long long)s[0], (long long)s[2]);
  return RLX_OK;
}

typedef struct box {
  float low[2], high[2];
} box;

static box read_box(const float *v, bool center) {
  box b;
  for (int d = 0; d < 2; d++) {
    float first = center ? v[d] - v[d + 2] / 2 : v[d], second = center ? v[d] + v[d + 2] / 2 : v[d + 2];
    b.low[d] = first < second ? first : second;
    b.high[d] = first < second ? second : first;
  }
  return b;
}

static float area(const box *b) { return (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]); }

static bool overlaps(const box *a, const box *b, float threshold) {
  float shared = 1;
  for (int d = 0; d < 2; d++) {
    float low = a->low[d] > b->low[d] ? a->low[d] : b->low[d];
    float high = a->high[d] < b->high[d] ? a->high[d] : b->high[d];
    if (high <= low) return false;
    shared *= high - low;
  }
  float one = area(a), other = area(b);
  if (one <= 0 || other <= 0) return false;
  return shared / (one + other - shared) > threshold;
}

typedef struct candidate {
  float score;
  int64_t index;
} candidate;

/* Highest score first, the lower index among equals. */
static int compare_candidates(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

typedef struct nms_job {
  const float *boxes, *scores;
  int64_t count, classes, most;
  float iou, score;
  bool center, all_scores;
  candidate *candidates;
  box *chosen;       /* of the class in work */
  int64_t *selected; /* triples */
  int64_t found;
} nms_job;

static void select_class(nms_job *job, int64_t batch, int64_t class) {
  const float *scores = job->scores + (batch * job->classes + class) * job->count;
  const float *boxes = job->boxes + batch * job->count * 4;
  int64_t n = 0, kept = 0;
  for (int64_t i = 0; i < job->count; i++)
    if (scores[i] > job->score || (job->all_scores && scores[i] == scores[i]))
      job->candidates[n++] = (candidate){scores[i], i};
  qsort(job->candidates, (size_t)n, sizeof *job->candidates, compare_candidates);
  for (int64_t c = 0; c < n && kept < job->most; c++) {
    box b = read_box(boxes + job->candidates[c].index * 4, job->center);
    bool suppressed = false;
    for (int64_t k = 0; k < kept && !suppressed; k++) suppressed = overlaps(&job->chosen[k], &b, job->iou);
    if (suppressed) continue;
    job->chosen[kept++] = b;
    int64_t *to = job->selected + 3 * job->found++;
    to[0] = batch;
    to[1] = class;
    to[2] = job->candidates[c].index;
  }
}

static float scalar_float(const rlx_ctx *ctx, int i, float otherwise) {
  return run_given(ctx, i) && ctx->inputs[i].count ? *(const float *)ctx->inputs[i].data : otherwise;
}

static rlx_status nms_eval(rlx_ctx *ctx) {
  const nms_params *p = ctx->params;
  const rlx_operand *boxes = &ctx->inputs[0], *scores = &ctx->inputs[1];
  nms_job job = {.boxes = boxes->data, .scores = scores->data, .count = boxes->dims[1], .classes = scores->dims[1]};
  job.most = run_given(ctx, 2) && ctx->inputs[2].count ? *(const int64_t *)ctx->inputs[2].data : 0;
  job.iou = scalar_float(ctx, 3, 0);
  job.all_scores = !run_given(ctx, 4);
  job.score = scalar_float(ctx, 4, 0);
  job.center = p->center_point_box;
  if (!(job.iou >= 0 && job.iou <= 1)) return rlx_fail(ctx, RLX_INVALID, "iou_threshold is %g", (double)job.iou);
  if (job.most < 0) job.most = 0;
  if (job.most > job.count) job.most = job.count;
  int64_t rows = dim_mul(dim_mul(boxes->dims[0], job.classes), job.most);
  int64_t bytes = dim_mul(rows, 3 * (int64_t)sizeof(int64_t));
  job.candidates = mem_array((size_t)(job.count + 1), sizeof *job.candidates);
  job.chosen = mem_array((size_t)(job.most + 1), sizeof *job.chosen);
  job.selected = bytes < 0 ? NULL : mem_alloc((size_t)bytes + 1);
  rlx_status status = RLX_OK;
  if (!job.candidates || !job.chosen || !job.selected) {
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld boxes", (long long)rows);
  } else {
    for (int64_t b = 0; b < boxes->dims[0] && job.most; b++)
      for (int64_t c = 0; c < job.classes; c++) select_class(&job, b, c);
    int64_t dims[2] = {job.found, 3};
    void *to = rlx_output_shape(ctx, 0, 2, dims);
    if (!to)
      status = RLX_OUT_OF_MEMORY;
    else
      move_bytes(ctx, to, job.selected, job.found * 3 * (int64_t)sizeof(int64_t));
  }
  mem_free(job.candidates);
  mem_free(job.chosen);
  mem_free(job.selected);
  return status;
}

static const rlx_op nms = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.NonMaxSuppression",
    .version = 10,
    .samples =
        (const char *const[]){"float[1,4,4], float[1,2,4], int64[] = {2}, float[] = {0.5}, float[] = {0.1}",
                              "float[2,5,4], float[2,1,5], int64[] = {3}, float[] = {0.3} {center_point_box = 1}",
                              NULL},
    .doc = "For each batch entry and class, boxes by falling score, without those whose overlap (intersection "
           "over union) with one already taken is above iou_threshold: rows of batch, class, box.",
    .inputs = nms_inputs,
    .outputs = nms_outputs,
    .attrs = nms_attrs,
    .params_size = sizeof(nms_params),
    .traits = RLX_PURE,
    .infer = nms_infer,
    .eval = nms_eval,
};

static const rlx_op *const ops[] = {&nms, NULL};
const rlx_module ops_nms = {.ops = ops};
