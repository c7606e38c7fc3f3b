/* _elementwise.h — the table of scalar ops as data: rows, their loops per type, and how a node uses them. */
#ifndef OPS_ELEMENTWISE_H
#define OPS_ELEMENTWISE_H

#include <rlx/extend.h>

#include "ops/_broadcast.h"

/* Row numbers, from the table. */
typedef enum ew_row {
#define X(name, ...) EW_##name,
#include "ops/elementwise.def"
#undef X
  EW_ROW_COUNT
} ew_row;

typedef enum ew_kind { EW_VALUE, EW_TEST, EW_DIVIDE, EW_MEAN, EW_POWER, EW_PICK, EW_CLAMP } ew_kind;

/* dtype sets of the table's `types` column. */
#define EW_SET_FLOATS RLX_SET_FLOATS
#define EW_SET_NUMBERS RLX_SET_NUMBERS
#define EW_SET_SIGNED (RLX_SET_FLOATS | RLX_SET_SIGNED)
#define EW_SET_INTEGERS RLX_SET_INTEGERS
#define EW_SET_BOOL RLX_SET(RLX_BOOL)
#define EW_SET_FLOATS8                                                                                                 \
  (RLX_SET_FLOATS | RLX_SET(RLX_FLOAT8E4M3FN) | RLX_SET(RLX_FLOAT8E4M3FNUZ) | RLX_SET(RLX_FLOAT8E5M2) |                \
   RLX_SET(RLX_FLOAT8E5M2FNUZ))
#define EW_SET_EQUAL (RLX_SET_NUMBERS | RLX_SET(RLX_BOOL) | RLX_SET(RLX_STRING))
#define EW_SET_POWERS (RLX_SET_FLOATS | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64))
#define EW_SET_WIDE (EW_SET_POWERS | RLX_SET(RLX_UINT32) | RLX_SET(RLX_UINT64))
#define EW_SET_ANY (EW_SET_EQUAL | EW_SET_FLOATS8 | RLX_SET(RLX_COMPLEX64) | RLX_SET(RLX_COMPLEX128))

enum { EW_ARITY_1 = 1, EW_ARITY_2 = 2, EW_ARITY_3 = 3, EW_ARITY_N = -1 };

typedef struct ew_info {
  const char *name; /* without domain */
  const char *op;   /* "onnx.Abs" */
  int arity;        /* 1, 2, 3 or EW_ARITY_N */
  ew_kind kind;
  int cost;
  uint64_t types;
  const char *words[2]; /* of a choice attribute; else NULL */
  const char *gradients[3];
  const char *expression; /* as written: GPU kernels render it */
} ew_info;
extern const ew_info ew_rows[EW_ROW_COUNT];
/* The row whose op has this dotted name; -1: none. */
int ew_find(const char *op);

/* Attributes of any row as decoded. A row uses at most one of a, ia, choice and one of b, ib. */
typedef struct ew_params {
  uint64_t given;
  float a, b;
  int64_t ia, ib;
  rlx_string choice;
  rlx_ints consumed; /* of opset 1, without meaning */
} ew_params;

/* The numbers a and b of a row's expression. Fails (through ctx) on a word that is no choice. */
rlx_status ew_numbers(const void *ctx, ew_row row, const ew_params *p, double ab[2]);

/* The loop of one row for one type: out[i] = expression over n elements. still: bit k set when operand k
 * is one element for all i. out may be exactly x, y or z, never overlap them otherwise. */
typedef void ew_loop(const void *x, const void *y, const void *z, void *out, int64_t n, unsigned still,
                     const double ab[2]);
/* No iteration depends on another: the output is an input exactly, or apart from all of them. */
#if defined(__clang__)
#define EW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EW_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* One implementation of the table: by dtype (NULL: none), then by row (NULL: none). */
typedef struct ew_table {
  ew_loop *const *types[RLX_DTYPE_COUNT];
} ew_table;
/* The reference: C's own functions, every native type. */
extern const ew_table ew_reference;

/* A row applied to operands of given types and extents: decided once, run many times. */
typedef struct ew_call {
  ew_row row;
  rlx_dtype compute; /* type of the loop's operands, and of its result unless the row tests */
  rlx_dtype result;  /* type the loop writes */
  ew_loop *loop;     /* NULL: the table has none */
  double ab[2];
  int inputs; /* operands of the loop: 1 to 3 */
  rlx_dtype in[3], out;
  bool convert[3], convert_out;
  bool flat; /* no conversion, one row: the loop runs over any range */
  broadcast plan;
} ew_call;

/* The type a row computes in for operands of these types; UNDEFINED if no loop does. */
rlx_dtype ew_compute_type(ew_row row, const rlx_dtype *in, int inputs);
void ew_call_plan(ew_call *c, const ew_table *table, ew_row row, const double ab[2], const rlx_operand *in, int inputs,
                  const rlx_operand *out);
/* Elements [begin, end) of the output; in[i] and out are the data of the operands. */
void ew_call_range(const ew_call *c, const void *const in[3], void *out, int64_t begin, int64_t end);
/* The whole output, on the session's threads. */
void ew_call_run(rlx_ctx *ctx, const ew_call *c, const void *const in[3], void *out);
/* Elements a thread should get at least. */
int64_t ew_grain(ew_row row);

/* The lowest (which 0) or highest (1) value of a native type, for a bound that Clip leaves out. */
void ew_extreme(rlx_dtype dtype, int which, void *value);
/* Rows that DIVIDE: fails if integer y holds a zero. */
rlx_status ew_check_divisor(rlx_ctx *ctx, ew_row row, const rlx_operand *y);

/* The whole op on a run's operands, by the loops of `table`: what eval is. */
rlx_status ew_run(rlx_ctx *ctx, ew_row row, const ew_table *table);

#endif
