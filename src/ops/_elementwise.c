/* _elementwise.c — applies a row of the table to operands: types, broadcasting, conversion in tiles. */
#include "ops/_elementwise.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ops/_convert.h"

const ew_info ew_rows[EW_ROW_COUNT] = {
#define A_FLOAT(attr, value)
#define B_FLOAT(attr, value)
#define A_INT(attr, value)
#define B_INT(attr, value)
#define A_CHOICE(attr, first, second) first, second
#define A_MUST_CHOOSE(attr, first, second) first, second
#define STRIP(...) __VA_ARGS__
#define X(name_, version, arity_, ports, types_, kind_, cost_, attributes, expression_, dx, dy, dz)                     \
  [EW_##name_] = {.name = #name_,                                                                                      \
                  .op = "onnx." #name_,                                                                                \
                  .arity = EW_ARITY_##arity_,                                                                          \
                  .kind = EW_##kind_,                                                                                  \
                  .cost = cost_,                                                                                       \
                  .types = EW_SET_##types_,                                                                            \
                  .words = {STRIP attributes},                                                                         \
                  .gradients = {dx, dy, dz},                                                                           \
                  .expression = #expression_},
#include "ops/elementwise.def"
#undef X
};

int ew_find(const char *op) {
  for (int r = 0; r < EW_ROW_COUNT; r++) {
    if (strcmp(ew_rows[r].op, op) == 0) return r;
  }
  return -1;
}

static bool same_word(rlx_string s, const char *word) {
  return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

rlx_status ew_numbers(const void *ctx, ew_row row, const ew_params *p, double ab[2]) {
  ab[0] = (double)p->a + (double)p->ia;
  ab[1] = (double)p->b + (double)p->ib;
  const char *const *words = ew_rows[row].words;
  if (words[0] == NULL || p->choice.size == 0 || same_word(p->choice, words[0])) return RLX_OK;
  if (!same_word(p->choice, words[1])) {
    return rlx_fail(ctx, RLX_INVALID, "attribute value \"%.*s\" is neither %s nor %s", (int)p->choice.size,
                    p->choice.data, words[0], words[1]);
  }
  ab[0] = 1;
  return RLX_OK;
}

/* ---- types ---- */

static rlx_dtype unsigned_of_size(size_t size) {
  switch (size) {
    case 1: return RLX_UINT8;
    case 2: return RLX_UINT16;
    case 4: return RLX_UINT32;
    case 8: return RLX_UINT64;
    case 16: return RLX_COMPLEX128;
    default: return RLX_UNDEFINED;
  }
}

/* Powers: in float or double for float bases, exactly for integers to integers, else in double. */
static rlx_dtype power_type(rlx_dtype base, rlx_dtype exponent) {
  bool wide_exponent = exponent == RLX_DOUBLE || exponent == RLX_INT32 || exponent == RLX_INT64 ||
                       exponent == RLX_UINT32 || exponent == RLX_UINT64;
  if (dtype_is_float(base)) return base == RLX_DOUBLE || wide_exponent ? RLX_DOUBLE : RLX_FLOAT;
  if (dtype_is_float(exponent)) return RLX_DOUBLE;
  return RLX_INT64;
}

rlx_dtype ew_compute_type(ew_row row, const rlx_dtype *in, int inputs) {
  if (ew_rows[row].kind == EW_PICK) return unsigned_of_size(dtype_size(in[1]));
  if (ew_rows[row].kind == EW_POWER && inputs > 1) return power_type(in[0], in[1]);
  if (!convert_supports(in[0]) || dtype_size(in[0]) == 0) return RLX_UNDEFINED;
  return dtype_is_float(in[0]) && in[0] != RLX_DOUBLE ? RLX_FLOAT : in[0];
}

void ew_extreme(rlx_dtype dtype, int which, void *value) {
  int bits = rlx_dtype_bits(dtype);
  if (dtype_is_float(dtype)) {
    dtype_store(dtype, value, 0, which ? INFINITY : -INFINITY);
  } else if (dtype_is_signed(dtype)) {
    int64_t low = INT64_MIN >> (64 - bits);
    dtype_store_int(dtype, value, 0, which ? -(low + 1) : low);
  } else {
    dtype_store_int(dtype, value, 0, which ? -1 : 0);
  }
}

/* ---- planning ---- */

void ew_call_plan(ew_call *c, const ew_table *table, ew_row row, const double ab[2], const rlx_operand *in, int inputs,
                  const rlx_operand *out) {
  broadcast_shape shapes[3];
  c->row = row;
  c->inputs = inputs;
  c->convert[0] = c->convert[1] = c->convert[2] = false;
  for (int i = 0; i < inputs; i++) {
    c->in[i] = in[i].dtype;
    shapes[i] = (broadcast_shape){in[i].rank, in[i].dims};
  }
  c->out = out->dtype;
  c->compute = ew_compute_type(row, c->in, inputs);
  c->result = ew_rows[row].kind == EW_TEST ? RLX_BOOL : c->compute;
  c->loop = c->compute != RLX_UNDEFINED && table->types[c->compute] ? table->types[c->compute][row] : NULL;
  c->ab[0] = ab[0];
  c->ab[1] = ab[1];
  bool converts = false;
  if (ew_rows[row].kind != EW_PICK) {
    for (int i = 0; i < inputs; i++) converts |= c->convert[i] = c->in[i] != c->compute;
    converts |= c->convert_out = c->out != c->result;
  } else {
    c->convert_out = false;
  }
  broadcast_plan(&c->plan, (broadcast_shape){out->rank, out->dims}, shapes, inputs);
  c->flat = !converts && c->plan.rank == 1;
}

int64_t ew_grain(ew_row row) { return 65536 / (ew_rows[row].cost + 1); }

/* ---- running ---- */

enum { TILE = BROADCAST_TILE };

/* A piece with conversions, at most TILE elements. */
static void run_converted(const ew_call *c, const broadcast_piece *p, void *out) {
  double tiles[3][TILE], result[TILE]; /* room for any compute type */
  const void *in[3] = {NULL, NULL, NULL};
  for (int i = 0; i < c->inputs; i++) {
    in[i] = p->in[i];
    if (!c->convert[i]) continue;
    int64_t count = p->still >> i & 1 ? 1 : p->count;
    convert_run(c->in[i], p->in[i], 0, c->compute, tiles[i], 0, count, &convert_default);
    in[i] = tiles[i];
  }
  void *to = c->convert_out ? (void *)result : out;
  c->loop(in[0], in[1], in[2], to, p->count, p->still, c->ab);
  if (c->convert_out) convert_run(c->result, result, 0, c->out, out, 0, p->count, &convert_default);
}

void ew_call_range(const ew_call *c, const void *const data[3], void *out, int64_t begin, int64_t end) {
  bool converts = c->convert_out || c->convert[0] || c->convert[1] || c->convert[2];
  size_t sizes[3], size = dtype_size(c->out);
  for (int i = 0; i < c->inputs; i++) sizes[i] = dtype_size(c->in[i]);
  _Alignas(64) broadcast_tile tiles[3];
  broadcast_walk walk;
  broadcast_piece piece;
  broadcast_walk_start(&walk, &c->plan, data, sizes, tiles, converts ? TILE : INT64_MAX);
  broadcast_walk_range(&walk, begin, end);
  while (broadcast_walk_next(&walk, &piece)) {
    void *to = (char *)out + (size_t)piece.at * size;
    if (converts) {
      run_converted(c, &piece, to);
    } else {
      c->loop(piece.in[0], c->inputs > 1 ? piece.in[1] : NULL, c->inputs > 2 ? piece.in[2] : NULL, to, piece.count,
              piece.still, c->ab);
    }
  }
}

typedef struct range_job {
  const ew_call *call;
  const void *const *in;
  void *out;
} range_job;

static void range_body(void *arg, int64_t begin, int64_t end) {
  const range_job *job = arg;
  ew_call_range(job->call, job->in, job->out, begin, end);
}

void ew_call_run(rlx_ctx *ctx, const ew_call *c, const void *const in[3], void *out) {
  range_job job = {c, in, out};
  int64_t grain = ew_grain(c->row);
  if (c->plan.count <= grain) {
    ew_call_range(c, in, out, 0, c->plan.count);
  } else {
    rlx_parallel_for(ctx, c->plan.count, grain, range_body, &job);
  }
}

rlx_status ew_check_divisor(rlx_ctx *ctx, ew_row row, const rlx_operand *y) {
  if (ew_rows[row].kind != EW_DIVIDE || !dtype_is_integer(y->dtype)) return RLX_OK;
  size_t size = dtype_size(y->dtype);
  bool zero = false;
  switch (size) {
#define CASE(bits)                                                                                                     \
  case bits / 8:                                                                                                       \
    for (int64_t i = 0; i < y->count; i++) zero |= ((const uint##bits##_t *)y->data)[i] == 0;                          \
    break;
    CASE(8)
    CASE(16)
    CASE(32)
    CASE(64)
#undef CASE
    default: break;
  }
  return zero ? rlx_fail(ctx, RLX_INVALID, "integer division by zero") : RLX_OK;
}

/* Runs one loop call over operands; RLX_UNSUPPORTED if the table has no loop. */
static rlx_status run_once(rlx_ctx *ctx, ew_row row, const ew_table *table, const double ab[2], const rlx_operand *in,
                           int inputs, const rlx_operand *out) {
  ew_call c;
  ew_call_plan(&c, table, row, ab, in, inputs, out);
  if (c.loop == NULL) {
    return rlx_fail(ctx, RLX_UNSUPPORTED, "%s of element type %s", ew_rows[row].name, rlx_dtype_name(in[0].dtype));
  }
  const void *data[3] = {in[0].data, inputs > 1 ? in[1].data : NULL, inputs > 2 ? in[2].data : NULL};
  ew_call_run(ctx, &c, data, out->data);
  return RLX_OK;
}

/* Variadic rows: the first two inputs into the output, then each further one. */
static rlx_status run_fold(rlx_ctx *ctx, ew_row row, const ew_table *table, const double ab[2]) {
  const rlx_operand *out = &ctx->outputs[0];
  if (ctx->input_count == 1) {
    convert_run(out->dtype, ctx->inputs[0].data, 0, out->dtype, out->data, 0, out->count, &convert_default);
    return RLX_OK;
  }
  rlx_operand in[2] = {ctx->inputs[0], ctx->inputs[1]};
  RLX_TRY(run_once(ctx, row, table, ab, in, 2, out));
  in[0] = *out;
  for (int i = 2; i < ctx->input_count; i++) {
    in[1] = ctx->inputs[i];
    RLX_TRY(run_once(ctx, row, table, ab, in, 2, out));
  }
  if (ew_rows[row].kind != EW_MEAN) return RLX_OK;
  double count;
  dtype_store(out->dtype, &count, 0, ctx->input_count);
  in[1] = (rlx_operand){.data = &count, .count = 1, .dtype = out->dtype};
  return run_once(ctx, EW_Div, table, ab, in, 2, out);
}

rlx_status ew_run(rlx_ctx *ctx, ew_row row, const ew_table *table) {
  const ew_info *info = &ew_rows[row];
  double ab[2];
  RLX_TRY(ew_numbers(ctx, row, ctx->params, ab));
  if (info->arity == EW_ARITY_N) return run_fold(ctx, row, table, ab);
  rlx_operand in[3] = {ctx->inputs[0]};
  uint64_t bounds[2];
  for (int i = 1; i < info->arity; i++) {
    if (info->kind == EW_CLAMP && (i >= ctx->input_count || ctx->inputs[i].data == NULL)) {
      ew_extreme(in[0].dtype, i - 1, &bounds[i - 1]);
      in[i] = (rlx_operand){.data = &bounds[i - 1], .count = 1, .dtype = in[0].dtype};
    } else {
      in[i] = ctx->inputs[i];
    }
  }
  if (info->arity == 2) RLX_TRY(ew_check_divisor(ctx, row, &in[1]));
  return run_once(ctx, row, table, ab, in, info->arity, &ctx->outputs[0]);
}
