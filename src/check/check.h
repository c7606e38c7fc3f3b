/* check.h — the inside of rlx_check_op: cases made from sample rows, runs of them, and where results go. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include "backend/backend.h"
#include "ir/graph.h"

/* What a check says; texts are borrowed for the time of the call. */
typedef struct check_message {
  int32_t outcome; /* rlx_check_outcome, or CHECK_BEGIN: what follows is about to run */
  const char *check, *subject, *sample, *text, *graph;
  double ulp, relative;
} check_message;
enum { CHECK_BEGIN = -1 };

/* A sample with concrete extents, dtypes and contents. Owned: case_finish. */
typedef struct check_case {
  const char *row; /* in the graph's memory */
  rlx_graph *graph;
  rlx_node *node;      /* the only one */
  rlx_tensor **inputs; /* per graph input; NULL until filled */
  int input_count;
  rlx_tensor **expected; /* per graph output, by the oracle; NULL until it has run */
  int output_count;
  bool varied;       /* not a row as its author wrote it … */
  bool dtype_varied; /* … but of another dtype that the ports permit */
} check_case;

/* One op being checked, in the process that does it. Everything is borrowed. */
typedef struct checker {
  const op_entry *op;
  const rlx_registry *registry;
  const char *device;
  const backend *backend;
  kernel_entry **kernels; /* those of the backend */
  int kernel_count;
  bool *took;       /* per kernel: it ran a case */
  const char **why; /* per kernel: the first reason why not, in `memory` */
  arena memory;
  uint64_t seed;
  uint32_t flags;
  void (*sink)(void *user, const check_message *m);
  void *user;
  int ordinal;       /* of the next thing to run: the same in every process that does this */
  int running;       /* of the one begun last */
  int resume;        /* things before it have run in a process that died */
  const char *death; /* how the last of them died; NULL: none did */
  const int *fatal;  /* what killed them */
  int fatal_count;
  const char *check, *subject;
  const check_case *current;
} checker;

/* ---- saying ------------------------------------------------------------------------------- */

/* What is about to run. False: not again. needed: later checks want its result, so again unless it is fatal. */
bool check_begin(checker *c, const char *check, const char *subject, bool needed);
void check_passed(checker *c, double ulp, double relative);
__attribute__((format(printf, 2, 3))) void check_failed(checker *c, const char *format, ...);
__attribute__((format(printf, 2, 3))) void check_skipped(checker *c, const char *format, ...);

/* Everything: rows, their variants, all checks. */
rlx_status check_all(checker *c, const char *sample);
/* The checks of one filled case. */
void check_case_all(checker *c, check_case *k);

/* ---- cases -------------------------------------------------------------------------------- */

rlx_status case_parse(const checker *c, const char *row, check_case *out);
void case_finish(check_case *k);
/* After types of inputs were changed: the node's dtypes are permitted and its outputs' types follow. */
rlx_status case_infer(check_case *k);
/* Contents of the inputs. Modes: FILL_WIDE has numbers of both signs; FILL_INDEX integers that index every axis; the
 * others positive numbers, and integers 0 and 1, 1 to 9, or 0; FILL_HOSTILE is what kernels must survive. */
enum { FILL_WIDE, FILL_INDEX, FILL_SMALL, FILL_NONZERO, FILL_ZERO, FILL_HOSTILE };
rlx_status case_fill(check_case *k, uint64_t seed, int mode);
/* Calls fn with every variant of a row: extents, dtypes, optional inputs and outputs left out or asked for. */
rlx_status case_variants(checker *c, const char *row, void (*fn)(checker *c, check_case *k));

/* ---- runs --------------------------------------------------------------------------------- */

/* Memory that ends at a page nobody may touch, and begins behind bytes that must stay. */
typedef struct guarded {
  char *map;
  size_t mapped, slack;
  void *data;
  size_t bytes;
} guarded;
rlx_status guarded_make(size_t bytes, guarded *out);
bool guarded_intact(const guarded *g);
void guarded_free(guarded *g);

typedef struct trial_options {
  rlx_tier tier;
  const char *kernel;
  uint64_t constants; /* bit i: graph input i is known when compiling */
  bool symbolic;      /* no extent is known when compiling … */
  bool unranked;      /* … nor a rank */
  bool own_outputs;   /* the run owns the outputs' memory */
} trial_options;

/* A session over a case's graph with its bindings. Owned: trial_close. */
typedef struct trial {
  const check_case *from;
  rlx_session *session;
  rlx_binding *binding;
  guarded *inputs, *outputs; /* per graph input and output; data NULL: not guarded */
  rlx_tensor **output_tensors;
  const char **names; /* per output */
} trial;
rlx_status trial_open(const checker *c, const check_case *k, const trial_options *o, trial *out);
/* Runs with the outputs' memory filled with `poison`. */
rlx_status trial_run(trial *t, int poison);
/* A binding of its own to the same session, with outputs owned by its runs. */
rlx_status trial_bind(const trial *t, rlx_binding **out);
rlx_status trial_output(const trial *t, rlx_binding *b, int i, rlx_tensor **out);
/* NULL, or what the run did that it may not: wrote outside its outputs, changed an input. */
const char *trial_damage(const trial *t);
void trial_close(trial *t);

/* ---- comparing ---------------------------------------------------------------------------- */

typedef struct difference {
  double ulp, relative; /* largest */
  int64_t at;           /* first element outside the tolerance; -1: none */
  double got, want;
} difference;
/* false: another kind, dtype or shape. Tolerance: of the least precise dtype of the case. */
bool compare_tensors(const rlx_tensor *got, const rlx_tensor *want, double tolerance, difference *d);
double case_tolerance(const check_case *k);

/* ---- single checks ------------------------------------------------------------------------ */

void check_infer(checker *c, check_case *k);
/* Calls a CPU kernel by itself, where the record's pairs say that operands may share memory. */
void check_pairs(checker *c, check_case *k, const kernel_entry *e, const char *subject);

#endif
