/* module.h — what one file of src/ops or of a backend's kernels contributes, as public records. */
#ifndef IR_MODULE_H
#define IR_MODULE_H

#include <rlx/extend.h>

/* Lists end with NULL; any may be NULL. */
typedef struct rlx_module {
  const rlx_op *const *ops;
  const rlx_cpu_kernel *const *kernels;
  const rlx_gpu_kernel *const *gpu_kernels;
} rlx_module;

/* The build writes this table from the names of the files: ops first. Ends with NULL. */
extern const rlx_module *const rlx_builtin_modules[];
/* Packages that are part of the library: rlx_package_NAME of packages/NAME. Ends with NULL. */
extern const rlx_package *const rlx_linked_packages[];

#endif
