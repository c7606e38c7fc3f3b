/* native.h — whether a target has kernels of its own for an op that a pass wants to make. */
#ifndef PASS_NATIVE_H
#define PASS_NATIVE_H

#include "pass/select.h"

/* The CPU runs every op natively; a GPU those with a portable or raw kernel. */
rlx_status target_is_native(const target *t, const char *op, int version, bool *native);

#endif
