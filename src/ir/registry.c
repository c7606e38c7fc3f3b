/* registry.c — registries: a locked table from op name to the op records and kernels of that name. */
#include "ir/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/need.h"
#include "base/status.h"
#include "base/vector.h"
#include "ir/module.h"
#include "ir/package.h"
#include "ir/record.h"

/* All records of one op name. */
typedef struct bucket {
  VECTOR(op_entry *) ops;
  VECTOR(kernel_entry *) kernels;
} bucket;

/* Holds one reference to each entry. Lock: `lock`, never held while foreign code runs. */
struct rlx_registry {
  int scope; /* SCOPE_SESSION or SCOPE_PROCESS, for records that no package registers */
  pthread_mutex_t lock;
  map names; /* op name → bucket */
  VECTOR(package *) packages;
  bool registering_builtins;
  const char *linked; /* the linked package that is being registered */
};

static rlx_registry process = {.scope = SCOPE_PROCESS, .lock = PTHREAD_MUTEX_INITIALIZER};
static rlx_status builtin_status; /* of registering the built-ins */
static atomic_ullong next_number = 1;

static void register_builtins(void) {
  process.registering_builtins = true;
  for (const rlx_module *const *m = rlx_builtin_modules; *m && builtin_status == RLX_OK; m++) {
    for (const rlx_op *const *op = (*m)->ops; op && *op && builtin_status == RLX_OK; op++)
      builtin_status = rlx_register_op(&process, *op, 0, NULL);
    for (const rlx_cpu_kernel *const *k = (*m)->kernels; k && *k && builtin_status == RLX_OK; k++)
      builtin_status = rlx_register_cpu_kernel(&process, *k, 0, NULL);
    for (const rlx_gpu_kernel *const *k = (*m)->gpu_kernels; k && *k && builtin_status == RLX_OK; k++)
      builtin_status = rlx_register_gpu_kernel(&process, *k, 0, NULL);
  }
  for (const rlx_package *const *p = rlx_linked_packages; *p && builtin_status == RLX_OK; p++) {
    process.linked = (*p)->name;
    builtin_status = (*p)->register_all(&process);
  }
  process.registering_builtins = false;
  if (builtin_status != RLX_OK) log_line(RLX_LOG_ERROR, "built-in records: %s", rlx_error_message());
}

rlx_registry *rlx_registry_process(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_builtins);
  return &process;
}

rlx_status rlx_registry_create(rlx_registry **out) {
  RLX_NEED(out);
  rlx_registry *r = mem_zalloc(sizeof *r);
  if (!r) return status_no_memory(sizeof *r);
  r->scope = SCOPE_SESSION;
  pthread_mutex_init(&r->lock, NULL);
  *out = r;
  return RLX_OK;
}

void rlx_registry_destroy(rlx_registry *r) {
  if (!r || r == &process) return;
  size_t at = 0;
  for (bucket *b; (b = map_next(&r->names, &at, NULL));) {
    for (size_t i = 0; i < b->ops.count; i++) op_entry_release(b->ops.data[i]);
    for (size_t i = 0; i < b->kernels.count; i++) kernel_entry_release(b->kernels.data[i]);
    vector_finish(&b->ops);
    vector_finish(&b->kernels);
    mem_free(b);
  }
  map_finish(&r->names);
  for (size_t i = 0; i < r->packages.count; i++) package_release(r->packages.data[i]);
  vector_finish(&r->packages);
  pthread_mutex_destroy(&r->lock);
  mem_free(r);
}

/* The chain: r itself if it is a session's, then the process's. */
static int chain_of(const rlx_registry *r, rlx_registry *chain[2]) {
  int n = 0;
  rlx_registry *root = r == &process ? &process : rlx_registry_process(); /* also while its built-ins come in */
  if (r && r != root) chain[n++] = (rlx_registry *)(uintptr_t)r;
  chain[n++] = root;
  return n;
}

/* ---- registering -------------------------------------------------------------------------- */

/* Under the lock. NULL when memory is short. */
static bucket *bucket_of(rlx_registry *r, const char *name) {
  bucket *b = map_get(&r->names, name);
  if (b) return b;
  b = mem_zalloc(sizeof *b);
  if (b && !map_put(&r->names, name, b)) {
    mem_free(b);
    return NULL;
  }
  return b;
}

bool registry_registers_builtins(const rlx_registry *r) { return r && r->registering_builtins; }

static const char *owner_of(const rlx_registry *r, const package *p) {
  if (r->registering_builtins) return r->linked ? r->linked : "rlx";
  if (p) return p->name;
  return r->scope == SCOPE_SESSION ? "session" : "process";
}

static const char *origin_of(const package *p) { return p ? p->path : "this program"; }

static bool ranges_meet(const rlx_kernel *a, const rlx_kernel *b) {
  int a_max = a->version_max ? a->version_max : INT32_MAX, b_max = b->version_max ? b->version_max : INT32_MAX;
  return a->version_min <= b_max && b->version_min <= a_max;
}

static rlx_status add_kernel(rlx_registry *r, kernel_entry *e, uint32_t flags) {
  bucket *b = bucket_of(r, e->head.op);
  if (!b) return status_no_memory(sizeof *b);
  for (size_t i = 0; i < b->kernels.count; i++) {
    kernel_entry *old = b->kernels.data[i];
    bool same = old->kind == e->kind && old->scope == e->scope && strcmp(old->backend, e->backend) == 0 &&
                strcmp(old->head.name, e->head.name) == 0 && ranges_meet(&old->head, &e->head);
    if (!same) continue;
    if (!(flags & RLX_REPLACE))
      return RLX_FAIL(
          DUPLICATE,
          "kernel '%s' of op '%s' for %s is already registered by %s (%s); %s (%s) may not register it again",
          e->head.name, e->head.op, e->backend, old->owner, origin_of(old->from), e->owner, origin_of(e->from));
    log_line(RLX_LOG_INFO, "kernel '%s' of op '%s' for %s of %s replaced by %s", e->head.name, e->head.op, e->backend,
             old->owner, e->owner);
    b->kernels.data[i] = e;
    kernel_entry_release(old);
    return RLX_OK;
  }
  return vector_push(&b->kernels, e) ? RLX_OK : status_no_memory(sizeof e);
}

static bool same_layout(const op_entry *a, const op_entry *b) {
  if (a->op.params_size != b->op.params_size || a->attr_count != b->attr_count) return false;
  for (int i = 0; i < a->attr_count; i++)
    if (a->op.attrs[i].offset != b->op.attrs[i].offset || a->op.attrs[i].kind != b->op.attrs[i].kind) return false;
  return true;
}

static bool serves(const kernel_entry *e, int version) {
  return version >= e->head.version_min && (!e->head.version_max || version <= e->head.version_max);
}

/* Under the lock: two records of the bucket that the kernel serves and whose layouts differ. first: one of another
 * bucket, or NULL; *first becomes one that it serves. */
static const op_entry *other_layout(const bucket *b, const kernel_entry *e, const op_entry **first) {
  for (size_t i = 0; b && i < b->ops.count; i++) {
    const op_entry *op = b->ops.data[i];
    if (!serves(e, op->op.version)) continue;
    if (*first && !same_layout(*first, op)) return op;
    *first = op;
  }
  return NULL;
}

bool registry_kernel_spans(const rlx_registry *r, const kernel_entry *e, int versions[2]) {
  rlx_registry *chain[2];
  int n = chain_of(r, chain);
  const op_entry *first = NULL, *other = NULL;
  op_entry *held = NULL;
  for (int c = 0; c < n && !other; c++) {
    pthread_mutex_lock(&chain[c]->lock);
    other = other_layout(map_get(&chain[c]->names, e->head.op), e, &first);
    if (other) {
      versions[0] = first->op.version;
      versions[1] = other->op.version;
    }
    op_entry_release(held);
    held = op_entry_retain((op_entry *)(uintptr_t)first); /* the next bucket is compared with it */
    pthread_mutex_unlock(&chain[c]->lock);
  }
  op_entry_release(held);
  return other != NULL;
}

/* An op registered after kernels that would serve it and another layout. Under the lock. */
static rlx_status check_kernels(const bucket *b, const op_entry *e) {
  for (size_t i = 0; i < b->kernels.count; i++) {
    const kernel_entry *k = b->kernels.data[i];
    const op_entry *other = e;
    if (!serves(k, e->op.version) || !(other = other_layout(b, k, &(const op_entry *){e}))) continue;
    return RLX_FAIL(
        INVALID,
        "register op '%s' version %d: kernel '%s' of %s serves versions %d and %d, whose params layouts differ",
        e->op.name, e->op.version, k->head.name, k->owner, e->op.version, other->op.version);
  }
  return RLX_OK;
}

static rlx_status add_op(rlx_registry *r, op_entry *e, uint32_t flags) {
  bucket *b = bucket_of(r, e->op.name);
  if (!b) return status_no_memory(sizeof *b);
  for (size_t i = 0; i < b->ops.count; i++) {
    op_entry *old = b->ops.data[i];
    if (old->op.version != e->op.version || old->scope != e->scope) continue;
    if (!(flags & RLX_REPLACE))
      return RLX_FAIL(DUPLICATE,
                      "op '%s' version %d is already registered by %s (%s); %s (%s) may not register it again",
                      e->op.name, e->op.version, old->owner, origin_of(old->from), e->owner, origin_of(e->from));
    log_line(RLX_LOG_INFO, "op '%s' version %d of %s replaced by %s", e->op.name, e->op.version, old->owner, e->owner);
    b->ops.data[i] = e;
    op_entry_release(old);
    return RLX_OK;
  }
  RLX_TRY(check_kernels(b, e));
  return vector_push(&b->ops, e) ? RLX_OK : status_no_memory(sizeof e);
}

rlx_status rlx_register_op(rlx_registry *r, const rlx_op *op, uint32_t flags, rlx_handle *handle) {
  if (!op) return RLX_FAIL(INVALID, "register op: no record");
  if (!r) r = rlx_registry_process();
  op_entry *e;
  RLX_TRY(op_entry_create(op, &e));
  if ((e->op.traits & RLX_CONTROL_FLOW) && !r->registering_builtins) {
    op_entry_release(e);
    return RLX_FAIL(INVALID, "register op '%s': only rlx's own ops run subgraphs (RLX_CONTROL_FLOW)", op->name);
  }
  e->from = package_retain(package_current());
  e->scope = e->from ? SCOPE_PACKAGE : r->scope;
  e->builtin = r->registering_builtins;
  e->owner = arena_strdup(&e->memory, owner_of(r, e->from));
  e->handle = atomic_fetch_add(&next_number, 1);
  rlx_handle given = e->handle;
  pthread_mutex_lock(&r->lock);
  rlx_status status = e->owner ? add_op(r, e, flags) : status_no_memory(1);
  pthread_mutex_unlock(&r->lock);
  if (status != RLX_OK)
    op_entry_release(e);
  else if (handle)
    *handle = given;
  return status;
}

rlx_status registry_add_kernel(rlx_registry *r, const kernel_source *source, uint32_t flags, rlx_handle *handle) {
  if (!r) r = rlx_registry_process();
  kernel_entry *e;
  RLX_TRY(kernel_entry_create(source, &e));
  e->from = package_retain(package_current());
  e->scope = e->from ? SCOPE_PACKAGE : r->scope;
  e->builtin = r->registering_builtins;
  e->owner = arena_strdup(&e->memory, owner_of(r, e->from));
  e->sequence = atomic_fetch_add(&next_number, 1);
  e->handle = e->sequence;
  rlx_handle given = e->handle;
  int versions[2];
  if (registry_kernel_spans(r, e, versions)) {
    rlx_status bad = RLX_FAIL(INVALID, "register kernel '%s' of '%s': versions %d and %d have different params layouts",
                              e->head.name, e->head.op, versions[0], versions[1]);
    kernel_entry_release(e);
    return bad;
  }
  pthread_mutex_lock(&r->lock);
  rlx_status status = e->owner ? add_kernel(r, e, flags) : status_no_memory(1);
  pthread_mutex_unlock(&r->lock);
  if (status != RLX_OK)
    kernel_entry_release(e);
  else if (handle)
    *handle = given;
  return status;
}

/* Removes the entries that `match` picks; what match gets is the handle or the package. */
static int remove_entries(rlx_registry *r, rlx_handle handle, const package *from) {
  int removed = 0;
  size_t at = 0;
  pthread_mutex_lock(&r->lock);
  for (bucket *b; (b = map_next(&r->names, &at, NULL));) {
    size_t keep = 0;
    for (size_t i = 0; i < b->ops.count; i++) {
      op_entry *e = b->ops.data[i];
      bool drop = from ? e->from == from : e->handle == handle;
      removed += drop;
      if (drop)
        op_entry_release(e);
      else
        b->ops.data[keep++] = e;
    }
    b->ops.count = keep;
    keep = 0;
    for (size_t i = 0; i < b->kernels.count; i++) {
      kernel_entry *e = b->kernels.data[i];
      bool drop = from ? e->from == from : e->handle == handle;
      removed += drop;
      if (drop)
        kernel_entry_release(e);
      else
        b->kernels.data[keep++] = e;
    }
    b->kernels.count = keep;
  }
  pthread_mutex_unlock(&r->lock);
  return removed;
}

rlx_status rlx_unregister(rlx_registry *r, rlx_handle handle) {
  if (!r) r = rlx_registry_process();
  if (!handle || !remove_entries(r, handle, NULL))
    return RLX_FAIL(NOT_FOUND, "unregister: handle %llu is not registered here", (unsigned long long)handle);
  return RLX_OK;
}

bool registry_has_package(rlx_registry *r, const char *path) {
  bool found = false;
  pthread_mutex_lock(&r->lock);
  for (size_t i = 0; i < r->packages.count; i++) found |= strcmp(r->packages.data[i]->path, path) == 0;
  pthread_mutex_unlock(&r->lock);
  return found;
}

rlx_status registry_add_package(rlx_registry *r, package *p) {
  pthread_mutex_lock(&r->lock);
  bool ok = vector_push(&r->packages, p);
  pthread_mutex_unlock(&r->lock);
  if (!ok) return status_no_memory(sizeof p);
  package_retain(p);
  return RLX_OK;
}

void registry_drop_package(rlx_registry *r, const package *p) { (void)remove_entries(r, 0, p); }

/* ---- finding ------------------------------------------------------------------------------ */

/* a is the better answer than b (which may be NULL) for this opset. */
static bool better_op(const op_entry *a, const op_entry *b) {
  if (!b) return true;
  if (a->scope != b->scope) return a->scope < b->scope;
  return a->op.version > b->op.version;
}

op_entry *registry_find_op(const rlx_registry *r, const char *name, int opset) {
  rlx_registry *chain[2];
  int n = chain_of(r, chain);
  op_entry *best = NULL;
  for (int c = 0; c < n; c++) {
    pthread_mutex_lock(&chain[c]->lock);
    const bucket *b = map_get(&chain[c]->names, name);
    for (size_t i = 0; b && i < b->ops.count; i++) {
      op_entry *e = b->ops.data[i];
      if ((opset && e->op.version > opset) || !better_op(e, best)) continue;
      op_entry_release(best);
      best = op_entry_retain(e);
    }
    pthread_mutex_unlock(&chain[c]->lock);
  }
  return best;
}

const char *registry_hint(const rlx_registry *r, const char *name, int opset, char *text, size_t size) {
  *text = 0;
  op_entry *newest = registry_find_op(r, name, 0);
  if (newest && opset && newest->op.version > opset)
    snprintf(text, size, "; it is known from opset %d on, the model says %d", newest->op.version, opset);
  op_entry_release(newest);
  return text;
}

static bool wanted(const kernel_entry *e, int version, const char *const *backends) {
  if (e->head.version_min && version < e->head.version_min) return false;
  if (e->head.version_max && version > e->head.version_max) return false;
  for (; *backends; backends++)
    if (strcmp(*backends, e->backend) == 0) return true;
  return false;
}

rlx_status registry_kernels(const rlx_registry *r, const char *name, int version, const char *const *backends,
                            kernel_entry ***list, int *count) {
  rlx_registry *chain[2];
  int n = chain_of(r, chain);
  VECTOR(kernel_entry *) found = {0};
  bool ok = true;
  for (int c = 0; c < n; c++) {
    pthread_mutex_lock(&chain[c]->lock);
    const bucket *b = map_get(&chain[c]->names, name);
    for (size_t i = 0; b && ok && i < b->kernels.count; i++) {
      kernel_entry *e = b->kernels.data[i];
      if (!wanted(e, version, backends)) continue;
      ok = vector_push(&found, e);
      if (ok) kernel_entry_retain(e);
    }
    pthread_mutex_unlock(&chain[c]->lock);
  }
  if (!ok) {
    for (size_t i = 0; i < found.count; i++) kernel_entry_release(found.data[i]);
    vector_finish(&found);
    return status_no_memory(sizeof *found.data);
  }
  *list = found.data;
  *count = (int)found.count;
  return RLX_OK;
}

/* Copies the names out first, so that no lock is held while fn runs. */
typedef VECTOR(void *) entry_list;

static bool collect(rlx_registry *r, bool ops, entry_list *out) {
  size_t at = 0;
  bool ok = true;
  pthread_mutex_lock(&r->lock);
  for (bucket *b; ok && (b = map_next(&r->names, &at, NULL));) {
    for (size_t i = 0; ops && ok && i < b->ops.count; i++)
      if ((ok = vector_push(out, b->ops.data[i]))) op_entry_retain(b->ops.data[i]);
    for (size_t i = 0; !ops && ok && i < b->kernels.count; i++)
      if ((ok = vector_push(out, b->kernels.data[i]))) kernel_entry_retain(b->kernels.data[i]);
  }
  pthread_mutex_unlock(&r->lock);
  return ok;
}

rlx_status registry_each_op(const rlx_registry *r, bool (*fn)(void *user, const op_entry *e), void *user) {
  rlx_registry *chain[2];
  int n = chain_of(r, chain);
  entry_list all = {0};
  bool ok = true;
  for (int c = 0; c < n && ok; c++) ok = collect(chain[c], true, &all);
  bool go = ok;
  for (size_t i = 0; i < all.count; i++) {
    if (go) go = fn(user, all.data[i]);
    op_entry_release(all.data[i]);
  }
  vector_finish(&all);
  return ok ? RLX_OK : status_no_memory(sizeof(void *));
}

rlx_status registry_each_kernel(const rlx_registry *r, bool (*fn)(void *user, const kernel_entry *e), void *user) {
  rlx_registry *chain[2];
  int n = chain_of(r, chain);
  entry_list all = {0};
  bool ok = true;
  for (int c = 0; c < n && ok; c++) ok = collect(chain[c], false, &all);
  bool go = ok;
  for (size_t i = 0; i < all.count; i++) {
    if (go) go = fn(user, all.data[i]);
    kernel_entry_release(all.data[i]);
  }
  vector_finish(&all);
  return ok ? RLX_OK : status_no_memory(sizeof(void *));
}
