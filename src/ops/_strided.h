/* _strided.h — copies between strided views of any rank: the engine under Transpose, Slice, Expand, Tile … */
#ifndef OPS_STRIDED_H
#define OPS_STRIDED_H

#include "ops/_move.h"

enum { STRIDED_RANK = 2 * RLX_MAX_RANK };

typedef enum strided_way {
  STRIDED_EMPTY,     /* nothing to do */
  STRIDED_RUNS,      /* innermost contiguous on both sides */
  STRIDED_FILL,      /* innermost repeats one element */
  STRIDED_ROWS,      /* innermost contiguous in the target only */
  STRIDED_TRANSPOSE, /* as ROWS, and dim `across` is contiguous in the source: done in tiles */
  STRIDED_ELEMENTS,  /* any strides */
  STRIDED_BITS       /* elements smaller than a byte */
} strided_way;

/* A copy of dims[0..rank) elements, from and to in elements per dim. Filled by begin, dim (outermost
 * first), finish; then immutable. */
typedef struct strided_copy {
  strided_way way;
  int rank;
  int across;
  int bits;    /* of a sub-byte element */
  size_t size; /* bytes of an element; 0 for sub-byte */
  int64_t dims[STRIDED_RANK], from[STRIDED_RANK], to[STRIDED_RANK];
  int64_t from_offset, to_offset; /* in elements */
  int64_t units, grain;           /* of parallel work */
} strided_copy;

void strided_begin(strided_copy *c, rlx_dtype dtype, int64_t from_offset, int64_t to_offset);
void strided_dim(strided_copy *c, int64_t extent, int64_t from, int64_t to);
void strided_finish(strided_copy *c);
void strided_run(rlx_ctx *ctx, const strided_copy *c, const void *from, void *to);

/* What a plan is made from, at a run (run given) or when a program is bound (bound given). */
typedef struct strided_node {
  const void *context; /* for rlx_fail */
  const void *params;
  rlx_ctx *run;
  rlx_bound *bound;
} strided_node;
typedef struct strided_view {
  rlx_dtype dtype;
  int rank;
  const int64_t *dims;
} strided_view;
strided_node strided_of_run(rlx_ctx *ctx);
strided_node strided_of_bound(rlx_bound *b);
strided_view strided_input(const strided_node *n, int i);
strided_view strided_output(const strided_node *n, int i);
/* count RLX_UNKNOWN: left out. RLX_NOT_FOUND, without a message: not known when binding. */
rlx_status strided_ints(const strided_node *n, int i, int_list *out);

/* Plans the one copy that makes output 0 from input 0. */
typedef rlx_status (*strided_plan)(const strided_node *n, strided_copy *c);
/* An eval: plans and runs. */
rlx_status strided_eval(rlx_ctx *ctx, strided_plan plan);

rlx_status transpose_plan(const strided_node *n, strided_copy *c);
rlx_status slice_plan(const strided_node *n, strided_copy *c);
rlx_status expand_plan(const strided_node *n, strided_copy *c);
rlx_status tile_plan(const strided_node *n, strided_copy *c);
rlx_status space_to_depth_plan(const strided_node *n, strided_copy *c);
rlx_status depth_to_space_plan(const strided_node *n, strided_copy *c);

#endif
