/* render_types.c — the types of kernel arguments, and the argument block. */
#include <math.h>
#include <string.h>

#include "backend/gpu/lint.h"
#include "backend/gpu/render_private.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/vector.h"
#include "ir/dtype.h"
#include "ir/graph.h"

static const gpu_type types[RLX_DTYPE_COUNT] = {
    [RLX_FLOAT] = {"f32", "f32", "float", "float", "float", 4},
    [RLX_DOUBLE] = {"f64", "f64", "double", "double", "double", 8},
    [RLX_FLOAT16] = {"f16", "f32", "float16_t", "unsigned short", "half", 2},
    [RLX_BFLOAT16] = {"bf16", "f32", "uint16_t", "unsigned short", "ushort", 2},
    [RLX_INT8] = {"i8", "i32", "int8_t", "signed char", "char", 1},
    [RLX_INT16] = {"i16", "i32", "int16_t", "short", "short", 2},
    [RLX_INT32] = {"i32", "i32", "int", "int", "int", 4},
    [RLX_INT64] = {"i64", "i64", "int64_t", "long long", "long", 8},
    [RLX_UINT8] = {"u8", "u32", "uint8_t", "unsigned char", "uchar", 1},
    [RLX_UINT16] = {"u16", "u32", "uint16_t", "unsigned short", "ushort", 2},
    [RLX_UINT32] = {"u32", "u32", "uint", "unsigned int", "uint", 4},
    [RLX_UINT64] = {"u64", "u64", "uint64_t", "unsigned long long", "ulong", 8},
    [RLX_BOOL] = {"bool", "bool", "uint8_t", "unsigned char", "uchar", 1},
};

const gpu_type *gpu_type_of(rlx_dtype dtype) {
  return (unsigned)dtype < RLX_DTYPE_COUNT && types[dtype].name ? &types[dtype] : NULL;
}

static rlx_dtype named(const char *name) {
  for (int d = 0; d < RLX_DTYPE_COUNT; d++)
    if (types[d].name && strcmp(types[d].name, name) == 0) return (rlx_dtype)d;
  return RLX_UNDEFINED;
}

static bool port_has(const rlx_port *p, const char *name, size_t length) {
  return p && p->variable && strlen(p->variable) == length && memcmp(p->variable, name, length) == 0;
}

rlx_dtype gpu_variable_dtype(const rlx_node *n, const char *name, size_t length) {
  if (!n || !n->op) return RLX_UNDEFINED;
  for (int i = 0; i < n->input_count; i++) {
    const rlx_type *t = rlx_node_input_type(n, i);
    if (t && port_has(op_input_port(n->op, i), name, length)) return t->dtype;
  }
  for (int i = 0; i < n->output_count; i++) {
    const rlx_type *t = rlx_node_output_type(n, i);
    if (t && port_has(op_output_port(n->op, i), name, length)) return t->dtype;
  }
  return RLX_UNDEFINED;
}

static rlx_dtype operand_dtype(const rlx_gpu_arg *arg, const rlx_node *n) {
  const rlx_type *t = !n                            ? NULL
                      : arg->flags & RLX_GPU_INPUT  ? rlx_node_input_type(n, arg->index)
                      : arg->flags & RLX_GPU_OUTPUT ? rlx_node_output_type(n, arg->index)
                                                    : NULL;
  return t ? t->dtype : RLX_UNDEFINED;
}

static rlx_dtype word_of(rlx_dtype dtype) {
  switch (dtype_size(dtype)) {
    case 1: return RLX_UINT8;
    case 2: return RLX_UINT16;
    case 4: return RLX_UINT32;
    case 8: return RLX_UINT64;
    default: return RLX_UNDEFINED;
  }
}

/* Scalars stand in the block as the text sees them. */
static rlx_dtype widened(rlx_dtype dtype) {
  const gpu_type *t = gpu_type_of(dtype);
  return !t ? dtype : strcmp(t->value, "bool") == 0 ? RLX_UINT32 : named(t->value);
}

rlx_status gpu_arg_dtype(const rlx_gpu_function *f, const rlx_gpu_arg *arg, const rlx_node *n, rlx_dtype *dtype) {
  rlx_dtype own = operand_dtype(arg, n), d;
  if (!arg->type)
    d = own;
  else if (strcmp(arg->type, "bits") == 0)
    d = own == RLX_UNDEFINED ? own : word_of(own);
  else if (named(arg->type) != RLX_UNDEFINED)
    d = named(arg->type);
  else
    d = gpu_variable_dtype(n, arg->type, strlen(arg->type));
  bool missing = d == RLX_UNDEFINED && gpu_arg_is_operand(arg) && own == RLX_UNDEFINED;
  if (!missing && !gpu_type_of(d))
    return RLX_FAIL(UNSUPPORTED,
                    "kernel text '%s': argument '%s' of type %s has dtype %s, which kernel texts do not read", f->name,
                    arg->name, arg->type ? arg->type : "its operand", rlx_dtype_name(own));
  *dtype = gpu_arg_is_operand(arg) ? d : widened(d);
  return RLX_OK;
}

/* ---- argument block ---- */

rlx_status gpu_layout_make(const rlx_gpu_function *f, const rlx_node *n, gpu_layout *out) {
  gpu_layout l = {0};
  for (const rlx_gpu_arg *a = f->args; a && a->name; a++) {
    if (l.count == GPU_MAX_ARGS) return RLX_FAIL(INVALID, "kernel text '%s': too many arguments", f->name);
    gpu_slot *s = &l.slots[l.count++];
    s->arg = a;
    RLX_TRY(gpu_arg_dtype(f, a, n, &s->dtype));
    int align = gpu_arg_is_operand(a) ? 8 : types[s->dtype].bytes;
    s->bytes = align * (a->length ? a->length : 1);
    s->offset = (l.bytes + align - 1) / align * align;
    l.bytes = s->offset + s->bytes;
  }
  l.bytes = (l.bytes + 15) / 16 * 16;
  *out = l;
  return RLX_OK;
}

typedef struct gpu_scalar {
  char name[32];
  int count;
  bool is_float;
  void *values; /* int64_t or double; owned */
} gpu_scalar;

void gpu_scalars_finish(gpu_scalars *s) {
  for (size_t i = 0; i < s->count; i++) mem_free(s->items[i].values);
  mem_free(s->items);
  *s = (gpu_scalars){0};
}

static void set(gpu_scalars *s, const char *name, const void *values, int count, bool is_float) {
  gpu_scalar *item = NULL;
  for (size_t i = 0; i < s->count; i++)
    if (strcmp(s->items[i].name, name) == 0) item = &s->items[i];
  size_t bytes = (size_t)(count > 0 ? count : 0) * 8;
  void *copy = mem_alloc(bytes);
  if (!item && copy && strlen(name) < sizeof item->name &&
      (s->count < s->capacity ||
       vector_reserve_bytes((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items))) {
    item = &s->items[s->count++];
    *item = (gpu_scalar){0};
    memcpy(item->name, name, strlen(name) + 1);
  }
  if (!item || !copy) {
    s->failed = true;
    mem_free(copy);
    return;
  }
  mem_free(item->values);
  if (bytes) memcpy(copy, values, bytes);
  item->values = copy;
  item->count = count;
  item->is_float = is_float;
}

void gpu_scalars_set_ints(gpu_scalars *s, const char *name, const int64_t *values, int count) {
  set(s, name, values, count, false);
}

void gpu_scalars_set_floats(gpu_scalars *s, const char *name, const double *values, int count) {
  set(s, name, values, count, true);
}

static rlx_status write_int(const gpu_slot *s, int64_t v, int i, char *block) {
  char *at = block + s->offset + i * types[s->dtype].bytes;
  if (s->dtype == RLX_INT32 ? v < INT32_MIN || v > INT32_MAX : s->dtype == RLX_UINT32 ? v < 0 || v > UINT32_MAX : false)
    return RLX_FAIL(INVALID, "argument '%s' of type %s cannot hold %lld", s->arg->name, types[s->dtype].name,
                    (long long)v);
  if (s->dtype == RLX_FLOAT || s->dtype == RLX_DOUBLE)
    dtype_store(s->dtype, at, 0, (double)v);
  else
    dtype_store_int(s->dtype, at, 0, v);
  return RLX_OK;
}

static rlx_status write_float(const gpu_slot *s, double v, int i, char *block) {
  if (s->dtype != RLX_FLOAT && s->dtype != RLX_DOUBLE)
    return RLX_FAIL(INVALID, "argument '%s' of type %s is set as a float", s->arg->name, types[s->dtype].name);
  dtype_store(s->dtype, block + s->offset + i * types[s->dtype].bytes, 0, v);
  return RLX_OK;
}

/* An INT or FLOAT attribute of the node's op with the argument's name. */
static rlx_status write_attribute(const gpu_slot *s, const rlx_node *n, char *block) {
  const op_entry *op = n ? n->op : NULL;
  for (int i = 0; op && n->params && i < op->attr_count; i++) {
    const rlx_attr_def *a = &op->op.attrs[i];
    const char *at = (const char *)n->params + a->offset;
    if (strcmp(a->name, s->arg->name) != 0 || s->arg->length) continue;
    if (a->kind == RLX_ATTR_INT) return write_int(s, *(const int64_t *)(const void *)at, 0, block);
    if (a->kind == RLX_ATTR_FLOAT) return write_float(s, (double)*(const float *)(const void *)at, 0, block);
  }
  return RLX_FAIL(INVALID, "argument '%s' is not set, and no attribute of that name", s->arg->name);
}

static rlx_status write_set(const gpu_slot *s, const gpu_scalar *v, char *block) {
  int want = s->arg->length ? s->arg->length : 1;
  if (v->count > want || (!s->arg->length && v->count != 1))
    return RLX_FAIL(INVALID, "argument '%s' takes %d values, not %d", s->arg->name, want, v->count);
  memset(block + s->offset, 0, (size_t)s->bytes);
  for (int i = 0; i < v->count; i++)
    RLX_TRY(v->is_float ? write_float(s, ((const double *)v->values)[i], i, block)
                        : write_int(s, ((const int64_t *)v->values)[i], i, block));
  return RLX_OK;
}

rlx_status gpu_block_scalars(const gpu_layout *l, const gpu_scalars *scalars, const rlx_node *n,
                             const int64_t *output_counts, void *block) {
  if (scalars && scalars->failed)
    return RLX_FAIL(INVALID, "out of memory, or the name of an argument is longer than 31 bytes");
  for (int i = 0; i < l->count; i++) {
    const gpu_slot *s = &l->slots[i];
    if (gpu_arg_is_operand(s->arg)) continue;
    if (s->arg->flags & RLX_GPU_COUNT) {
      RLX_TRY(write_int(s, output_counts[s->arg->index], 0, block));
      continue;
    }
    const gpu_scalar *found = NULL;
    for (size_t j = 0; scalars && j < scalars->count; j++)
      if (strcmp(scalars->items[j].name, s->arg->name) == 0) found = &scalars->items[j];
    RLX_TRY(found ? write_set(s, found, block) : write_attribute(s, n, block));
  }
  return RLX_OK;
}
