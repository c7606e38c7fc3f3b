/* shape.h — arithmetic on dims that never overflows silently. */
#ifndef IR_SHAPE_H
#define IR_SHAPE_H

#include <rlx/rlx.h>

/* Product of dims; -1 when a dim is unknown or negative, or it overflows int64. */
int64_t shape_count(int rank, const int64_t *dims);
/* Bytes of a tensor of this type; -1 as above. Of a value of another kind: those of its cell (ir/tensor.h). */
int64_t type_bytes(const rlx_type *t);
bool type_is_concrete(const rlx_type *t); /* dtype, rank and every dim known; or no tensor */
bool type_equal(const rlx_type *a, const rlx_type *b);
/* May a value of type `given` stand where `wanted` is declared? What wanted leaves unknown takes anything. */
bool type_admits(const rlx_type *wanted, const rlx_type *given);
void type_set(rlx_type *t, rlx_dtype dtype, int rank, const int64_t *dims);
void type_unknown(rlx_type *t, rlx_dtype dtype); /* unknown rank */
/* Makes `to` the kind of value that `from` is, with its dtype; of a tensor the dims of `to` stay. */
void type_take_kind(rlx_type *to, const rlx_type *from);
bool type_same_kind(const rlx_type *a, const rlx_type *b); /* equal but for dtype, rank and dims of tensors */
/* Writes "float[2,?,3]" (rank unknown: "float[...]"), "seq(map(int64, float))"; returns text. */
const char *type_text(const rlx_type *t, char *text, size_t size);
const char *dims_text(int rank, const int64_t *dims, char *text, size_t size); /* "[2,3]" */

/* ONNX multidirectional broadcasting of two shapes, unknown dims allowed; false if they do not fit. */
bool shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);
/* axis in [-rank, rank) to [0, rank); -1 if outside. */
int axis_normalise(int64_t axis, int rank);
/* Row-major strides in elements. */
void shape_strides(int rank, const int64_t *dims, int64_t *strides);

#endif
