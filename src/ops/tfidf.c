/* tfidf.c — TfIdfVectorizer: counts of n-grams. */
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"

typedef struct tfidf_params {
  uint64_t given;
  int64_t longest, shortest, skips;
  rlx_string mode;
  rlx_ints counts, indexes, pool_ints;
  rlx_strings pool_texts;
  rlx_floats weights;
} tfidf_params;

enum { LARGEST_INDEX = 1 << 28 };

static int64_t pool_size(const tfidf_params *p) {
  return p->pool_texts.count ? p->pool_texts.count : p->pool_ints.count;
}

static rlx_status check(const void *ctx, const tfidf_params *p, int64_t *width) {
  int64_t last = 0;
  *width = 0;
  if (p->shortest < 1 || p->longest < p->shortest || p->skips < 0 || p->longest > p->counts.count)
    return rlx_fail(ctx, RLX_INVALID, "n-grams of %lld to %lld with %lld skips, ngram_counts for %lld",
                    (long long)p->shortest, (long long)p->longest, (long long)p->skips, (long long)p->counts.count);
  if (strcmp(p->mode.data, "TF") != 0 && strcmp(p->mode.data, "IDF") != 0 && strcmp(p->mode.data, "TFIDF") != 0)
    return rlx_fail(ctx, RLX_INVALID, "mode '%s'", p->mode.data);
  int64_t grams = 0;
  for (int64_t n = 1; n <= p->counts.count; n++) {
    int64_t end = n < p->counts.count ? p->counts.data[n] : pool_size(p), start = p->counts.data[n - 1];
    if (start < last || end < start || end > pool_size(p) || (end - start) % n)
      return rlx_fail(ctx, RLX_INVALID, "ngram_counts[%lld] is %lld: the pool cannot be cut there", (long long)(n - 1),
                      (long long)start);
    grams += (end - start) / n;
    last = start;
  }
  if (grams != p->indexes.count || (p->weights.count && p->weights.count != grams))
    return rlx_fail(ctx, RLX_INVALID, "%lld n-grams, %lld indexes, %lld weights", (long long)grams,
                    (long long)p->indexes.count, (long long)p->weights.count);
  for (int64_t i = 0; i < grams; i++) {
    if (p->indexes.data[i] < 0 || p->indexes.data[i] > LARGEST_INDEX)
      return rlx_fail(ctx, RLX_INVALID, "ngram_indexes holds %lld", (long long)p->indexes.data[i]);
    if (p->indexes.data[i] >= *width) *width = p->indexes.data[i] + 1;
  }
  return RLX_OK;
}

static rlx_status infer(rlx_infer *ctx) {
  int64_t width = 0;
  RLX_TRY(check(ctx, rlx_infer_params(ctx), &width));
  const rlx_type *x = rlx_infer_input(ctx, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_FLOAT;
  if (x->rank < 0) return RLX_OK;
  if (x->rank != 1 && x->rank != 2) return rlx_fail(ctx, RLX_INVALID, "the input has rank %d, must be 1 or 2", x->rank);
  int64_t dims[2] = {x->rank == 2 ? x->dims[0] : width, width};
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

/* Is item i of x entry k of the pool? */
static bool same(const tfidf_params *p, const rlx_operand *x, int64_t i, int64_t k) {
  if (x->dtype != RLX_STRING)
    return p->pool_ints.count > k && p->pool_ints.data[k] == (x->dtype == RLX_INT32 ? ((const int32_t *)x->data)[i]
                                                                                    : ((const int64_t *)x->data)[i]);
  if (p->pool_texts.count <= k) return false;
  rlx_string a = ((const rlx_string *)x->data)[i], b = p->pool_texts.data[k];
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Where n-grams are looked for. */
typedef struct row {
  const tfidf_params *p;
  const rlx_operand *x;
  int64_t begin, end;
  float *counts;
} row;

/* Counts the n-grams of the pool from `start` whose items are `distance` apart. */
static void count_at(const row *r, int64_t start, int64_t distance, int64_t n, int64_t gram) {
  const tfidf_params *p = r->p;
  int64_t from = p->counts.data[n - 1], to = n < p->counts.count ? p->counts.data[n] : pool_size(p);
  for (int64_t k = from; k < to; k += n, gram++) {
    int64_t j = 0;
    while (j < n && same(p, r->x, start + j * distance, k + j)) j++;
    if (j == n) r->counts[p->indexes.data[gram]] += 1;
  }
}

static rlx_status count_row(rlx_ctx *ctx, const row *r) {
  const tfidf_params *p = r->p;
  int64_t gram = 0, length = r->end - r->begin;
  for (int64_t n = 1; n <= p->longest; n++) {
    int64_t from = p->counts.data[n - 1], to = n < p->counts.count ? p->counts.data[n] : pool_size(p);
    int64_t distances = n == 1 ? 1 : p->skips < length ? p->skips + 1 : length; /* a single item has no gaps */
    for (int64_t d = 1; d <= distances && n >= p->shortest; d++) {
      int64_t span = (n - 1) * d;
      if (rlx_cancelled(ctx)) return RLX_CANCELLED;
      for (int64_t start = r->begin; span < length && start + span < r->end; start++) count_at(r, start, d, n, gram);
    }
    gram += (to - from) / n;
  }
  return RLX_OK;
}

static void weigh(const row *r) {
  const tfidf_params *p = r->p;
  if (strcmp(p->mode.data, "TF") == 0) return;
  bool times = strcmp(p->mode.data, "TFIDF") == 0;
  for (int64_t g = 0; g < p->indexes.count; g++) {
    float *c = &r->counts[p->indexes.data[g]], w = p->weights.count ? p->weights.data[g] : 1;
    if (*c > 0) *c = times ? *c * w : w;
  }
}

static rlx_status eval(rlx_ctx *ctx) {
  const tfidf_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  rlx_operand *y = &ctx->outputs[0];
  int64_t rows = x->rank == 2 ? x->dims[0] : 1, length = x->dims[x->rank - 1], width = y->dims[y->rank - 1];
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; i < rows; i++) {
    row r = {p, x, i * length, (i + 1) * length, (float *)y->data + i * width};
    RLX_TRY(count_row(ctx, &r));
    weigh(&r);
  }
  return RLX_OK;
}

#define AT(member) offsetof(tfidf_params, member)
static const rlx_attr_def attrs[] = {
    {.name = "max_gram_length", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = AT(longest)},
    {.name = "min_gram_length", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = AT(shortest)},
    {.name = "max_skip_count", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = AT(skips)},
    {.name = "mode", .kind = RLX_ATTR_STRING, .flags = RLX_REQUIRED, .offset = AT(mode)},
    {.name = "ngram_counts", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = AT(counts)},
    {.name = "ngram_indexes", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = AT(indexes)},
    {.name = "pool_int64s", .kind = RLX_ATTR_INTS, .offset = AT(pool_ints)},
    {.name = "pool_strings", .kind = RLX_ATTR_STRINGS, .offset = AT(pool_texts)},
    {.name = "weights", .kind = RLX_ATTR_FLOATS, .offset = AT(weights)},
    {0}};

static const rlx_op tfidf = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.TfIdfVectorizer",
    .version = 9,
    .samples =
        (const char *const[]){
            "int32[6] {mode = \"TF\", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, ngram_counts = [0, "
            "2], ngram_indexes = [0, 1, 2], pool_int64s = [1, 2, 1, 2]}",
            "string[2,4] {mode = \"IDF\", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = "
            "[0], ngram_indexes = [0, 1], pool_strings = [\"a\", \"bc\"], weights = [2.0, 0.5]}",
            NULL},
    .doc = "How often each n-gram of a pool is found in a row, with up to max_skip_count items left out between its "
           "items; "
           "weighted as mode says.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = RLX_SET(RLX_STRING) | RLX_SET_INDEX}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs = attrs,
    .params_size = sizeof(tfidf_params),
    .traits = RLX_PURE,
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_tfidf = {.ops = (const rlx_op *const[]){&tfidf, NULL}};
