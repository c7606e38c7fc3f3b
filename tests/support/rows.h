/* rows.h — the committed rows of tests/rows: nodes, inputs, and expected values that nothing of rlx computed.
 *
 * A file has rows, apart from each other by empty lines; "#" begins a comment. A row:
 *   row 23 1e-4 1e-5 dynamic      the opset; how far floats may be off, relative and absolute (left out: a table by
 *                                 dtype); dynamic: dims of outputs are known only after running
 *     y0, y1 = TopK (a, b)        nodes, in ONNX's textual syntax, after two spaces
 *   a float[3] {1, 2, 3}          inputs, in the order of their first use; without contents zeros
 *   = y0 float[2] {3, 2}          what must come out; without contents only the type is compared
 *   ! division by zero            instead: it must fail with an error that has this in it */
#ifndef SUPPORT_ROWS_H
#define SUPPORT_ROWS_H

#include "ir/graph.h"

enum { ROW_MOST = 26 };

typedef struct row_value {
  char name[32];
  char type[160];     /* "float[2,3]" */
  rlx_type known;     /* the same */
  rlx_tensor *tensor; /* of an output NULL: only the type is known; an input without contents is zero */
} row_value;

typedef struct row {
  const char *file;
  int line; /* of "row" */
  int opset;
  double rtol, atol; /* negative: by dtype */
  bool dynamic;
  char *nodes;
  const char *fails; /* NULL: it must not */
  row_value inputs[ROW_MOST], outputs[ROW_MOST];
  int input_count, output_count;
} row;

/* Calls visit for each row of each file of the folder, in order. A row that cannot be read fails the test. Returns how
 * many there were. Every `step`-th row, beginning with `first`, is visited. */
int rows_each(const char *folder, int first, int step, void (*visit)(void *user, const row *r), void *user);

/* The row's graph. types[i], if given, is written as the type of input i ("float[?,3]"); constants: bit i makes input i
 * a constant. NULL with the library's message if it does not load. */
rlx_graph *row_graph(const row *r, const char *const *types, uint64_t constants);

/* NULL if the tensor is what output i must be, else what is wrong, in a static buffer. */
const char *row_difference(const row *r, int i, const rlx_tensor *t);

#endif
