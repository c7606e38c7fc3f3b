/* validate.h — the invariants of a graph. */
#ifndef IR_VALIDATE_H
#define IR_VALIDATE_H

#include "ir/graph.h"

/* SSA, order, ownership, names, port counts, dtypes; the message names the first offender. */
rlx_status graph_validate(const rlx_graph *g);

#endif
