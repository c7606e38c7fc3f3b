/* op.c — checking and copying records into entries that outlive their authors' memory. */
#include "ir/op.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/package.h"
#include "ir/record.h"

op_entry *op_entry_retain(op_entry *e) {
  if (e) __atomic_fetch_add(&e->refs, 1, __ATOMIC_RELAXED);
  return e;
}

void op_entry_release(op_entry *e) {
  if (!e || __atomic_fetch_sub(&e->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  package_release(e->from);
  arena_finish(&e->memory);
  mem_free(e);
}

kernel_entry *kernel_entry_retain(kernel_entry *e) {
  if (e) __atomic_fetch_add(&e->refs, 1, __ATOMIC_RELAXED);
  return e;
}

void kernel_entry_release(kernel_entry *e) {
  if (!e || __atomic_fetch_sub(&e->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  package_release(e->from);
  arena_finish(&e->memory);
  mem_free(e);
}

static const rlx_port *port_at(const rlx_port *ports, int count, bool variadic, int i) {
  if (i < 0 || (i >= count && !variadic)) return NULL;
  return &ports[i < count ? i : count - 1];
}

const rlx_port *op_input_port(const op_entry *e, int i) {
  return port_at(e->op.inputs, e->input_count, e->input_variadic, i);
}

const rlx_port *op_output_port(const op_entry *e, int i) {
  return port_at(e->op.outputs, e->output_count, e->output_variadic, i);
}

size_t op_domain_length(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : 0;
}

/* ---- checking ----------------------------------------------------------------------------- */

static rlx_status check_name(const char *name) {
  if (!name) return RLX_FAIL(INVALID, "register: the record has no op name");
  size_t domain = op_domain_length(name);
  if (domain == 0 || !name[domain + 1]) return RLX_FAIL(INVALID, "register '%s': an op's name is DOMAIN.NAME", name);
  for (const char *p = name; *p; p++)
    if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '"' || *p == '@')
      return RLX_FAIL(INVALID, "register '%s': a blank, control character, quote or '@' in an op's name", name);
  return RLX_OK;
}

static size_t attr_bytes(rlx_attr_kind kind) {
  switch (kind) {
    case RLX_ATTR_FLOAT: return sizeof(float);
    case RLX_ATTR_INT: return sizeof(int64_t);
    case RLX_ATTR_STRING:
    case RLX_ATTR_BYTES: return sizeof(rlx_string);
    case RLX_ATTR_TENSOR:
    case RLX_ATTR_GRAPH: return sizeof(void *);
    case RLX_ATTR_FLOATS: return sizeof(rlx_floats);
    case RLX_ATTR_INTS: return sizeof(rlx_ints);
    case RLX_ATTR_STRINGS: return sizeof(rlx_strings);
    case RLX_ATTR_TENSORS: return sizeof(rlx_tensors);
    case RLX_ATTR_GRAPHS: return sizeof(rlx_graphs);
    case RLX_ATTR_TYPE: return sizeof(rlx_type);
    default: return 0;
  }
}

static size_t attr_align(rlx_attr_kind kind) {
  return kind == RLX_ATTR_FLOAT ? _Alignof(float) : kind == RLX_ATTR_TYPE ? _Alignof(rlx_type) : _Alignof(int64_t);
}

/* Where the attribute is decoded to: its own place, aligned. */
static rlx_status check_place(const rlx_op *op, const rlx_attr_def *a) {
  size_t bytes = attr_bytes(a->kind);
  if (a->offset < sizeof(uint64_t) || a->offset > op->params_size || op->params_size - a->offset < bytes)
    return RLX_FAIL(INVALID,
                    "register '%s': attribute '%s' at offset %zu does not fit params of %zu bytes after `given`",
                    op->name, a->name, a->offset, op->params_size);
  if (a->offset % attr_align(a->kind))
    return RLX_FAIL(INVALID, "register '%s': attribute '%s' at offset %zu is not aligned to %zu bytes", op->name,
                    a->name, a->offset, attr_align(a->kind));
  for (const rlx_attr_def *b = op->attrs; b != a; b++)
    if (a->offset < b->offset + attr_bytes(b->kind) && b->offset < a->offset + bytes)
      return RLX_FAIL(INVALID, "register '%s': attributes '%s' and '%s' overlap at offset %zu", op->name, b->name,
                      a->name, a->offset);
  return RLX_OK;
}

static rlx_status check_attrs(const rlx_op *op) {
  int n = 0;
  for (const rlx_attr_def *a = op->attrs; a && a->name; a++, n++) {
    size_t bytes = attr_bytes(a->kind);
    if (!bytes)
      return RLX_FAIL(INVALID, "register '%s': attribute '%s' has no such kind (%d)", op->name, a->name, (int)a->kind);
    if ((a->flags & RLX_RANGED) && !(a->min <= a->max))
      return RLX_FAIL(INVALID, "register '%s': attribute '%s' has the empty range [%g, %g]", op->name, a->name, a->min,
                      a->max);
    if (a->default_ints.count < 0 || a->default_floats.count < 0 || (a->default_ints.count && !a->default_ints.data) ||
        (a->default_floats.count && !a->default_floats.data))
      return RLX_FAIL(INVALID, "register '%s': attribute '%s': the default has a count but no list", op->name, a->name);
    for (const rlx_attr_def *b = op->attrs; b != a; b++)
      if (strcmp(a->name, b->name) == 0)
        return RLX_FAIL(INVALID, "register '%s': attribute '%s' twice", op->name, a->name);
    RLX_TRY(check_place(op, a));
  }
  if (n > 64) return RLX_FAIL(INVALID, "register '%s': %d attributes, at most 64", op->name, n);
  if (op->params_size > 1 << 20)
    return RLX_FAIL(INVALID, "register '%s': params of %zu bytes", op->name, op->params_size);
  return RLX_OK;
}

static rlx_status check_ports(const rlx_op *op, const rlx_port *ports, const char *side) {
  const uint64_t known = (RLX_SET(RLX_DTYPE_COUNT) - 1) & ~RLX_SET(RLX_UNDEFINED);
  for (const rlx_port *p = ports; p && p->name; p++) {
    if ((p->flags & RLX_VARIADIC) && p[1].name)
      return RLX_FAIL(INVALID, "register '%s': variadic %s '%s' is not the last", op->name, side, p->name);
    if (p->dtypes && !(p->dtypes & known))
      return RLX_FAIL(INVALID, "register '%s': %s '%s' permits no dtype there is (0x%llx)", op->name, side, p->name,
                      (unsigned long long)p->dtypes);
    if (p->min_count < 0 || (p->min_count && !(p->flags & RLX_VARIADIC)))
      return RLX_FAIL(INVALID, "register '%s': %s '%s' is of at least %d, but not variadic", op->name, side, p->name,
                      p->min_count);
  }
  return RLX_OK;
}

rlx_status op_record_check(const rlx_op *op) {
  if (op->struct_size < offsetof(rlx_op, traits) || op->struct_size > 1 << 16)
    return RLX_FAIL(INVALID, "register op: struct_size %u is not that of an rlx_op", op->struct_size);
  RLX_TRY(check_name(op->name));
  if (op->version < 0) return RLX_FAIL(INVALID, "register '%s': version %d", op->name, op->version);
  RLX_TRY(check_ports(op, op->inputs, "input"));
  RLX_TRY(check_ports(op, op->outputs, "output"));
  if (!op->outputs || !op->outputs->name) {
    if (!(op->traits & RLX_SIDE_EFFECT))
      return RLX_FAIL(INVALID, "register '%s': no outputs and no side effect", op->name);
  }
  return check_attrs(op);
}

static rlx_status check_pairs(const rlx_kernel *k, const rlx_pair *pairs, int count) {
  if (count < 0 || count > 64 || (count && !pairs))
    return RLX_FAIL(INVALID, "register kernel '%s' of '%s': %d in-place or alias pairs", k->name, k->op, count);
  for (int i = 0; i < count; i++)
    if (pairs[i].output < 0 || pairs[i].input < 0)
      return RLX_FAIL(INVALID, "register kernel '%s' of '%s': negative port in a pair", k->name, k->op);
  return RLX_OK;
}

rlx_status kernel_record_check(const rlx_kernel *k) {
  RLX_TRY(check_name(k->op));
  if (!k->name || !*k->name) return RLX_FAIL(INVALID, "register kernel of '%s': it has no name", k->op);
  if (k->version_min < 0 || (k->version_max && k->version_max < k->version_min))
    return RLX_FAIL(INVALID, "register kernel '%s' of '%s': versions %d to %d", k->name, k->op, k->version_min,
                    k->version_max);
  if (k->min_align < 0 || (k->min_align & (k->min_align - 1)) || k->min_align > 4096)
    return RLX_FAIL(INVALID, "register kernel '%s' of '%s': min_align %d is not a power of two up to 4096", k->name,
                    k->op, k->min_align);
  if (k->pack && !k->packing)
    return RLX_FAIL(INVALID, "register kernel '%s' of '%s': pack without packing", k->name, k->op);
  RLX_TRY(check_pairs(k, k->in_place, k->in_place_count));
  return check_pairs(k, k->aliases, k->alias_count);
}

/* ---- copying ------------------------------------------------------------------------------ */

/* Copies an array that ends with an entry whose name is NULL; *count gets its length. */
#define COPY_LIST(memory, T, list, count)                                                                \
  do {                                                                                                   \
    size_t n_ = 0;                                                                                       \
    while ((list) && (list)[n_].name) n_++;                                                              \
    T *copy_ = arena_array(memory, n_ + 1, sizeof(T));                                                   \
    if (!copy_) return status_no_memory((n_ + 1) * sizeof(T));                                           \
    for (size_t i_ = 0; i_ < n_; i_++) {                                                                 \
      copy_[i_] = (list)[i_];                                                                            \
      copy_[i_].name = arena_strdup(memory, copy_[i_].name);                                             \
      if (!copy_[i_].name) return status_no_memory(sizeof(T));                                           \
    }                                                                                                    \
    (list) = copy_;                                                                                      \
    (count) = (int)n_;                                                                                   \
  } while (0)

static rlx_status copy_string(arena *m, const char **s) {
  if (!*s) return RLX_OK;
  *s = arena_strdup(m, *s);
  return *s ? RLX_OK : status_no_memory(1);
}

static rlx_status copy_samples(op_entry *e) {
  size_t n = 0;
  while (e->op.samples && e->op.samples[n]) n++;
  const char **copy = arena_array(&e->memory, n + 1, sizeof *copy);
  if (!copy) return status_no_memory(n);
  for (size_t i = 0; i < n; i++) {
    copy[i] = e->op.samples[i];
    RLX_TRY(copy_string(&e->memory, &copy[i]));
  }
  e->op.samples = copy;
  return RLX_OK;
}

static rlx_status copy_lists(op_entry *e) {
  arena *m = &e->memory;
  rlx_op *op = &e->op;
  COPY_LIST(m, rlx_port, op->inputs, e->input_count);
  COPY_LIST(m, rlx_port, op->outputs, e->output_count);
  COPY_LIST(m, rlx_attr_def, op->attrs, e->attr_count);
  for (int i = 0; i < e->input_count; i++) RLX_TRY(copy_string(m, &((rlx_port *)(uintptr_t)op->inputs)[i].variable));
  for (int i = 0; i < e->output_count; i++) RLX_TRY(copy_string(m, &((rlx_port *)(uintptr_t)op->outputs)[i].variable));
  for (int i = 0; i < e->attr_count; i++) {
    rlx_attr_def *a = &((rlx_attr_def *)(uintptr_t)op->attrs)[i];
    RLX_TRY(copy_string(m, &a->default_string));
    a->default_ints.data = arena_copy(m, a->default_ints.data, (size_t)a->default_ints.count * sizeof(int64_t));
    a->default_floats.data = arena_copy(m, a->default_floats.data, (size_t)a->default_floats.count * sizeof(float));
    if (!a->default_ints.data || !a->default_floats.data) return status_no_memory(1);
  }
  return RLX_OK;
}

static rlx_status fill_op(op_entry *e, const rlx_op *op) {
  memcpy(&e->op, op, op->struct_size < sizeof *op ? op->struct_size : sizeof *op);
  e->op.struct_size = sizeof *op;
  if (e->op.version == 0) e->op.version = 1;
  RLX_TRY(copy_string(&e->memory, &e->op.name));
  RLX_TRY(copy_string(&e->memory, &e->op.doc));
  RLX_TRY(copy_string(&e->memory, &e->op.no_derivative));
  RLX_TRY(copy_samples(e));
  RLX_TRY(copy_lists(e));
  e->input_variadic = e->input_count && (e->op.inputs[e->input_count - 1].flags & RLX_VARIADIC);
  e->output_variadic = e->output_count && (e->op.outputs[e->output_count - 1].flags & RLX_VARIADIC);
  for (int i = 0; i < e->input_count; i++) {
    const rlx_port *p = &e->op.inputs[i];
    if (p->flags & RLX_VARIADIC)
      e->input_min = p->min_count ? i + p->min_count : e->input_min;
    else if (!(p->flags & RLX_OPTIONAL))
      e->input_min = i + 1;
  }
  return RLX_OK;
}

rlx_status op_entry_create(const rlx_op *op, op_entry **out) {
  RLX_TRY(op_record_check(op));
  op_entry *e = mem_zalloc(sizeof *e);
  if (!e) return status_no_memory(sizeof *e);
  e->refs = 1;
  rlx_status status = fill_op(e, op);
  if (status != RLX_OK)
    op_entry_release(e);
  else
    *out = e;
  return status;
}

static rlx_status fill_kernel(kernel_entry *e, const kernel_source *s) {
  arena *m = &e->memory;
  e->head = *s->head;
  e->run = s->run;
  e->kind = s->kind;
  e->backend = s->backend;
  RLX_TRY(copy_string(m, &e->backend));
  RLX_TRY(copy_string(m, &e->head.op));
  RLX_TRY(copy_string(m, &e->head.name));
  e->head.in_place = arena_copy(m, e->head.in_place, (size_t)e->head.in_place_count * sizeof(rlx_pair));
  e->head.aliases = arena_copy(m, e->head.aliases, (size_t)e->head.alias_count * sizeof(rlx_pair));
  e->record = arena_copy(m, s->record, s->record_bytes);
  if (!e->head.in_place || !e->head.aliases || !e->record) return status_no_memory(s->record_bytes);
  return s->kind == KERNEL_PORTABLE ? gpu_record_copy(m, (rlx_gpu_kernel *)(uintptr_t)e->record) : RLX_OK;
}

rlx_status kernel_entry_create(const kernel_source *source, kernel_entry **out) {
  if (source->record_bytes < source->record_least || source->record_bytes > 1 << 16)
    return RLX_FAIL(INVALID, "register kernel: struct_size %zu is not that of its record", source->record_bytes);
  RLX_TRY(kernel_record_check(source->head));
  kernel_entry *e = mem_zalloc(sizeof *e);
  if (!e) return status_no_memory(sizeof *e);
  e->refs = 1;
  rlx_status status = fill_kernel(e, source);
  if (status != RLX_OK)
    kernel_entry_release(e);
  else
    *out = e;
  return status;
}
