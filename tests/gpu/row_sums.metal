#include <metal_stdlib>
using namespace metal;
typedef float f32;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float4 f32x4;
#define F32X4 float4
#define GROUP_ID rlx_group[0]
#define GROUP_ID_Y rlx_group[1]
#define GROUP_ID_Z rlx_group[2]
#define GROUPS rlx_groups[0]
#define LOCAL_ID rlx_local
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define BITS_F2U as_type<uint>
#define BITS_U2F as_type<float>
#define INF INFINITY
#define NOT_A_NUMBER as_type<float>(0x7fc00000u)
#define FLOOR floor
#define CEIL ceil
#define ROUND_EVEN rint
#define SQRT sqrt
#define FMA fma
#define FAST_EXP exp
#define FAST_LOG log
#define PRECISE
#define ROUND_F16(x) f32(half(x))
#define FN static inline
#define UNROLL _Pragma("unroll")
#define WG 256u
#define GLOBAL_ID (GROUP_ID * WG + LOCAL_ID)
#define GLOBAL_SIZE (GROUPS * WG)
#define SHUFFLE_XOR(v, m) simd_shuffle_xor(v, ushort(m))
struct rlx_args {
  device uchar * rlx_a_0; // x
  device uchar * rlx_a_1; // more
  device uchar * rlx_a_2; // y
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
FN void rlx_st_f32(device uchar * p, i64 i, f32 v) { ((device float *)p)[i] = v; }
FN f32 rlx_ld_f16(device uchar * p, i64 i) { return f32(((device half *)p)[i]); }
FN f32 rlx_ld_bf16(device uchar * p, i64 i) { return BITS_U2F(u32(((device ushort *)p)[i]) << 16u); }
FN f32 rlx_sum(f32 v, threadgroup u32 *rlx_red, u32 rlx_local) {
  BARRIER();
  for (u32 m = 16u; m > 0u; m = m >> 1u) v = v + SHUFFLE_XOR(v, m);
  if ((LOCAL_ID & 31u) == 0u) rlx_red[LOCAL_ID / 32u] = BITS_F2U(v);
  BARRIER();
  v = BITS_U2F(rlx_red[0]);
  for (u32 i = 1u; i < 8u; i++) { f32 w = BITS_U2F(rlx_red[i]); v = v + w; }
  return v;
}
FN i32 rlx_sum(i32 v, threadgroup u32 *rlx_red, u32 rlx_local) {
  BARRIER();
  for (u32 m = 16u; m > 0u; m = m >> 1u) v = v + SHUFFLE_XOR(v, m);
  if ((LOCAL_ID & 31u) == 0u) rlx_red[LOCAL_ID / 32u] = u32(v);
  BARRIER();
  v = i32(rlx_red[0]);
  for (u32 i = 1u; i < 8u; i++) { i32 w = i32(rlx_red[i]); v = v + w; }
  return v;
}
#define GROUP_SUM(v) rlx_sum(v, rlx_red, rlx_local)
kernel void row_sums(constant rlx_args &rlx_b [[buffer(0)]], uint3 rlx_group [[threadgroup_position_in_grid]],
    uint3 rlx_groups [[threadgroups_per_grid]], uint rlx_local [[thread_index_in_threadgroup]]) {
  threadgroup u32 rlx_red[8];
  device uchar * rlx_p_0 = rlx_b.rlx_a_0;
  const bool rlx_has_0 = rlx_p_0 != 0;
  device uchar * rlx_p_1 = rlx_b.rlx_a_1;
  const bool rlx_has_1 = rlx_p_1 != 0;
  device uchar * rlx_p_2 = rlx_b.rlx_a_2;
  const bool rlx_has_2 = rlx_p_2 != 0;
  const u32 rlx_a_3 = rlx_b.rlx_a_3;
  f32 sum = 0.0f;
  for (u32 c = LOCAL_ID; c < rlx_a_3; c += WG) {
    sum = sum + EXP(rlx_ld_bf16(rlx_p_0, i64(i64(GROUP_ID) * i64(rlx_a_3) + i64(c))));
    if (rlx_has_1) sum = sum + rlx_ld_f16(rlx_p_1, i64(c));
  }
  sum = GROUP_SUM(sum);
  if (LOCAL_ID == 0u) rlx_st_f32(rlx_p_2, i64(GROUP_ID), sum);
}
