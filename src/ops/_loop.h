/* _loop.h — repeated runs of a subgraph, as Loop and Scan make them: carried values and scan outputs. */
#ifndef OPS_LOOP_H
#define OPS_LOOP_H

#include "ir/failure.h"
#include "ir/graph.h"
#include "ir/infer.h"

/* A value handed from one iteration to the next. It lies in one of two buffers, that take turns and grow. */
typedef struct loop_carried {
  rlx_operand now, next; /* dims point into `dims` */
  void *data[2];
  int64_t room[2];
  int64_t dims[2][RLX_MAX_RANK];
  int at; /* buffer that `now` is in; -1: where it came from */
} loop_carried;

/* What iterations append to. */
typedef struct loop_scan {
  void *data;
  int64_t room, used, item_bytes;
  rlx_operand item; /* the first one; dims point into `dims` */
  int64_t dims[RLX_MAX_RANK];
} loop_scan;

/* Lives in one eval. `inputs` are the subgraph's: the caller sets those that are not carried. */
typedef struct loop_run {
  rlx_ctx *ctx;
  const rlx_graph *body;
  int subgraph;
  bool conditional; /* output 0 of the subgraph says whether to go on */
  uint8_t go_on;
  int first_input; /* of the carried ones */
  int carried_count, scan_count;
  loop_carried *carried;
  loop_scan *scans;
  rlx_operand *inputs, *outputs;
  int64_t iterations;
  size_t mark;
  bool begun;
} loop_run;

/* Of r, ctx, body, subgraph, conditional, first_input and carried_count are set. */
rlx_status loop_begin(loop_run *r);
void loop_set_carried(loop_run *r, int i, const rlx_operand *from);
rlx_status loop_iterate(loop_run *r);
/* The carried value as an output of the node. */
rlx_status loop_hand_carried(loop_run *r, int i, int output);
/* What was appended, stacked along a new axis (negative: counted from the end), the last one first if `backwards`. */
rlx_status loop_hand_scan(loop_run *r, int i, int output, int64_t axis, bool backwards);
/* Dims of an item although there was none: what the subgraph declares, 0 for the unknown. */
void loop_guess_item(loop_run *r, int i);
void loop_end(loop_run *r);

/* The type of a value that is `first` at first and then what the subgraph's output gives. */
rlx_status loop_merge(rlx_infer *ctx, const char *name, const rlx_type *first, const rlx_type *next, rlx_type *out);
int loop_subgraph_index(const rlx_node *n, const rlx_graph *g);

#endif
