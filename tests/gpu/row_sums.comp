#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(local_size_x = 256, local_size_y = 1, local_size_z = 1) in;
#define f32 float
#define f64 double
#define i32 int
#define u32 uint
#define i64 int64_t
#define u64 uint64_t
#define f32x4 vec4
#define F32X4 vec4
#define GROUP_ID gl_WorkGroupID[0]
#define GROUP_ID_Y gl_WorkGroupID[1]
#define GROUP_ID_Z gl_WorkGroupID[2]
#define GROUPS gl_NumWorkGroups[0]
#define LOCAL_ID gl_LocalInvocationIndex
#define BARRIER barrier
#define BITS_F2U floatBitsToUint
#define BITS_U2F uintBitsToFloat
#define INF uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)
#define FLOOR floor
#define CEIL ceil
#define ROUND_EVEN roundEven
#define SQRT sqrt
#define FMA fma
#define FAST_EXP exp
#define FAST_LOG log
#define PRECISE precise
#define ROUND_F16(x) unpackHalf2x16(packHalf2x16(vec2(x, 0.0)))[0]
#define FN
#define UNROLL [[unroll]]
#define WG 256u
#define GLOBAL_ID (GROUP_ID * WG + LOCAL_ID)
#define GLOBAL_SIZE (GROUPS * WG)
layout(push_constant, scalar) uniform rlx_push { u64 rlx_block; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer rlx_args {
  u64 rlx_a_0; // x
  u64 rlx_a_1; // more
  u64 rlx_a_2; // y
  u32 rlx_a_3; // columns
};
FN bool ISNAN(f32 x) {
  return (BITS_F2U(x) & 0x7fffffffu) > 0x7f800000u;
}
FN f32 POWER_OF_TWO(i32 n) {
  return BITS_U2F(u32(n + 127) << 23u);
}
FN f32 EXP_LESS_ONE(f32 r) {
  f32 p = 0.00139517197f;
  p = FMA(p, r, 0.00836959854f);
  p = FMA(p, r, 0.0416661873f);
  p = FMA(p, r, 0.166665122f);
  p = FMA(p, r, 0.5f);
  return FMA(r * r, p, r);
}
FN f32 LN2_REST(f32 x, f32 whole) {
  PRECISE f32 r = FMA(whole, - 0.693115234f, x);
  r = FMA(whole, - 3.19461833e-05f, r);
  return r;
}
FN f32 EXP(f32 x) {
  f32 bounded = x > 89.0f ? 89.0f : x < - 104.0f ? - 104.0f : x;
  f32 whole = ROUND_EVEN(bounded * 1.44269502f);
  f32 q = EXP_LESS_ONE(LN2_REST(bounded, whole)) + 1.0f;
  i32 n = i32(whole);
  i32 half_n = n >> 1;
  f32 y = q * POWER_OF_TWO(half_n) * POWER_OF_TWO(n - half_n);
  return ISNAN(x) ? x : x > 88.72284f ? INF : y;
}
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer rlx_r_f32 { float v; };
FN void rlx_st_f32(u64 p, i64 i, f32 v) { rlx_r_f32(p + u64(i) * u64(4)).v = v; }
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer rlx_r_f16 { float16_t v; };
FN f32 rlx_ld_f16(u64 p, i64 i) { return f32(rlx_r_f16(p + u64(i) * u64(2)).v); }
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer rlx_r_bf16 { uint16_t v; };
FN f32 rlx_ld_bf16(u64 p, i64 i) { return BITS_U2F(u32(rlx_r_bf16(p + u64(i) * u64(2)).v) << 16u); }
shared u32 rlx_red[256];
FN f32 rlx_sum(f32 v) {
  BARRIER();
  rlx_red[LOCAL_ID] = BITS_F2U(v);
  BARRIER();
  for (u32 n = WG; n > 1u;) {
    u32 h = (n + 1u) / 2u;
    if (LOCAL_ID + h < n) {
      f32 w = BITS_U2F(rlx_red[LOCAL_ID + h]);
      v = v + w;
      rlx_red[LOCAL_ID] = BITS_F2U(v);
    }
    BARRIER();
    n = h;
  }
  return BITS_U2F(rlx_red[0]);
}
FN i32 rlx_sum(i32 v) {
  BARRIER();
  rlx_red[LOCAL_ID] = u32(v);
  BARRIER();
  for (u32 n = WG; n > 1u;) {
    u32 h = (n + 1u) / 2u;
    if (LOCAL_ID + h < n) {
      i32 w = i32(rlx_red[LOCAL_ID + h]);
      v = v + w;
      rlx_red[LOCAL_ID] = u32(v);
    }
    BARRIER();
    n = h;
  }
  return i32(rlx_red[0]);
}
#define GROUP_SUM(v) rlx_sum(v)
void main() {
  rlx_args rlx_b = rlx_args(rlx_block);
  const u64 rlx_p_0 = rlx_b.rlx_a_0;
  const bool rlx_has_0 = rlx_p_0 != u64(0);
  const u64 rlx_p_1 = rlx_b.rlx_a_1;
  const bool rlx_has_1 = rlx_p_1 != u64(0);
  const u64 rlx_p_2 = rlx_b.rlx_a_2;
  const bool rlx_has_2 = rlx_p_2 != u64(0);
  const u32 rlx_a_3 = rlx_b.rlx_a_3;
  f32 sum = 0.0f;
  for (u32 c = LOCAL_ID; c < rlx_a_3; c += WG) {
    sum = sum + EXP(rlx_ld_bf16(rlx_p_0, i64(i64(GROUP_ID) * i64(rlx_a_3) + i64(c))));
    if (rlx_has_1) sum = sum + rlx_ld_f16(rlx_p_1, i64(c));
  }
  sum = GROUP_SUM(sum);
  if (LOCAL_ID == 0u) rlx_st_f32(rlx_p_2, i64(GROUP_ID), sum);
}
