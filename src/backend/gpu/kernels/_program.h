/* _program.h — scalar programs (rlx.fused, and the scalar ops as programs of few steps) as portable kernels. */
#ifndef BACKEND_GPU_KERNELS_PROGRAM_H
#define BACKEND_GPU_KERNELS_PROGRAM_H

#include <rlx/extend.h>

#include "ops/_fused.h"

enum { PROGRAM_MAX_RANK = 8 };

/* The functions of a kernel record whose head's op is one of these: they find the program of the node they are made
 * for. */
extern const rlx_gpu_function program_functions[];
extern const rlx_pair program_in_place[FUSED_MAX_INPUTS];

/* The program of a node: rlx.fused's own, or the steps that a scalar op or Cast is. NULL, or why there is none. */
const char *program_of_node(const rlx_node *n, fused_program *p);
const char *program_why_not(const rlx_node *n);
rlx_status program_encode(rlx_gpu_dispatch *d);

/* Writes `FN R program(T0 v0, …)` and what it calls. */
rlx_status program_write(rlx_gpu_text *t, const fused_program *p);
/* The type of a text for elements of a dtype; NULL: programs do not have it. */
const char *program_type(rlx_dtype dtype);

#endif
