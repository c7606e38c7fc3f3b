/* reorder.c — rlx.reorder: the same tensor in another memory layout. */
#include "ops/reorder.h"

#include <string.h>

#include "ir/module.h"

/* Meaning: the identity. Layouts belong to backends, whose kernels move the bytes; in row-major there is nothing to
 * change. */
static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  if (x->layout != RLX_ROW_MAJOR || y->layout != RLX_ROW_MAJOR) {
    return rlx_fail(ctx, RLX_UNSUPPORTED, "layouts %u and %u belong to a backend", x->layout, y->layout);
  }
  if (x->bytes > 0) memcpy(y->data, x->data, (size_t)x->bytes);
  return RLX_OK;
}

static const rlx_attr_def attrs[] = {{.name = "layout",
                                      .kind = RLX_ATTR_INT,
                                      .flags = RLX_RANGED,
                                      .offset = offsetof(reorder_params, layout),
                                      .min = 0,
                                      .max = UINT32_MAX},
                                     {0}};
static const rlx_op op = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.reorder",
    .version = 1,
    .doc = "The same tensor in another memory layout, an id of the backend. Put in by the pass `layout`.",
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_ALL & ~RLX_SET(RLX_STRING), 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_ALL & ~RLX_SET(RLX_STRING), 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(reorder_params),
    .traits = RLX_PURE,
    .no_derivative = "made by compiling, after derivatives",
    .eval = eval,
};

const rlx_module ops_reorder = {.ops = (const rlx_op *const[]){&op, NULL}};
