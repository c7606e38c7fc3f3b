// listing.c — the public visitors of registered ops and kernels.
#include "ir/registry.h"

#include "base/need.h"

typedef struct op_visit {
  bool (*visit)(void *user, const rlx_op_info *info);
  void *user;
} op_visit;

static bool visit_op(void *user, const op_entry *e) {
  const op_visit *v = user;
  const rlx_op_info info = {sizeof info, &e->op, e->owner};
  return v->visit(v->user, &info);
}

rlx_status rlx_registry_each_op(const rlx_registry *registry, bool (*visit)(void *user, const rlx_op_info *info),
                                void *user) {
  RLX_NEED(visit);
  op_visit v = {visit, user};
  return registry_each_op(registry, visit_op, &v);
}

typedef struct kernel_visit {
  bool (*visit)(void *user, const rlx_kernel_info *info);
  void *user;
} kernel_visit;

static rlx_tier tier_of(kernel_kind kind) {
  switch (kind) {
    case KERNEL_CPU: return RLX_TIER_CPU;
    case KERNEL_HOST: return RLX_TIER_HOST;
    case KERNEL_PORTABLE: return RLX_TIER_PORTABLE;
    case KERNEL_RAW: return RLX_TIER_RAW;
  }
  return RLX_TIER_ANY;
}

static bool visit_kernel(void *user, const kernel_entry *e) {
  const kernel_visit *v = user;
  const rlx_kernel_info info = {sizeof info, &e->head, tier_of(e->kind), e->backend, e->owner};
  return v->visit(v->user, &info);
}

rlx_status rlx_registry_each_kernel(const rlx_registry *registry,
                                    bool (*visit)(void *user, const rlx_kernel_info *info), void *user) {
  RLX_NEED(visit);
  kernel_visit v = {visit, user};
  return registry_each_kernel(registry, visit_kernel, &v);
}
