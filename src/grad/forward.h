/* forward.h — forward mode over a stretch of nodes. */
#ifndef GRAD_FORWARD_H
#define GRAD_FORWARD_H

#include "grad/reverse.h"

/* Walks nodes [begin, end) with the tangents of `from`; tangents[i]: that of outputs[i], or NULL. */
rlx_status forward_walk(transform *t, size_t begin, size_t end, const value_pairs *from, rlx_value *const *outputs,
                        int output_count, rlx_value **tangents);

#endif
