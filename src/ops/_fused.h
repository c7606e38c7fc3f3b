/* _fused.h — the scalar program of rlx.fused: its text, its types, and running it in tiles.
 *
 * Text: steps separated by "; ", each `Name(argument, …)` or `Name<a>(…)`, `Name<a, b>(…)` with the numbers a and b
 * of the row, or `Cast<dtype>(…)`. Arguments are registers, %0 … for the inputs and on for the steps, or numbers,
 * which take the type of the step. The last step is the result: "Mul(%0, %1); Add(%2, 0.5)". */
#ifndef OPS_FUSED_H
#define OPS_FUSED_H

#include <rlx/extend.h>

#include "base/text.h"
#include "ops/_elementwise.h"

enum {
  FUSED_MAX_INPUTS = BROADCAST_MAX_INPUTS,
  FUSED_MAX_STEPS = 32,
  FUSED_MAX_SLOTS = 12, /* tiles alive at a time */
  FUSED_TILE = BROADCAST_TILE,
  FUSED_CAST = EW_ROW_COUNT
};

typedef struct fused_arg {
  int reg; /* -1: the number */
  double number;
} fused_arg;

typedef struct fused_step {
  int row; /* ew_row or FUSED_CAST */
  double ab[2];
  int arg_count;
  fused_arg args[3];
  rlx_dtype type;   /* loop's type; for a cast that of its argument */
  rlx_dtype result; /* type of the register it makes */
} fused_step;

/* Registers: inputs, then steps. */
typedef struct fused_program {
  int inputs, steps;
  rlx_dtype input_types[FUSED_MAX_INPUTS];
  fused_step step[FUSED_MAX_STEPS];
} fused_program;

/* Reads a program; the message (one line, borrowed until the next call on this thread) says what is wrong, or
 * NULL. program->inputs and input_types are set before. */
const char *fused_parse(rlx_string text, fused_program *program);
void fused_print(const fused_program *program, text *out);
/* Fills in the types of the steps from those of the inputs; NULL, or what is wrong. */
const char *fused_check(fused_program *program);
rlx_dtype fused_result(const fused_program *program);
rlx_dtype fused_type(const fused_program *program, int reg);
/* Tiles alive at a time. */
int fused_slots(const fused_program *program);
/* Replaces what exporters write for gelu, silu, mish and hardswish by those rows, and drops unused steps. */
void fused_simplify(fused_program *program);

/* A program bound to extents. Immutable. */
typedef struct fused_run fused_run;
/* On success *run is the caller's, freed with mem_free. A step without a loop in `table`: RLX_UNSUPPORTED. */
rlx_status fused_prepare(const fused_program *program, const ew_table *table, const rlx_operand *in,
                         const rlx_operand *out, fused_run **run);
void fused_execute(rlx_ctx *ctx, const fused_run *run);

typedef struct fused_params {
  uint64_t given;
  rlx_string program;
} fused_params;

#endif
