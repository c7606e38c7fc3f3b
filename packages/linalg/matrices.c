/* matrices.c — shapes of batches of matrices, and running an op on each matrix of a batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg.h"

enum { SLOTS_PER_THREAD = 2 };

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* What a node's inputs are. Dims may be unknown where infer asks. */
typedef struct batch {
  int rank; /* dims before the matrix */
  int64_t dims[RLX_MAX_RANK], count;
  bool vector; /* B has no columns */
  matrix_call one;
} batch;

static int64_t size_of(char letter, const matrix_call *c) {
  int64_t least = c->m == RLX_UNKNOWN || c->n == RLX_UNKNOWN ? RLX_UNKNOWN : c->m < c->n ? c->m : c->n;
  bool full = c->params->full != 0;
  switch (letter) {
    case 'm': return c->m;
    case 'n': return c->n;
    case 'k': return c->k;
    case 'u':
    case 'q': return full ? c->m : least;
    case 'v': return full ? c->n : least;
    default: return least;
  }
}

static int64_t elements(const char *shape, const matrix_call *c) {
  int64_t count = 1;
  for (; *shape; shape++) count *= size_of(*shape, c);
  return count;
}

static bool differ(int64_t a, int64_t b) { return a != b && a != RLX_UNKNOWN && b != RLX_UNKNOWN; }

/* NULL, or what is wrong with B beside A of known rank. */
static const char *resolve_b(const linalg_op *op, const rlx_type *a, const rlx_type *b, batch *t) {
  t->one.k = RLX_UNKNOWN;
  if (b->rank == RLX_UNKNOWN) return NULL;
  if (b->rank != a->rank && b->rank != a->rank - 1)
    return rlx_reason("a right side of rank %d with matrices of rank %d", b->rank, a->rank);
  t->vector = b->rank == a->rank - 1;
  for (int d = 0; d < t->rank; d++) {
    if (differ(a->dims[d], b->dims[d]))
      return rlx_reason("batch dim %d is %lld in A and %lld in B", d, (long long)a->dims[d], (long long)b->dims[d]);
  }
  int64_t rows = size_of(op->b[0], &t->one);
  if (differ(rows, b->dims[t->rank]))
    return rlx_reason("B has %lld rows, A has %lld", (long long)b->dims[t->rank], (long long)rows);
  t->one.k = t->vector ? 1 : b->dims[t->rank + 1];
  return NULL;
}

static const char *resolve(const linalg_op *op, const linalg_params *p, const rlx_type *a, const rlx_type *b,
                           batch *t) {
  *t = (batch){.rank = a->rank - 2, .count = 1, .one = {.params = p, .k = 1}};
  t->one.epsilon = a->dtype == RLX_FLOAT ? 0x1p-23 : 0x1p-52;
  if (a->rank < 2) return rlx_reason("a matrix of rank %d", a->rank);
  t->one.m = a->dims[a->rank - 2];
  t->one.n = a->dims[a->rank - 1];
  if (op->square && differ(t->one.m, t->one.n))
    return rlx_reason("a matrix of %lld x %lld is not square", (long long)t->one.m, (long long)t->one.n);
  for (int d = 0; d < t->rank; d++) {
    t->dims[d] = a->dims[d];
    t->count *= a->dims[d];
  }
  return b ? resolve_b(op, a, b, t) : NULL;
}

rlx_status linalg_infer(rlx_infer *ctx, const linalg_op *op) {
  const rlx_type *a = rlx_infer_input(ctx, 0), *b = op->b ? rlx_infer_input(ctx, 1) : NULL;
  batch t;
  if (a->rank == RLX_UNKNOWN) return RLX_OK;
  const char *bad = resolve(op, rlx_infer_params(ctx), a, b, &t);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (op->square && t.one.m == RLX_UNKNOWN) t.one.m = t.one.n;
  if (op->square && t.one.n == RLX_UNKNOWN) t.one.n = t.one.m;
  for (int i = 0; i < rlx_infer_output_count(ctx) && i < 3 && op->out[i]; i++) {
    int rank = t.rank;
    bool with_b = strchr(op->out[i], 'k') != NULL;
    if (with_b && b->rank == RLX_UNKNOWN) continue;
    for (const char *s = op->out[i]; *s && !(t.vector && *s == 'k'); s++) t.dims[rank++] = size_of(*s, &t.one);
    rlx_infer_set(ctx, i, rank, t.dims);
  }
  return RLX_OK;
}

static rlx_type type_of(const rlx_operand *o) {
  rlx_type t = {.dtype = o->dtype, .rank = o->rank};
  memcpy(t.dims, o->dims, (size_t)o->rank * sizeof *o->dims);
  return t;
}

static rlx_status resolve_run(const rlx_ctx *ctx, const linalg_op *op, batch *t) {
  rlx_type a = type_of(&ctx->inputs[0]), b = {0};
  if (op->b) b = type_of(&ctx->inputs[1]);
  const char *bad = resolve(op, ctx->params, &a, op->b ? &b : NULL, t);
  if (!bad && (t->one.m > INT32_MAX / 8 || t->one.n > INT32_MAX / 8 || t->one.k > INT32_MAX / 8)) bad = "too large";
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : RLX_OK;
}

/* ---- what goes wrong -------------------------------------------------------------------------------------------- */

static void report(const rlx_ctx *ctx, int64_t matrix, linalg_fault f) {
  long long at = (long long)matrix, index = (long long)f.index;
  switch (f.code) {
    case LINALG_FINE: break;
    case LINALG_SINGULAR:
      (void)rlx_fail(ctx, RLX_INVALID, "matrix %lld is singular: pivot %lld is zero", at, index);
      break;
    case LINALG_NOT_DEFINITE:
      (void)rlx_fail(ctx, RLX_INVALID, "matrix %lld is not positive definite: its leading minor of order %lld is not",
                     at, index);
      break;
    case LINALG_NO_CONVERGENCE: (void)rlx_fail(ctx, RLX_KERNEL, "matrix %lld: no convergence", at); break;
    case LINALG_NO_MEMORY: (void)rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a matrix"); break;
  }
}

static rlx_status check_finite(const rlx_ctx *ctx, int input, int64_t per_matrix) {
  const rlx_operand *o = &ctx->inputs[input];
  for (int64_t i = 0; i < o->count; i++) {
    if (isfinite(o->dtype == RLX_FLOAT ? (double)((const float *)o->data)[i] : ((const double *)o->data)[i])) continue;
    return rlx_fail(ctx, RLX_INVALID, "%s of matrix %lld has an element (number %lld) that is not finite",
                    input ? "the right side" : "operand A", (long long)(i / per_matrix), (long long)(i % per_matrix));
  }
  return RLX_OK;
}

static rlx_status check_operands(const rlx_ctx *ctx, const linalg_op *op, batch *t) {
  rlx_status status = resolve_run(ctx, op, t);
  if (status == RLX_OK) status = check_finite(ctx, 0, t->one.m * t->one.n);
  return status == RLX_OK && op->b ? check_finite(ctx, 1, elements(op->b, &t->one)) : status;
}

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static void load(const rlx_operand *o, int64_t from, int64_t count, double *to) {
  if (o->dtype == RLX_DOUBLE) memcpy(to, (const double *)o->data + from, (size_t)count * sizeof *to);
  for (int64_t i = 0; o->dtype == RLX_FLOAT && i < count; i++) to[i] = (double)((const float *)o->data)[from + i];
}

static void store(const rlx_operand *o, int64_t to, int64_t count, const double *from) {
  for (int64_t i = 0; i < count; i++) {
    if (o->dtype == RLX_DOUBLE)
      ((double *)o->data)[to + i] = from[i];
    else if (o->dtype == RLX_FLOAT)
      ((float *)o->data)[to + i] = (float)from[i];
    else
      ((int64_t *)o->data)[to + i] = (int64_t)from[i];
  }
}

/* Matrix by matrix, each in doubles of its own. */
static void eval_batch(const rlx_ctx *ctx, const linalg_op *op, const batch *t, double *memory) {
  matrix_call c = t->one;
  int64_t a = c.m * c.n, b = op->b ? elements(op->b, &c) : 0, sizes[3] = {0};
  double *a_at = memory, *b_at = a_at + a, *at = b_at + b;
  c.a = a_at;
  c.b = b_at;
  for (int k = 0; k < 3 && op->out[k]; k++) {
    sizes[k] = elements(op->out[k], &c);
    c.out[k] = at;
    at += sizes[k];
  }
  for (int64_t i = 0; i < t->count; i++) {
    load(&ctx->inputs[0], i * a, a, a_at);
    if (op->b) load(&ctx->inputs[1], i * b, b, b_at);
    linalg_fault f = op->reference(&c);
    if (f.code != LINALG_FINE) {
      report(ctx, i, f);
      return;
    }
    for (int k = 0; k < ctx->output_count && k < 3; k++)
      if (ctx->outputs[k].data) store(&ctx->outputs[k], i * sizes[k], sizes[k], c.out[k]);
  }
}

rlx_status linalg_eval(rlx_ctx *ctx, const linalg_op *op) {
  batch t;
  rlx_status status = check_operands(ctx, op, &t);
  if (status != RLX_OK) return status;
  int64_t room = t.one.m * t.one.n + (op->b ? elements(op->b, &t.one) : 0) + 1;
  for (int k = 0; k < 3 && op->out[k]; k++) room += elements(op->out[k], &t.one);
  double *memory = malloc((size_t)room * sizeof *memory);
  if (!memory) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for matrices in double");
  eval_batch(ctx, op, &t, memory);
  free(memory);
  return RLX_OK;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

/* A slot's memory: room for each output, wanted or not, and the call's work. */
static int64_t slot_bytes(const linalg_op *op, const matrix_call *c) {
  int64_t count = op->kernel->work ? op->kernel->work(c) : 0;
  for (int k = 0; k < 3 && op->out[k]; k++) count += elements(op->out[k], c);
  return (count * (int64_t)sizeof(double) + 127) / 64 * 64;
}

int64_t linalg_workspace(rlx_bound *b, const linalg_op *op) {
  batch t;
  if (resolve(op, rlx_bound_params(b), rlx_bound_input(b, 0), op->b ? rlx_bound_input(b, 1) : NULL, &t)) return 0;
  int64_t most = (int64_t)rlx_bound_threads(b) * SLOTS_PER_THREAD;
  return (t.count < most ? t.count : most) * slot_bytes(op, &t.one);
}

typedef struct batch_run {
  rlx_ctx *ctx;
  const linalg_op *op;
  batch t;
  int64_t slots, slot;
  linalg_fn *fn;
} batch_run;

static void run_one(const batch_run *r, int64_t i, char *memory) {
  const rlx_ctx *ctx = r->ctx;
  matrix_call c = r->t.one;
  int64_t real = ctx->inputs[0].dtype == RLX_FLOAT ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
  c.a = (const char *)ctx->inputs[0].data + i * c.m * c.n * real;
  if (r->op->b) c.b = (const char *)ctx->inputs[1].data + i * elements(r->op->b, &c) * real;
  for (int k = 0; k < 3 && r->op->out[k]; k++) {
    int64_t count = elements(r->op->out[k], &c);
    bool wanted = k < ctx->output_count && ctx->outputs[k].data;
    int64_t size = wanted && ctx->outputs[k].dtype == RLX_INT64 ? (int64_t)sizeof(int64_t) : real;
    c.out[k] = wanted ? (char *)ctx->outputs[k].data + i * count * size : memory;
    if (!wanted) memory += count * (int64_t)sizeof(double);
  }
  c.work = memory;
  report(ctx, i, r->fn(&c));
}

static void run_slots(void *arg, int64_t begin, int64_t end) {
  const batch_run *r = arg;
  for (int64_t slot = begin; slot < end; slot++) {
    char *memory = (char *)r->ctx->workspace + slot * r->slot;
    int64_t last = r->t.count * (slot + 1) / r->slots;
    for (int64_t i = r->t.count * slot / r->slots; i < last && !rlx_cancelled(r->ctx); i++) run_one(r, i, memory);
  }
}

rlx_status linalg_run(rlx_ctx *ctx, const linalg_op *op) {
  batch_run r = {.ctx = ctx, .op = op};
  rlx_status status = check_operands(ctx, op, &r.t);
  if (status != RLX_OK) return status;
  r.fn = ctx->inputs[0].dtype == RLX_FLOAT ? op->kernel->f32 : op->kernel->f64;
  r.slot = slot_bytes(op, &r.t.one);
  r.slots = ctx->workspace_bytes / r.slot;
  rlx_parallel_for(ctx, r.slots, 1, run_slots, &r);
  return rlx_cancelled(ctx) ? RLX_CANCELLED : RLX_OK;
}
