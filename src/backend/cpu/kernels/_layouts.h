/* _layouts.h — layouts of elementwise kernels: any, as long as all full-sized operands share it. */
#ifndef CPU_LAYOUTS_H
#define CPU_LAYOUTS_H

#include <rlx/extend.h>

/* rlx_kernel.layouts: any one layout when every operand has the output's dims (the first may
 * differ: it is outermost in every layout) or one element. */
void elementwise_layouts(const rlx_node *n, rlx_layouts *l);

#endif
