/* sparse.h — what the files of the sparse package share: matrices in CSR, their typed bodies, ports, and derivatives.
 */
#ifndef SPARSE_H
#define SPARSE_H

#include <rlx/extend.h>

/* ---- matrices -------------------------------------------------------------------------------------------------------
 */

/* A matrix in compressed sparse rows: the entries of row i are values[k] at column col[k] for ptr[i] <= k < ptr[i + 1].
 * Columns of a row need not be sorted; entries of one place are summed. All pointers are borrowed. */
typedef struct csr {
  int64_t rows, cols, entries;
  const void *values; /* NULL: only the pattern */
  const void *col, *ptr;
  rlx_dtype type;  /* of values: RLX_FLOAT or RLX_DOUBLE */
  rlx_dtype index; /* of col and ptr: RLX_INT32 or RLX_INT64 */
} csr;

/* Multiplies rows begin..end of a by `width` columns of x: y[i][w] = sum of a[i][j] x[j][w]. */
typedef struct csr_product {
  const csr *a;
  const void *x;
  void *y;
  int64_t width;
} csr_product;

/* The bodies that depend on the type of values and of indices: csr_body.h, once for each pair. */
typedef struct csr_calls {
  /* Row pointers in order and within the entries; columns within the matrix. Fails through ctx. */
  rlx_status (*check)(const void *ctx, const csr *a);
  /* Columns of every row strictly increasing. */
  bool (*canonical)(const csr *a);
  /* Bodies of parallel loops over the rows; arg is a csr_product. */
  void (*multiply)(void *arg, int64_t begin, int64_t end);
  void (*multiply_vector)(void *arg, int64_t begin, int64_t end); /* width 1 */
  /* y = transposed a times x, all of it; y is set. */
  void (*multiply_transposed)(const csr_product *p);
  /* The transposed matrix, entries of a row in order of the rows they come from. values_t, or col_t may be NULL.
   * ptr_t has cols + 1 elements. place[k], if given, is where entry k went. */
  void (*transpose)(const csr *a, void *values_t, void *col_t, void *ptr_t, int64_t *place);
  /* values[k] = u[row] v[col], summed over `width` columns, for rows begin..end; arg is an outer. */
  void (*outer)(void *arg, int64_t begin, int64_t end);
  /* Sorts rows and sums entries of one place, from a transposed twice, in place; returns how many entries are left. */
  int64_t (*merge)(int64_t rows, void *values, void *col, void *ptr);
  /* Incomplete factorisations of canonical matrices, in place of the arrays given, and their solves. NULL, or why not,
   * with *row the row that stopped it. */
  const char *(*ilu0)(const csr *a, void *factor, void *diagonal, void *work, int64_t *row);
  void (*ilu0_solve)(const csr *a, const void *factor, const void *diagonal, const void *r, void *z);
  int64_t (*lower)(const csr *a, void *values, void *col, void *ptr);
  const char *(*ic0)(const csr *lower, void *factor, void *inverse, int64_t *row);
  void (*ic0_solve)(const csr *lower, const void *factor, const void *inverse, const void *r, void *z);
  const char *(*jacobi)(const csr *a, void *inverse, int64_t *row);
} csr_calls;

enum { OUTER_PLAIN, OUTER_SYMMETRIC, OUTER_TRIANGLE };

typedef struct outer {
  const csr *a; /* pattern */
  const void *u, *v;
  void *values;
  int64_t width;
  int form;
} outer;

const csr_calls *csr_calls_of(rlx_dtype type, rlx_dtype index);
static inline int64_t csr_index_bytes(rlx_dtype index) { return index == RLX_INT64 ? 8 : 4; }
static inline int64_t csr_value_bytes(rlx_dtype type) { return type == RLX_DOUBLE ? 8 : 4; }

/* The matrix in inputs first, first + 1, first + 2 of a run, with `cols` columns; not checked. */
csr csr_of(const rlx_ctx *ctx, int first, int64_t cols);
/* The number of columns that input i (scalar or one element, int64) says; `absent` if it is left out. */
rlx_status csr_columns(rlx_ctx *ctx, int i, int64_t absent, int64_t *out);

/* ---- shape inference ------------------------------------------------------------------------------------------------
 */

/* What is known of a matrix at inputs first, first + 1, first + 2. Fails if ranks or sizes contradict each other. */
typedef struct csr_known {
  int64_t rows, entries; /* or RLX_UNKNOWN */
} csr_known;
rlx_status infer_csr(rlx_infer *ctx, int first, csr_known *out);
/* Row pointers and columns without values. */
rlx_status infer_pattern(rlx_infer *ctx, int col, int ptr, csr_known *out);
/* The value of the optional input `columns`, or `absent` (RLX_UNKNOWN if it is not known yet). */
rlx_status infer_columns(rlx_infer *ctx, int i, int64_t absent, int64_t *out);
/* A right-hand side: rank 1 or 2, its first dim `rows`. */
rlx_status infer_vector(rlx_infer *ctx, int i, int64_t rows, const char *what);
/* Like input i with `rows` as first dim. */
void infer_rows_of(rlx_infer *ctx, int output, int i, int64_t rows);

/* ---- building derivatives ---------------------------------------------------------------------------------------- */

rlx_value *build(rlx_graph *g, const char *op, rlx_value *const *inputs, int count); /* one output, no attributes */
rlx_value *build_sub(rlx_graph *g, rlx_value *a, rlx_value *b);                      /* a NULL: -b */
rlx_value *build_add(rlx_graph *g, rlx_value *a, rlx_value *b);                      /* either NULL: the other */
rlx_value *build_scale(rlx_graph *g, rlx_value *v, double by, rlx_dtype type);       /* float or double */
/* The first dim of v, as int64[1]. */
rlx_value *build_rows(rlx_graph *g, rlx_value *v);
/* A x or transposed A x, by mat_vec or mat_mat after x's rank, which is not known of nodes just made; a: values,
 * col_idx, row_ptr. */
rlx_value *build_product(rlx_graph *g, rlx_value *const a[3], rlx_value *x, bool transposed, rlx_value *columns,
                         int rank);
/* u[row] v[col] at each entry. */
rlx_value *build_outer(rlx_graph *g, rlx_value *const a[3], rlx_value *u, rlx_value *v, const char *form);

/* ---- the package ------------------------------------------------------------------------------------------------- */

typedef struct sparse_part {
  const rlx_op *const *ops;
  const rlx_cpu_kernel *const *kernels; /* NULL: none */
} sparse_part;
extern const sparse_part sparse_product, sparse_transpose, sparse_spgemm, sparse_direct, sparse_krylov;

#define SPARSE_VALUES (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE))
#define SPARSE_MATRIX(prefix)                                                                                          \
  {.name = prefix "values", .variable = "T", .dtypes = SPARSE_VALUES},                                                 \
      {.name = prefix "col_idx", .variable = "I", .dtypes = RLX_SET_INDEX}, {                                          \
    .name = prefix "row_ptr", .variable = "I", .dtypes = RLX_SET_INDEX                                                 \
  }
#define SPARSE_T(port) {.name = port, .variable = "T", .dtypes = SPARSE_VALUES}
#define SPARSE_I(port) {.name = port, .variable = "I", .dtypes = RLX_SET_INDEX}
#define SPARSE_COLUMNS {.name = "columns", .dtypes = RLX_SET(RLX_INT64), .flags = RLX_OPTIONAL | RLX_HOST}

#endif
