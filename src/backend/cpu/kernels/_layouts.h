/* _layouts.h — layouts of elementwise kernels: any, as long as all operands of a size share it. */
#ifndef CPU_LAYOUTS_H
#define CPU_LAYOUTS_H

#include <rlx/extend.h>

/* rlx_kernel.layouts: any one layout, if every operand's dims are the output's or 1. Operands that lie the same in all
 * layouts, like one number a channel, are left as they are. */
void elementwise_layouts(const rlx_node *n, rlx_layouts *l);

/* The type of an input (-1: the output), with the dims in the order in which they lie in the output's layout and as
 * many of them: a kernel that broadcasts row-major tensors of any rank by these does what the layout asks. NULL if left
 * out; else `storage` or the bound type. */
const rlx_type *elementwise_type(const rlx_bound *b, int input, rlx_type *storage);

#endif
