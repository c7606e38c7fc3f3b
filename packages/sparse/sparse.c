/* sparse.c — the package: what it registers. */
#include "sparse.h"

static rlx_status register_part(rlx_registry *r, const sparse_part *part) {
  rlx_status status = RLX_OK;
  for (int i = 0; status == RLX_OK && part->ops[i]; i++) status = rlx_register_op(r, part->ops[i], 0, NULL);
  for (int i = 0; status == RLX_OK && part->kernels && part->kernels[i]; i++)
    status = rlx_register_cpu_kernel(r, part->kernels[i], 0, NULL);
  return status;
}

static rlx_status register_all(rlx_registry *r) {
  static const sparse_part *const parts[] = {&sparse_product, &sparse_transpose, &sparse_spgemm, &sparse_direct,
                                             &sparse_krylov};
  rlx_status status = RLX_OK;
  for (size_t i = 0; status == RLX_OK && i < sizeof parts / sizeof *parts; i++) status = register_part(r, parts[i]);
  return status;
}
RLX_PACKAGE("sparse", "1.0", register_all);
