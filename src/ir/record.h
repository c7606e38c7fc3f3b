/* record.h — from an author's record to an entry. */
#ifndef IR_RECORD_H
#define IR_RECORD_H

#include "ir/op.h"

/* One message naming the record and the rule it breaks. */
rlx_status op_record_check(const rlx_op *op);
rlx_status kernel_record_check(const rlx_kernel *k);

rlx_status op_entry_create(const rlx_op *op, op_entry **out);

/* What the register functions of the kernel kinds have in common. */
typedef struct kernel_source {
  kernel_kind kind;
  const char *backend;
  const rlx_kernel *head;
  rlx_status (*run)(rlx_ctx *ctx);
  const void *record;
  size_t record_bytes; /* its struct_size */
  size_t record_least; /* the smallest struct_size there ever was */
} kernel_source;

/* Whether the texts of a portable kernel keep the rules. The rules are those of the renderers: backend/gpu defines it.
 */
rlx_status gpu_functions_check(const rlx_gpu_function *functions);
/* Copies the lists and strings of a portable kernel's record, which is a shallow copy of the author's, into memory. */
rlx_status gpu_record_copy(arena *memory, rlx_gpu_kernel *k);

rlx_status kernel_entry_create(const kernel_source *source, kernel_entry **out);
/* Are rlx's own records being registered? The tests have checked them. */
bool registry_registers_builtins(const rlx_registry *r);
rlx_status registry_add_kernel(rlx_registry *r, const kernel_source *source, uint32_t flags, rlx_handle *handle);

#endif
