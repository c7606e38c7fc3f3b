/* _kernel.h — what the kernels over oneDNN share: operands from bound types, state, running. */
#ifndef ONEDNN_KERNEL_H
#define ONEDNN_KERNEL_H

#include "backend/cpu/onednn/adapter.h"
#include "ir/layout.h"
#include "ops/_fused_activation.h"
#include "ops/_window.h"

/* Why operand `type` is not a float tensor of min to max dims; NULL if it is. */
const char *onednn_check_type(const rlx_type *type, const char *what, int min_rank, int max_rank);

/* An operand of the activations, in a layout of ir/layout.h. */
onednn_tensor onednn_activation(const rlx_type *type, uint32_t layout);
onednn_tensor onednn_dense(int rank, const int64_t *dims);
onednn_window onednn_window_of(const window *w);
/* False: oneDNN has no such activation, or computes it otherwise. */
bool onednn_add_activation(onednn_post *post, fused_activation kind, float alpha, float beta);
/* Threads for so much work: one where starting others (1.5 µs) costs more than they save. A unit of `work` is a
 * multiplication and addition of a convolution, or 1/50 of an element of a memory-bound kernel. */
int onednn_threads(const rlx_bound *b, double work);
bool onednn_has_zero(const rlx_type *type); /* a dim is 0 */

/* The layouts of a kernel that works in place of its input's channels: takes the proposal in l->inputs[0], or asks for
 * blocks, and gives the same. Nothing if the channels are not known or neither fits. */
uint32_t onednn_choose_layout(uint32_t proposal, const rlx_type *src, const rlx_type *dst, bool blocked);

/* Callbacks of rlx_kernel for states that are an onednn_primitive (NULL: no output element). */
void onednn_release(void *state);
rlx_status onednn_run_init(const void *state, void **run_state);
void onednn_run_done(void *run_state);

#endif
