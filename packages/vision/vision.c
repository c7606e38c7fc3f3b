/* vision.c — the package of vision ops. It is linked into librlx: its ops are present without asking. */
#include "deform.h"

static rlx_status register_all(rlx_registry *r) {
  const rlx_op *const ops[] = {&vision_ms_deform_sample, &vision_ms_deform_sample_grad, &vision_ms_deform_attn};
  const rlx_cpu_kernel *const kernels[] = {&vision_sample_kernel, &vision_sample_grad_kernel, &vision_attn_kernel};
  rlx_status status = RLX_OK;
  for (int i = 0; i < 3 && status == RLX_OK; i++) status = rlx_register_op(r, ops[i], 0, NULL);
  for (int i = 0; i < 3 && status == RLX_OK; i++) status = rlx_register_cpu_kernel(r, kernels[i], 0, NULL);
  return status;
}

extern const rlx_package rlx_package_vision;
const rlx_package rlx_package_vision = {sizeof(rlx_package), RLX_ABI_VERSION, "vision", "1.0", register_all, 0};
