/* einsum.c — Einsum: sums of products over labelled dims, contracted pair by pair. */
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_convert.h"
#include "ops/_derivative.h"
#include "ops/_einsum.h"
#include "ops/_strided.h"

typedef struct einsum_params {
  uint64_t given;
  rlx_string equation;
} einsum_params;

static const rlx_attr_def einsum_attrs[] = {
    {.name = "equation", .kind = RLX_ATTR_STRING, .flags = RLX_REQUIRED, .offset = offsetof(einsum_params, equation)},
    {0}};
static const rlx_port einsum_inputs[] = {
    {.name = "Inputs", .variable = "T", .dtypes = RLX_SET_NUMBERS, .flags = RLX_VARIADIC, .min_count = 1}, {0}};
static const rlx_port einsum_outputs[] = {{.name = "Output", .variable = "T", .dtypes = RLX_SET_NUMBERS}, {0}};

/* The spelled terms of every operand and of the output. */
typedef struct einsum_spelled {
  einsum_equation e;
  einsum_dims terms[EINSUM_OPERANDS], output;
  int64_t extents[EINSUM_LABELS];
} einsum_spelled;

static rlx_status spell_all(const void *ctx, const int *ranks, const int64_t *const *dims, einsum_spelled *s) {
  int ellipsis = 0;
  for (int i = 0; i < s->e.operands; i++) {
    rlx_status status = einsum_spell(ctx, &s->e.input[i], ranks[i], &s->terms[i]);
    if (status != RLX_OK) return status;
    int own = einsum_ellipsis_rank(&s->e.input[i], ranks[i]);
    if (own > ellipsis) ellipsis = own;
  }
  int rank = s->e.output.count + (s->e.output.has_ellipsis ? ellipsis - 1 : 0);
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %d is over %d", rank, RLX_MAX_RANK);
  rlx_status status = einsum_spell(ctx, &s->e.output, rank, &s->output);
  return status == RLX_OK ? einsum_extents(ctx, s->terms, dims, s->e.operands, s->extents) : status;
}

static rlx_status einsum_infer(rlx_infer *ctx) {
  const einsum_params *p = rlx_infer_params(ctx);
  einsum_spelled s;
  int ranks[EINSUM_OPERANDS], n = rlx_infer_input_count(ctx);
  const int64_t *dims[EINSUM_OPERANDS];
  rlx_status status = einsum_parse(ctx, p->equation, n, &s.e);
  if (status != RLX_OK) return status;
  for (int i = 0; i < n; i++) {
    const rlx_type *x = rlx_infer_input(ctx, i);
    if (!x) return rlx_fail(ctx, RLX_INVALID, "input %d is left out", i);
    if (x->rank < 0) return RLX_OK;
    ranks[i] = x->rank;
    dims[i] = x->dims;
  }
  status = spell_all(ctx, ranks, dims, &s);
  if (status != RLX_OK) return status;
  int64_t out[RLX_MAX_RANK];
  for (int d = 0; d < s.output.rank; d++) out[d] = s.extents[s.output.label[d]];
  rlx_infer_set(ctx, 0, s.output.rank, out);
  return RLX_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

/* An operand on its way: labels with strides into dense data of the compute type. Owns `owned`. */
typedef struct part {
  int count;
  int8_t label[EINSUM_LABELS];
  int64_t stride[EINSUM_LABELS];
  const void *data;
  void *owned;
} part;

typedef struct einsum_job {
  rlx_ctx *ctx;
  einsum_spelled s;
  rlx_dtype compute;
} einsum_job;

static rlx_dtype compute_type(rlx_dtype dtype) {
  if (dtype == RLX_DOUBLE) return RLX_DOUBLE;
  return dtype_is_float(dtype) ? RLX_FLOAT : RLX_INT64;
}

static void *take_memory(einsum_job *job, int64_t elements) {
  int64_t bytes = dim_mul(elements, (int64_t)dtype_size(job->compute));
  void *p = bytes < 0 ? NULL : mem_aligned(64, (size_t)(bytes ? bytes : 1));
  if (!p) rlx_fail(job->ctx, RLX_OUT_OF_MEMORY, "no memory for %lld elements", (long long)elements);
  return p;
}

/* Operand i: repeated labels become one with the summed stride (a diagonal); extent one broadcasts. */
static rlx_status part_of(einsum_job *job, int i, part *p) {
  const rlx_operand *x = &job->ctx->inputs[i];
  const einsum_dims *t = &job->s.terms[i];
  int64_t strides[RLX_MAX_RANK];
  shape_strides(x->rank, x->dims, strides);
  *p = (part){.data = x->data};
  if (x->dtype != job->compute) {
    p->owned = take_memory(job, x->count);
    if (!p->owned) return RLX_OUT_OF_MEMORY;
    convert_run(x->dtype, x->data, 0, job->compute, p->owned, 0, x->count, &convert_default);
    p->data = p->owned;
  }
  for (int d = 0; d < t->rank; d++) {
    int k = 0;
    while (k < p->count && p->label[k] != t->label[d]) k++;
    if (k == p->count) {
      p->label[p->count] = t->label[d];
      p->stride[p->count++] = 0;
    }
    if (x->dims[d] != 1) p->stride[k] += strides[d];
  }
  return RLX_OK;
}

static int64_t stride_of(const part *p, int label) {
  for (int k = 0; k < p->count; k++)
    if (p->label[k] == label) return p->stride[k];
  return 0;
}

static bool part_has(const part *p, int label) {
  for (int k = 0; k < p->count; k++)
    if (p->label[k] == label) return true;
  return false;
}

typedef struct label_list {
  int count;
  int8_t label[EINSUM_LABELS];
} label_list;

static int64_t list_extent(const einsum_job *job, const label_list *l) {
  int64_t n = 1;
  for (int k = 0; k < l->count; k++) n = dim_mul(n, job->s.extents[l->label[k]]);
  return n;
}

/* to[r] = the sum of row r of dense rows of n elements of the compute type. */
static void sum_rows(rlx_dtype type, void *to, const void *from, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++) {
    double real = 0;
    uint64_t whole = 0;
    if (type == RLX_FLOAT)
      for (int64_t i = 0; i < n; i++) real += (double)((const float *)from)[r * n + i];
    else if (type == RLX_DOUBLE)
      for (int64_t i = 0; i < n; i++) real += ((const double *)from)[r * n + i];
    else
      for (int64_t i = 0; i < n; i++) whole += ((const uint64_t *)from)[r * n + i];
    if (type == RLX_INT64)
      ((uint64_t *)to)[r] = whole;
    else
      dtype_store(type, to, r, real);
  }
}

/* Copies the part's elements in the order of `kept` to dense `to`. */
static void copy_kept(einsum_job *job, const part *p, const label_list *kept, void *to) {
  strided_copy c;
  int64_t step = list_extent(job, kept);
  strided_begin(&c, job->compute, 0, 0);
  for (int k = 0; k < kept->count; k++) {
    int64_t extent = job->s.extents[kept->label[k]];
    step = extent ? step / extent : 0;
    strided_dim(&c, extent, stride_of(p, kept->label[k]), step);
  }
  strided_finish(&c);
  strided_run(job->ctx, &c, p->data, to);
}

/* The part is now the dense data at `to`, which it owns, with these labels. */
static void part_set(const einsum_job *job, part *p, const label_list *labels, void *to) {
  *p = (part){.count = labels->count, .data = to, .owned = to};
  for (int k = labels->count - 1; k >= 0; k--) {
    p->label[k] = labels->label[k];
    p->stride[k] = k == labels->count - 1 ? 1 : p->stride[k + 1] * job->s.extents[labels->label[k + 1]];
  }
}

/* Replaces the part by a dense one with the labels `kept`, summed over its other labels. */
static rlx_status part_pack(einsum_job *job, part *p, const label_list *kept) {
  label_list all = *kept;
  for (int k = 0; k < p->count; k++) {
    bool keep = false;
    for (int j = 0; j < kept->count; j++) keep = keep || kept->label[j] == p->label[k];
    if (!keep) all.label[all.count++] = p->label[k];
  }
  int64_t n = list_extent(job, kept), total = list_extent(job, &all);
  void *to = take_memory(job, total);
  if (!to) return RLX_OUT_OF_MEMORY;
  copy_kept(job, p, &all, to);
  mem_free(p->owned);
  p->owned = to;
  if (all.count > kept->count) {
    void *sums = take_memory(job, n);
    if (!sums) return RLX_OUT_OF_MEMORY;
    sum_rows(job->compute, sums, to, n, n ? total / n : 0);
    mem_free(to);
    p->owned = to = sums;
  }
  part_set(job, p, kept, to);
  return RLX_OK;
}

/* c[b, m, n] = sum over k of a[b, m, k] b[b, k, n]. */
typedef struct product_job {
  const void *a, *b;
  void *c;
  int64_t m, n, k;
} product_job;

#define PRODUCT(T)                                                                                                     \
  static void product_##T(void *arg, int64_t begin, int64_t end) {                                                     \
    const product_job *j = arg;                                                                                        \
    for (int64_t row = begin; row < end; row++) {                                                                      \
      const T *a = (const T *)j->a + row * j->k, *b = (const T *)j->b + row / j->m * j->k * j->n;                      \
      T *restrict c = (T *)j->c + row * j->n;                                                                          \
      if (j->n == 1) {                                                                                                 \
        T sum = 0;                                                                                                     \
        for (int64_t k = 0; k < j->k; k++) sum += a[k] * b[k];                                                         \
        c[0] = sum;                                                                                                    \
        continue;                                                                                                      \
      }                                                                                                                \
      for (int64_t i = 0; i < j->n; i++) c[i] = 0;                                                                     \
      for (int64_t k = 0; k < j->k; k++, b += j->n) {                                                                  \
        T v = a[k];                                                                                                    \
        for (int64_t i = 0; i < j->n; i++) c[i] += v * b[i];                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }
PRODUCT(float)
PRODUCT(double)
PRODUCT(uint64_t)

static bool needed_later(const einsum_job *job, int label, int next) {
  for (int d = 0; d < job->s.output.rank; d++)
    if (job->s.output.label[d] == label) return true;
  for (int i = next; i < job->s.e.operands; i++)
    for (int d = 0; d < job->s.terms[i].rank; d++)
      if (job->s.terms[i].label[d] == label) return true;
  return false;
}

static void list_join(label_list *to, const label_list *a) {
  for (int k = 0; k < a->count; k++) to->label[to->count++] = a->label[k];
}

/* left = left · right, over the labels of both that nothing after operand `next` - 1 needs. */
static rlx_status contract(einsum_job *job, part *left, part *right, int next) {
  label_list batch = {0}, rows = {0}, columns = {0}, inner = {0};
  for (int k = 0; k < left->count; k++) {
    int8_t l = left->label[k];
    bool both = part_has(right, l), needed = needed_later(job, l, next);
    label_list *list = both ? (needed ? &batch : &inner) : needed ? &rows : NULL;
    if (list) list->label[list->count++] = l;
  }
  for (int k = 0; k < right->count; k++)
    if (!part_has(left, right->label[k]) && needed_later(job, right->label[k], next))
      columns.label[columns.count++] = right->label[k];
  label_list a = batch, b = batch, c = batch;
  list_join(&a, &rows);
  list_join(&a, &inner);
  list_join(&b, &inner);
  list_join(&b, &columns);
  list_join(&c, &rows);
  list_join(&c, &columns);
  rlx_status status = part_pack(job, left, &a);
  if (status == RLX_OK) status = part_pack(job, right, &b);
  if (status != RLX_OK) return status;
  int64_t size = list_extent(job, &c);
  void *to = take_memory(job, size);
  if (!to) return RLX_OUT_OF_MEMORY;
  product_job p = {
      left->data, right->data, to, list_extent(job, &rows), list_extent(job, &columns), list_extent(job, &inner)};
  int64_t grain = 16384 / (p.n * p.k + 1) + 1;
  if (size)
    rlx_parallel_for(job->ctx, list_extent(job, &batch) * p.m, grain,
                     job->compute == RLX_FLOAT    ? product_float
                     : job->compute == RLX_DOUBLE ? product_double
                                                  : product_uint64_t,
                     &p);
  mem_free(left->owned);
  part_set(job, left, &c, to);
  return RLX_OK;
}

static rlx_status einsum_all(einsum_job *job, part *left, part *right) {
  rlx_ctx *ctx = job->ctx;
  rlx_operand *y = &ctx->outputs[0];
  rlx_status status = part_of(job, 0, left);
  for (int i = 1; i < job->s.e.operands && status == RLX_OK; i++) {
    status = part_of(job, i, right);
    if (status == RLX_OK) status = contract(job, left, right, i + 1);
    mem_free(right->owned);
    right->owned = NULL;
  }
  label_list out = {.count = job->s.output.rank};
  memcpy(out.label, job->s.output.label, sizeof out.label);
  if (status == RLX_OK) status = part_pack(job, left, &out);
  if (status == RLX_OK) convert_run(job->compute, left->data, 0, y->dtype, y->data, 0, y->count, &convert_default);
  return status;
}

static rlx_status einsum_eval(rlx_ctx *ctx) {
  const einsum_params *p = ctx->params;
  einsum_job job = {.ctx = ctx, .compute = compute_type(ctx->outputs[0].dtype)};
  int ranks[EINSUM_OPERANDS];
  const int64_t *dims[EINSUM_OPERANDS];
  rlx_status status = einsum_parse(ctx, p->equation, ctx->input_count, &job.s.e);
  if (status != RLX_OK) return status;
  for (int i = 0; i < ctx->input_count; i++) {
    ranks[i] = ctx->inputs[i].rank;
    dims[i] = ctx->inputs[i].dims;
  }
  status = spell_all(ctx, ranks, dims, &job.s);
  if (status != RLX_OK) return status;
  part left = {0}, right = {0};
  status = einsum_all(&job, &left, &right);
  mem_free(left.owned);
  mem_free(right.owned);
  return status;
}

static rlx_status lower_products(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const einsum_params *p = rlx_node_params(n);
  einsum_equation e;
  if (rlx_node_input_count(n) != 2) return rlx_graph_fail(g, RLX_UNSUPPORTED, "not two inputs");
  const rlx_type *x = rlx_node_input_type(n, 0), *y = rlx_node_input_type(n, 1);
  rlx_status status = einsum_parse(NULL, p->equation, 2, &e);
  if (status != RLX_OK || x->rank != e.input[0].count || y->rank != e.input[1].count || !dtype_is_float(x->dtype))
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "not floats of known ranks");
  /* A label of extent one in one input only would broadcast, which a product does not. */
  for (int i = 0; i < x->rank; i++)
    for (int j = 0; j < y->rank; j++)
      if (e.input[0].label[i] == e.input[1].label[j] && x->dims[i] != y->dims[j] &&
          (x->dims[i] == 1 || y->dims[j] == 1))
        return rlx_graph_fail(g, RLX_UNSUPPORTED, "a label broadcasts");
  return einsum_lower(g, n, &e, outputs);
}

/* ---- gradient ----------------------------------------------------------------------------- */

static void put_term(const einsum_term *t, char *text, size_t *at) {
  for (int k = 0; k < t->count; k++) {
    int l = t->label[k];
    if (l == EINSUM_ELLIPSIS) {
      memcpy(text + *at, "...", 3);
      *at += 3;
    } else {
      text[(*at)++] = (char)(l < 26 ? 'A' + l : 'a' + l - 26);
    }
  }
}

/* The gradient of one operand as an Einsum: dy and the other operands, then ones for labels that only this operand has
 * and summed over, and identity matrices for labels that it repeats. */
typedef struct einsum_gradient {
  rlx_graph *g;
  rlx_value *inputs[EINSUM_OPERANDS + 2 * RLX_MAX_RANK];
  int count;
  char text[64 * (RLX_MAX_RANK + 4)];
  size_t at;
  bool used[EINSUM_LABELS]; /* labels of the equation */
} einsum_gradient;

static void gradient_operand(einsum_gradient *e, rlx_value *v, const einsum_term *t) {
  if (e->count) e->text[e->at++] = ',';
  put_term(t, e->text, &e->at);
  e->inputs[e->count++] = v;
}

/* The extent of axis d of v, as a vector of one, and what is filled with it. */
static rlx_value *gradient_extra(rlx_graph *g, rlx_value *v, int d, bool square) {
  rlx_value *made = NULL;
  const char *dtype = rlx_dtype_name(rlx_value_type(v)->dtype);
  (void)derivative_text(g, &v, &made,
                        "extra (x) => (y) { n = Shape <start = %d, end = %d> (x) s = %s"
                        " o = ConstantOfShape <value = %s[1] {%d}> (s) y = %s (o) }",
                        d, d + 1, square ? "Concat <axis = 0> (n, n)" : "Identity (n)", dtype, square ? 0 : 1,
                        square ? "EyeLike" : "Identity");
  return made;
}

static bool term_has(const einsum_term *t, int label, int before) {
  for (int k = 0; k < t->count && k < before; k++)
    if (t->label[k] == label) return true;
  return false;
}

/* The labels of the result: those of term i, a repeated one under a name of its own. */
static rlx_status gradient_labels(einsum_gradient *e, const einsum_equation *q, int i, rlx_value *x,
                                  einsum_term *result) {
  const einsum_term *t = &q->input[i];
  int rank = rlx_value_type(x)->rank;
  bool behind = false; /* the ellipsis: axes count from the end */
  *result = *t;
  for (int k = 0; k < t->count; k++) {
    int label = t->label[k], axis = behind ? rank - (t->count - k) : k;
    behind = behind || label == EINSUM_ELLIPSIS;
    bool known = term_has(&q->output, label, q->output.count);
    for (int j = 0; j < q->operands; j++) known |= j != i && term_has(&q->input[j], label, q->input[j].count);
    if (label == EINSUM_ELLIPSIS) {
      if (!known) return rlx_graph_fail(e->g, RLX_UNSUPPORTED, "an ellipsis that is summed over");
      continue;
    }
    if (e->count + 1 >= EINSUM_OPERANDS)
      return rlx_graph_fail(e->g, RLX_UNSUPPORTED, "its equation has too many operands");
    einsum_term one = {.count = 1};
    one.label[0] = (int8_t)label;
    if (term_has(t, label, k)) { /* a diagonal */
      int fresh = 0;
      while (fresh < 52 && e->used[fresh]) fresh++;
      if (fresh == 52) return rlx_graph_fail(e->g, RLX_UNSUPPORTED, "its equation has too many labels");
      e->used[fresh] = true;
      one.count = 2;
      one.label[1] = result->label[k] = (int8_t)fresh;
      gradient_operand(e, gradient_extra(e->g, x, axis, true), &one);
    } else if (!known) {
      gradient_operand(e, gradient_extra(e->g, x, axis, false), &one);
    }
  }
  return rlx_graph_status(e->g);
}

static rlx_status operand_gradient(rlx_graph *g, const rlx_node *n, const einsum_equation *q, int i, rlx_value *dy,
                                   rlx_value **out) {
  einsum_gradient e = {.g = g};
  einsum_term result;
  rlx_value *x = rlx_node_input(n, i);
  if (rlx_value_type(x)->rank < 0) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the rank of input %d is not known", i);
  for (int j = 0; j < q->operands; j++)
    for (int k = 0; k < q->input[j].count; k++)
      if (q->input[j].label[k] != EINSUM_ELLIPSIS) e.used[q->input[j].label[k]] = true;
  gradient_operand(&e, dy, &q->output);
  for (int j = 0; j < q->operands; j++)
    if (j != i) gradient_operand(&e, rlx_node_input(n, j), &q->input[j]);
  rlx_status status = gradient_labels(&e, q, i, x, &result);
  if (status != RLX_OK) return status;
  memcpy(e.text + e.at, "->", 2);
  e.at += 2;
  put_term(&result, e.text, &e.at);
  rlx_attr attr = {.name = "equation", .kind = RLX_ATTR_STRING, .s = {e.text, e.at}};
  rlx_value *grad = rlx_graph_op(g, "onnx.Einsum", &attr, 1, e.inputs, e.count);
  *out = graph_op2(g, "rlx.sum_to_like", grad, x);
  return rlx_graph_status(g);
}

static rlx_status einsum_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const einsum_params *p = rlx_node_params(n);
  einsum_equation e;
  int count = rlx_node_input_count(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  if (count > 8 || einsum_parse(NULL, p->equation, count, &e) != RLX_OK)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "no gradient of Einsum of %d inputs", count);
  for (int i = 0; i < count; i++) {
    rlx_status status = operand_gradient(g, n, &e, i, output_grads[0], &input_grads[i]);
    if (status != RLX_OK) return status;
  }
  return rlx_graph_status(g);
}

static const rlx_op einsum = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Einsum",
    .version = 12,
    .doc = "Products of the inputs' elements, summed over the labels that the equation's output leaves out; "
           "an ellipsis stands for broadcast dims, a repeated label for a diagonal.",
    .samples = (const char *const[]){"float[3,4], float[4,5] {equation = \"ij,jk->ik\"}",
                                     "float[2,3,3] {equation = \"...ii->...i\"}", NULL},
    .inputs = einsum_inputs,
    .outputs = einsum_outputs,
    .attrs = einsum_attrs,
    .params_size = sizeof(einsum_params),
    .traits = RLX_PURE,
    .infer = einsum_infer,
    .vjp = einsum_vjp,
    .lower = lower_products,
    .eval = einsum_eval,
};

static const rlx_op *const ops[] = {&einsum, NULL};
const rlx_module ops_einsum = {.ops = ops};
