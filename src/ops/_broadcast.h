/* _broadcast.h — ONNX broadcasting as a loop plan: merged dims, strides of 0 or more, contiguous output. */
#ifndef OPS_BROADCAST_H
#define OPS_BROADCAST_H

#include <rlx/extend.h>

#define BROADCAST_MAX_INPUTS 16

/* How inputs map to a row-major output. The last dim is the longest run in which every input either
 * advances by one element (stride 1) or stays (stride 0). No pointers; valid for these extents only. */
typedef struct broadcast {
  int inputs;
  int rank; /* at least 1 */
  int64_t count;
  uint32_t still;        /* bit i: input i stays within the last dim */
  int64_t group;         /* short rows: this many of them make one piece; 0: rows are long enough, or single */
  uint32_t group_still;  /* bit i: input i stays within the last two dims */
  uint32_t group_expand; /* bit i: input i must be spread out for a piece of several rows */
  int64_t dims[RLX_MAX_RANK];
  int64_t strides[BROADCAST_MAX_INPUTS][RLX_MAX_RANK]; /* in elements */
} broadcast;

typedef struct broadcast_shape {
  int rank;
  const int64_t *dims;
} broadcast_shape;

/* Each input must broadcast to `out`, as inference has made sure. */
void broadcast_plan(broadcast *b, broadcast_shape out, const broadcast_shape *in, int inputs);

/* A position in the output, with the element offset of every input. */
typedef struct broadcast_cursor {
  int64_t column; /* in the last dim */
  int64_t index[RLX_MAX_RANK];
  int64_t offset[BROADCAST_MAX_INPUTS]; /* of the row's first element */
} broadcast_cursor;

void broadcast_seek(const broadcast *b, int64_t position, broadcast_cursor *at);
/* To the first element of the next row. */
void broadcast_next_row(const broadcast *b, broadcast_cursor *at);

/* ---- pieces ---- */

enum { BROADCAST_TILE = 512, BROADCAST_TILE_BYTES = BROADCAST_TILE * 8 };
typedef char broadcast_tile[BROADCAST_TILE_BYTES];

/* A run of elements of the output, with every input contiguous or (bit of `still`) one element. */
typedef struct broadcast_piece {
  int64_t at, count;
  uint32_t still;
  const void *in[BROADCAST_MAX_INPUTS];
} broadcast_piece;

/* Walks a range of the output piece by piece: rows, or several short rows at a time. */
typedef struct broadcast_walk {
  const broadcast *plan;
  broadcast_cursor cursor;
  int64_t at, end, longest;
  const void *const *data;              /* of the inputs */
  const size_t *sizes;                  /* of their elements */
  broadcast_tile *tiles;                /* one per input, for spreading; 64-byte aligned */
  int64_t spread[BROADCAST_MAX_INPUTS]; /* offset whose periods a tile holds; -1: none */
} broadcast_walk;

/* longest: elements of a piece at most. Everything given is borrowed. */
void broadcast_walk_start(broadcast_walk *w, const broadcast *plan, const void *const *data, const size_t *sizes,
                          broadcast_tile *tiles, int64_t longest);
/* The range to walk next. */
void broadcast_walk_range(broadcast_walk *w, int64_t begin, int64_t end);
/* False at the end. */
bool broadcast_walk_next(broadcast_walk *w, broadcast_piece *piece);

/* Infer for ops whose outputs all have the broadcast shape of all inputs. */
rlx_status broadcast_infer(rlx_infer *ctx);
/* The broadcast shape of all inputs into one output's rank and dims; fails naming the shapes. */
rlx_status broadcast_infer_shape(rlx_infer *ctx, int *rank, int64_t *dims);

#endif
