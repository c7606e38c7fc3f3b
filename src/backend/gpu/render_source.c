/* render_source.c — a kernel's source put together: types, memory access, workgroup reductions, argument block, entry.
 */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/lint.h"
#include "backend/gpu/render_private.h"

void render_note_use(render *r, const gpu_token *t) {
  static const struct {
    const char *name;
    uint32_t use;
  } uses[] = {{"GROUP_SUM", USE_SUM}, {"GROUP_MAX", USE_MAX}, {"GROUP_MIN", USE_MIN}, {"SHUFFLE_XOR", USE_SHUFFLE}};
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
    if (token_is(t, uses[i].name)) r->uses |= uses[i].use;
}

static uint32_t invocations(const render *r) {
  uint32_t size[3];
  gpu_workgroup(r->f, size);
  return size[0] * size[1] * size[2];
}

/* Subgroups are used where they divide the workgroup. */
static uint32_t subgroup(const render *r) {
  uint32_t s = r->target->subgroup;
  return s > 1 && (s & (s - 1)) == 0 && invocations(r) % s == 0 ? s : 0;
}

static bool reduces(const render *r) { return (r->uses & (USE_SUM | USE_MAX | USE_MIN)) != 0; }

/* ---- reading and writing elements ---- */

/* %m memory, %v value type; the place of an element is written by each dialect. */
typedef struct access {
  const char *load, *store; /* around the element: "f32(%s)" */
} access;

static access access_of(const render *r, rlx_dtype d) {
  gpu_dialect dialect = r->target->dialect;
  switch (d) {
    case RLX_FLOAT16:
      if (dialect == GPU_CUDA) return (access){"rlx_from_f16(%s)", "rlx_to_f16(v)"};
      return (access){"f32(%s)", dialect == GPU_GLSL ? "float16_t(v)" : "half(v)"};
    case RLX_BFLOAT16:
      return (access){"BITS_U2F(u32(%s) << 16u)", dialect == GPU_GLSL ? "uint16_t(TO_BF16(v))" : "TO_BF16(v)"};
    case RLX_BOOL: return (access){"u32(%s) != 0u", dialect == GPU_GLSL ? "uint8_t(v ? 1u : 0u)" : "v ? 1u : 0u"};
    case RLX_INT8: return (access){"i32(%s)", dialect == GPU_GLSL ? "int8_t(v)" : "(signed char)v"};
    case RLX_INT16: return (access){"i32(%s)", dialect == GPU_GLSL ? "int16_t(v)" : "(short)v"};
    case RLX_UINT8: return (access){"u32(%s)", dialect == GPU_GLSL ? "uint8_t(v)" : "v"};
    case RLX_UINT16: return (access){"u32(%s)", dialect == GPU_GLSL ? "uint16_t(v)" : "v"};
    default: return (access){"%s", "v"};
  }
}

static const char *memory_type(const render *r, const gpu_type *t) {
  return r->target->dialect == GPU_GLSL ? t->glsl : r->target->dialect == GPU_CUDA ? t->cuda : t->msl;
}

/* printf with one %s, of a table's text. */
static void put(text *out, const char *format, const char *value) {
  const char *mark = strstr(format, "%s");
  if (!mark) {
    text_add(out, format);
    return;
  }
  text_add_bytes(out, format, (size_t)(mark - format));
  text_add(out, value);
  text_add(out, mark + 2);
}

static const char *pointer(const render *r) {
  return r->target->dialect == GPU_GLSL ? "u64" : r->target->dialect == GPU_CUDA ? "unsigned char *" : "device uchar *";
}

/* Element i at p, as an expression. */
static void place(const render *r, const gpu_type *t, text *out) {
  if (r->target->dialect == GPU_GLSL)
    text_printf(out, "rlx_r_%s(p + u64(i) * u64(%d)).v", t->name, t->bytes);
  else
    text_printf(out, "((%s%s *)p)[i]", r->target->dialect == GPU_MSL ? "device " : "", memory_type(r, t));
}

static void scalar_access(const render *r, rlx_dtype d, text *out) {
  const gpu_type *t = gpu_type_of(d);
  access a = access_of(r, d);
  text at = {0};
  place(r, t, &at);
  if (r->target->dialect == GPU_GLSL)
    text_printf(out, "layout(buffer_reference, scalar, buffer_reference_align = %d) buffer rlx_r_%s { %s v; };\n",
                t->bytes, t->name, t->glsl);
  if (r->loaded & RLX_SET(d)) {
    text_printf(out, "FN %s rlx_ld_%s(%s p, i64 i) { return ", t->value, t->name, pointer(r));
    put(out, a.load, at.data ? at.data : "");
    text_add(out, "; }\n");
  }
  if (r->stored & RLX_SET(d))
    text_printf(out, "FN void rlx_st_%s(%s p, i64 i, %s v) { %s = %s; }\n", t->name, pointer(r), t->value,
                at.data ? at.data : "", a.store);
  out->failed |= at.failed;
  text_finish(&at);
}

/* Four elements at a time, by dialect: {declaration, load, store} for f32, f16, bf16. P is the place. */
static const char *const vectors[3][3][3] = {
    [GPU_GLSL] = {{"layout(buffer_reference, scalar, buffer_reference_align = 16) buffer rlx_r4_f32 { vec4 v; };\n",
                   "FN f32x4 rlx_ld4_f32(u64 p, i64 i) { return rlx_r4_f32(p + u64(i) * u64(4)).v; }\n",
                   "FN void rlx_st4_f32(u64 p, i64 i, f32x4 v) { rlx_r4_f32(p + u64(i) * u64(4)).v = v; }\n"},
                  {"layout(buffer_reference, scalar, buffer_reference_align = 8) buffer rlx_r4_f16 { uvec2 v; };\n",
                   "FN f32x4 rlx_ld4_f16(u64 p, i64 i) { uvec2 w = rlx_r4_f16(p + u64(i) * u64(2)).v;\n"
                   "  return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y)); }\n",
                   "FN void rlx_st4_f16(u64 p, i64 i, f32x4 v) {\n"
                   "  rlx_r4_f16(p + u64(i) * u64(2)).v = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }\n"},
                  {"layout(buffer_reference, scalar, buffer_reference_align = 8) buffer rlx_r4_bf16 { uvec2 v; };\n",
                   "FN f32x4 rlx_ld4_bf16(u64 p, i64 i) { uvec2 w = rlx_r4_bf16(p + u64(i) * u64(2)).v;\n"
                   "  return vec4(BITS_U2F(w.x << 16u), BITS_U2F(w.x & 0xffff0000u), BITS_U2F(w.y << 16u),"
                   " BITS_U2F(w.y & 0xffff0000u)); }\n",
                   "FN void rlx_st4_bf16(u64 p, i64 i, f32x4 v) { rlx_r4_bf16(p + u64(i) * u64(2)).v =\n"
                   "  uvec2(TO_BF16(v.x) | (TO_BF16(v.y) << 16u), TO_BF16(v.z) | (TO_BF16(v.w) << 16u)); }\n"}},
    [GPU_CUDA] =
        {{"", "FN f32x4 rlx_ld4_f32(unsigned char *p, i64 i) { return *(float4 *)((float *)p + i); }\n",
          "FN void rlx_st4_f32(unsigned char *p, i64 i, f32x4 v) { *(float4 *)((float *)p + i) = v; }\n"},
         {"",
          "FN f32x4 rlx_ld4_f16(unsigned char *p, i64 i) { ushort4 w = *(ushort4 *)((unsigned short *)p + i);\n"
          "  return F32X4(rlx_from_f16(w.x), rlx_from_f16(w.y), rlx_from_f16(w.z), rlx_from_f16(w.w)); }\n",
          "FN void rlx_st4_f16(unsigned char *p, i64 i, f32x4 v) { *(ushort4 *)((unsigned short *)p + i) =\n"
          "  make_ushort4(rlx_to_f16(v.x), rlx_to_f16(v.y), rlx_to_f16(v.z), rlx_to_f16(v.w)); }\n"},
         {"",
          "FN f32x4 rlx_ld4_bf16(unsigned char *p, i64 i) { uint2 w = *(uint2 *)((unsigned short *)p + i);\n"
          "  return F32X4(BITS_U2F(w.x << 16u), BITS_U2F(w.x & 0xffff0000u), BITS_U2F(w.y << 16u),"
          " BITS_U2F(w.y & 0xffff0000u)); }\n",
          "FN void rlx_st4_bf16(unsigned char *p, i64 i, f32x4 v) { *(uint2 *)((unsigned short *)p + i) =\n"
          "  make_uint2(TO_BF16(v.x) | (TO_BF16(v.y) << 16u), TO_BF16(v.z) | (TO_BF16(v.w) << 16u)); }\n"}},
    [GPU_MSL] =
        {{"", "FN f32x4 rlx_ld4_f32(device uchar *p, i64 i) { return *(device float4 *)((device float *)p + i); }\n",
          "FN void rlx_st4_f32(device uchar *p, i64 i, f32x4 v) { *(device float4 *)((device float *)p + i) = v; }\n"},
         {"",
          "FN f32x4 rlx_ld4_f16(device uchar *p, i64 i) { return float4(*(device half4 *)((device half *)p + i)); }\n",
          "FN void rlx_st4_f16(device uchar *p, i64 i, f32x4 v) { *(device half4 *)((device half *)p + i) = half4(v); "
          "}\n"},
         {"",
          "FN f32x4 rlx_ld4_bf16(device uchar *p, i64 i) { uint2 w = *(device uint2 *)((device ushort *)p + i);\n"
          "  return F32X4(BITS_U2F(w.x << 16u), BITS_U2F(w.x & 0xffff0000u), BITS_U2F(w.y << 16u),"
          " BITS_U2F(w.y & 0xffff0000u)); }\n",
          "FN void rlx_st4_bf16(device uchar *p, i64 i, f32x4 v) { *(device uint2 *)((device ushort *)p + i) =\n"
          "  uint2(TO_BF16(v.x) | (TO_BF16(v.y) << 16u), TO_BF16(v.z) | (TO_BF16(v.w) << 16u)); }\n"}},
};

static void memory_access(const render *r, text *out) {
  uint64_t all = r->loaded | r->stored, four = r->loaded4 | r->stored4;
  for (int d = 0; d < RLX_DTYPE_COUNT; d++)
    if (all & RLX_SET(d)) scalar_access(r, (rlx_dtype)d, out);
  static const rlx_dtype wide[] = {RLX_FLOAT, RLX_FLOAT16, RLX_BFLOAT16};
  for (int i = 0; i < 3; i++) {
    if (!(four & RLX_SET(wide[i]))) continue;
    const char *const *v = vectors[r->target->dialect][i];
    text_add(out, v[0]);
    if (r->loaded4 & RLX_SET(wide[i])) text_add(out, v[1]);
    if (r->stored4 & RLX_SET(wide[i])) text_add(out, v[2]);
  }
}

/* ---- reductions over the workgroup ---- */

static void one_reduction(const render *r, const char *name, const char *op, bool real, text *out) {
  const char *type = real ? "f32" : "i32", *pack = real ? "BITS_F2U" : "u32", *open = real ? "BITS_U2F" : "i32";
  text_printf(out, "FN %s rlx_%s(%s v%s) {\n  BARRIER();\n", type, name, type,
              r->target->dialect == GPU_MSL ? ", threadgroup u32 *rlx_red, u32 rlx_local" : "");
  char joined[64];
  if (subgroup(r)) {
    snprintf(joined, sizeof joined, op, "v", "SHUFFLE_XOR(v, m)");
    text_printf(out, "  for (u32 m = %uu; m > 0u; m = m >> 1u) v = %s;\n", subgroup(r) / 2, joined);
    text_printf(out, "  if ((LOCAL_ID & %uu) == 0u) rlx_red[LOCAL_ID / %uu] = %s(v);\n  BARRIER();\n", subgroup(r) - 1,
                subgroup(r), pack);
    snprintf(joined, sizeof joined, op, "v", "w");
    text_printf(out, "  v = %s(rlx_red[0]);\n  for (u32 i = 1u; i < %uu; i++) { %s w = %s(rlx_red[i]); v = %s; }\n",
                open, invocations(r) / subgroup(r), type, open, joined);
    text_add(out, "  return v;\n}\n");
    return;
  }
  snprintf(joined, sizeof joined, op, "v", "w");
  text_printf(out, "  rlx_red[LOCAL_ID] = %s(v);\n  BARRIER();\n  for (u32 n = WG; n > 1u;) {\n", pack);
  text_printf(out, "    u32 h = (n + 1u) / 2u;\n    if (LOCAL_ID + h < n) {\n      %s w = %s(rlx_red[LOCAL_ID + h]);\n",
              type, open);
  text_printf(out, "      v = %s;\n      rlx_red[LOCAL_ID] = %s(v);\n    }\n    BARRIER();\n    n = h;\n  }\n", joined,
              pack);
  text_printf(out, "  return %s(rlx_red[0]);\n}\n", open);
}

static void reductions(const render *r, text *out) {
  static const struct {
    uint32_t use;
    const char *name, *macro, *op;
  } kinds[] = {{USE_SUM, "sum", "GROUP_SUM", "%s + %s"},
               {USE_MAX, "max", "GROUP_MAX", "MAX(%s, %s)"},
               {USE_MIN, "min", "GROUP_MIN", "MIN(%s, %s)"}};
  if (!reduces(r)) return;
  uint32_t words = subgroup(r) ? invocations(r) / subgroup(r) : invocations(r);
  if (r->target->dialect != GPU_MSL)
    text_printf(out, "%s u32 rlx_red[%u];\n", r->target->dialect == GPU_GLSL ? "shared" : "__shared__", words);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!(r->uses & kinds[i].use)) continue;
    one_reduction(r, kinds[i].name, kinds[i].op, true, out);
    one_reduction(r, kinds[i].name, kinds[i].op, false, out);
    text_printf(out, "#define %s(v) rlx_%s(v%s)\n", kinds[i].macro, kinds[i].name,
                r->target->dialect == GPU_MSL ? ", rlx_red, rlx_local" : "");
  }
}

/* ---- the parts around ---- */

static bool has_width(const render *r, int bytes) {
  for (int d = 0; d < RLX_DTYPE_COUNT; d++)
    if (((r->loaded | r->stored) & RLX_SET(d)) && gpu_type_of((rlx_dtype)d)->bytes == bytes) return true;
  return false;
}

static void glsl_head(const render *r, text *out) {
  text_add(
      out,
      "#version 460\n#extension GL_EXT_buffer_reference : require\n#extension GL_EXT_scalar_block_layout : require\n"
      "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n"
      "#extension GL_EXT_control_flow_attributes : require\n");
  if (has_width(r, 2)) text_add(out, "#extension GL_EXT_shader_16bit_storage : require\n");
  if (has_width(r, 1)) text_add(out, "#extension GL_EXT_shader_8bit_storage : require\n");
  if (subgroup(r) && (reduces(r) || (r->uses & USE_SHUFFLE)))
    text_add(out, "#extension GL_KHR_shader_subgroup_shuffle : require\n");
  if (r->target->float_controls)
    text_add(out,
             "#extension GL_EXT_spirv_intrinsics : require\n"
             "spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 32);\n");
  uint32_t size[3];
  gpu_workgroup(r->f, size);
  text_printf(out, "layout(local_size_x = %u, local_size_y = %u, local_size_z = %u) in;\n", size[0], size[1], size[2]);
}

static void common_head(const render *r, text *out) {
  gpu_dialect dialect = r->target->dialect;
  text_add(out, gpu_prelude(dialect));
  text_add(out, dialect == GPU_GLSL ? "#define FN\n#define UNROLL [[unroll]]\n"
                : dialect == GPU_CUDA
                    ? "#define FN static __device__ __forceinline__\n#define UNROLL _Pragma(\"unroll\")\n"
                    : "#define FN static inline\n#define UNROLL _Pragma(\"unroll\")\n");
  text_printf(out, "#define WG %uu\n#define GLOBAL_ID (GROUP_ID * WG + LOCAL_ID)\n#define GLOBAL_SIZE (GROUPS * WG)\n",
              invocations(r));
  uint32_t size[3];
  gpu_workgroup(r->f, size);
  if (dialect == GPU_CUDA)
    text_printf(out,
                "FN u32 rlx_local_id() { return threadIdx.x + %uu * (threadIdx.y + %uu * threadIdx.z); }\n"
                "#define rlx_local rlx_local_id()\n",
                size[0], size[1]);
  if (subgroup(r))
    text_add(out, dialect == GPU_GLSL   ? "#define SHUFFLE_XOR subgroupShuffleXor\n"
                  : dialect == GPU_CUDA ? "#define SHUFFLE_XOR(v, m) __shfl_xor_sync(0xffffffffu, v, m)\n"
                                        : "#define SHUFFLE_XOR(v, m) simd_shuffle_xor(v, ushort(m))\n");
  for (const rlx_gpu_constant *c = r->f->constants; c && c->name; c++)
    text_printf(out, "#define %s (%lld)\n", c->name, (long long)c->value);
}

static void block(const render *r, text *out) {
  bool glsl = r->target->dialect == GPU_GLSL;
  text_add(out, glsl ? "layout(push_constant, scalar) uniform rlx_push { u64 rlx_block; };\n"
                       "layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer rlx_args {\n"
                     : "struct rlx_args {\n");
  for (int i = 0; i < r->arg_count; i++) {
    const render_arg *a = &r->args[i];
    if (gpu_arg_is_operand(a->arg))
      text_printf(out, "  %s rlx_a_%d; // %s\n", pointer(r), i, a->arg->name);
    else if (a->arg->length)
      text_printf(out, "  %s rlx_a_%d[%d]; // %s\n", gpu_type_of(a->dtype)->value, i, a->arg->length, a->arg->name);
    else
      text_printf(out, "  %s rlx_a_%d; // %s\n", gpu_type_of(a->dtype)->value, i, a->arg->name);
  }
  text_add(out, "};\n");
}

static void shared_arrays(const render *r, const char *qualifier, text *out) {
  for (const rlx_gpu_shared *s = r->f->shared; s && s->name; s++)
    text_printf(out, "%s %s %s[%d];\n", qualifier, s->type, s->name, s->length);
}

static void entry(const render *r, text *out) {
  gpu_dialect dialect = r->target->dialect;
  if (dialect == GPU_GLSL) {
    shared_arrays(r, "shared", out);
    text_add(out, "void main() {\n  rlx_args rlx_b = rlx_args(rlx_block);\n");
  } else if (dialect == GPU_CUDA) {
    text_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u) %s(const rlx_args *__restrict__ rlx_b) {\n",
                invocations(r), r->f->name);
    shared_arrays(r, "  __shared__", out);
  } else {
    text_printf(out,
                "kernel void %s(constant rlx_args &rlx_b [[buffer(0)]], uint3 rlx_group "
                "[[threadgroup_position_in_grid]],\n    uint3 rlx_groups [[threadgroups_per_grid]], uint rlx_local "
                "[[thread_index_in_threadgroup]]) {\n",
                r->f->name);
    shared_arrays(r, "  threadgroup", out);
    if (reduces(r))
      text_printf(out, "  threadgroup u32 rlx_red[%u];\n", subgroup(r) ? invocations(r) / subgroup(r) : invocations(r));
  }
  const char *dot = dialect == GPU_CUDA ? "->" : ".";
  for (int i = 0; i < r->arg_count; i++) {
    const render_arg *a = &r->args[i];
    if (gpu_arg_is_operand(a->arg)) {
      text_printf(out, "  %s%s rlx_p_%d = rlx_b%srlx_a_%d;\n", dialect == GPU_GLSL ? "const " : "", pointer(r), i, dot,
                  i);
      text_printf(out, "  const bool rlx_has_%d = rlx_p_%d != %s;\n", i, i, dialect == GPU_GLSL ? "u64(0)" : "0");
    } else if (!a->arg->length) {
      text_printf(out, "  const %s rlx_a_%d = rlx_b%srlx_a_%d;\n", gpu_type_of(a->dtype)->value, i, dot, i);
    }
  }
}

void render_source(const render *r, const render_texts *t, text *out) {
  if (r->target->dialect == GPU_GLSL) glsl_head(r, out);
  common_head(r, out);
  block(r, out);
  text_add(out, t->snippets);
  memory_access(r, out);
  reductions(r, out);
  text_add(out, t->helpers);
  entry(r, out);
  text_add(out, t->body);
  text_add(out, "}\n");
}
