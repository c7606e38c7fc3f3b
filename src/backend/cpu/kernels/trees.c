/* trees.c — ai.onnx.ml's ensembles of trees on the CPU: the form that runs is made once, not in every run. */
#include "ir/module.h"
#include "ops/_trees.h"

static rlx_status prepare_ensemble(rlx_bound *b, void **state) {
  return trees_from_ensemble(b, rlx_bound_params(b), (trees **)state);
}

static rlx_status prepare_regressor(rlx_bound *b, void **state) {
  return trees_from_regressor(b, rlx_bound_params(b), (trees **)state);
}

static rlx_status prepare_classifier(rlx_bound *b, void **state) {
  return trees_from_classifier(b, rlx_bound_params(b), (trees **)state);
}

static rlx_status run(rlx_ctx *ctx) { return trees_run(ctx, ctx->state); }

#define KERNEL(op_name, prepare_fn)                         \
  {                                                         \
    .struct_size = sizeof(rlx_cpu_kernel),                  \
    .head = {.op = "ai.onnx.ml." op_name,                   \
             .name = "prepared",                            \
             .prepare = (prepare_fn),                       \
             .release = trees_destroy},                     \
    .run = run,                                             \
  }
static const rlx_cpu_kernel ensemble = KERNEL("TreeEnsemble", prepare_ensemble);
static const rlx_cpu_kernel regressor = KERNEL("TreeEnsembleRegressor", prepare_regressor);
static const rlx_cpu_kernel classifier = KERNEL("TreeEnsembleClassifier", prepare_classifier);

const rlx_module cpu_trees = {.kernels = (const rlx_cpu_kernel *const[]){&ensemble, &regressor, &classifier, NULL}};
