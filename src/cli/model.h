// model.h — a model opened as the common options say, and the inputs and outputs of its runs.
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/cli.h"

// Where and how to run: settings that several commands share.
typedef struct cli_target {
  const char *device;
  const char *policy;
  cli_list ops;
  cli_list pins;
  const char *without;
  int64_t threads;
} cli_target;

#define CLI_OPTION_DEVICE(type)                                                                                        \
  {                                                                                                                    \
    "--device", "D", "device to run on: cpu (default), vulkan, cuda, metal, record, auto", CLI_TEXT,                   \
        offsetof(type, target.device), 0, 0, 0                                                                         \
  }
#define CLI_OPTION_OPS(type)                                                                                           \
  {                                                                                                                    \
    "--ops", "NAME|FILE", "load a package of ops; may be given several times", CLI_LIST, offsetof(type, target.ops),   \
        0, 0, 0                                                                                                        \
  }
#define CLI_OPTION_POLICY(type)                                                                                        \
  {                                                                                                                    \
    "--policy", "P", "when a node falls back to the host: allow, warn, forbid, budget=TRIPS[,BYTES]", CLI_TEXT,        \
        offsetof(type, target.policy), 0, 0, 0                                                                         \
  }
#define CLI_OPTION_THREADS(type)                                                                                       \
  { "--threads", "N", "threads in all (default: one per core)", CLI_INT, offsetof(type, target.threads), 1, 1024, 0 }
#define CLI_OPTION_PIN(type)                                                                                           \
  {"--pin", "WHAT=TIER[:KERNEL]", "WHAT (an op, node:NAME or *) must run there: raw, portable, lower, host, cpu, eval, any", \
   CLI_LIST, offsetof(type, target.pins), 0, 0, 0}
#define CLI_OPTION_WITHOUT(type)                                                                                       \
  {"--without", "PASS,...", "leave out these passes of the compiler", CLI_TEXT, offsetof(type, target.without), 0, 0, 0}
#define CLI_OPTION_JSON(type)                                                                                          \
  { "--json", NULL, "print JSON", CLI_FLAG, offsetof(type, json), 0, 0, 0 }
#define CLI_OPTION_END                                                                                                 \
  { NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, 0 }

// Whether the settings can be understood: before the time that loading takes.
int cli_target_check(const cli_target *target);

// A registry with the packages loaded, *out NULL if none were named. The caller destroys it.
int cli_load_ops(const cli_list *ops, rlx_registry **out);

typedef struct cli_model {
  rlx_registry *registry; // NULL: the process's
  rlx_graph *graph;
  rlx_session *session;
  double load_ms, compile_ms;
} cli_model;

// Loads and compiles. What was made so far is in *out also on failure; cli_model_close releases it.
int cli_model_load(cli_model *m, const char *path, const cli_list *ops);
int cli_model_compile(cli_model *m, const cli_target *target);
int cli_model_open(cli_model *m, const char *path, const cli_target *target);
void cli_model_close(cli_model *m);

// How inputs that have no file are made.
typedef struct cli_inputs {
  cli_list inputs; // "name=SOURCE"
  cli_list dims;   // "SYMBOL=N"
  int64_t seed;
} cli_inputs;

#define CLI_OPTION_INPUT(type)                                                                                         \
  {                                                                                                                    \
    "--input", "NAME=SOURCE", "a .npy or .pb file, a number to fill the tensor with, or random (default)", CLI_LIST,   \
        offsetof(type, inputs.inputs), 0, 0, 0                                                                         \
  }
#define CLI_OPTION_DIM(type)                                                                                           \
  {                                                                                                                    \
    "--dim", "SYMBOL=N", "size of a symbolic dim (or INPUT.AXIS=N) of the inputs made here; default 1", CLI_LIST,      \
        offsetof(type, inputs.dims), 0, 0, 0                                                                           \
  }
#define CLI_OPTION_SEED(type)                                                                                          \
  { "--seed", "N", "seed of random inputs (default 0)", CLI_INT, offsetof(type, inputs.seed), INT64_MIN, INT64_MAX, 0 }

// What was bound, for people: the source and the tensor (a reference).
typedef struct cli_bound_input {
  char *source;
  rlx_tensor *tensor;
} cli_bound_input;

// Makes and binds every input of the session. *out has one entry per input, filled also on failure; released by
// cli_inputs_release.
int cli_bind_inputs(rlx_session *s, rlx_binding *b, const cli_inputs *settings, cli_bound_input **out);
void cli_inputs_release(cli_bound_input *inputs, int count);

#endif
