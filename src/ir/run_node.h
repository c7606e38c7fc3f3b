/* run_node.h — running one node's function on host operands, outside a session. */
#ifndef IR_RUN_NODE_H
#define IR_RUN_NODE_H

#include "ir/graph.h"

/* Runs fn (an eval, or a kernel without state). Output i is allocated from types[i] if that is concrete,
 * else by the function through rlx_output_shape. out[i] NULL on entry: made; all are released again on
 * failure. */
rlx_status node_run(const rlx_node *n, rlx_status (*fn)(rlx_ctx *ctx), const rlx_operand *inputs, const rlx_type *types,
                    rlx_tensor **out);

#endif
