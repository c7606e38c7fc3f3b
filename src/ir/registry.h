/* registry.h — finding ops and kernels: chained registries, session → package → process. */
#ifndef IR_REGISTRY_H
#define IR_REGISTRY_H

#include "ir/op.h"

/* The op record that `name` means under opset version `opset` (0: the newest): the nearest scope that
 * has the name; there, the largest version ≤ opset. registry NULL: the process's. Retained. NULL if
 * none. */
op_entry *registry_find_op(const rlx_registry *r, const char *name, int opset);
/* "" or a hint for the message: the op is known in other versions, or a similar name. */
const char *registry_hint(const rlx_registry *r, const char *name, int opset, char *text, size_t size);

/* All kernels for op `name` at record version `version` whose backend is one of `backends` (NULL-ended
 * list), of all scopes, unordered. Retained; *list is mem_free'd by the caller. */
rlx_status registry_kernels(const rlx_registry *r, const char *name, int version, const char *const *backends,
                            kernel_entry ***list, int *count);

/* A kernel may serve one params layout. The versions of two records of its op, as seen from r, that it would serve
 * although their layouts differ; false: there are none. */
bool registry_kernel_spans(const rlx_registry *r, const kernel_entry *e, int versions[2]);

/* Visits every op / kernel visible from r (for listings); stops when fn returns false. */
rlx_status registry_each_op(const rlx_registry *r, bool (*fn)(void *user, const op_entry *e), void *user);
rlx_status registry_each_kernel(const rlx_registry *r, bool (*fn)(void *user, const kernel_entry *e), void *user);

/* Packages loaded into r, by the real path of their file. */
bool registry_has_package(rlx_registry *r, const char *path);
rlx_status registry_add_package(rlx_registry *r, package *p);
/* Takes back everything p registered in r. */
void registry_drop_package(rlx_registry *r, const package *p);

#endif
