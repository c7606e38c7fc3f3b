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
#define SIDE (16)
struct rlx_args {
  device uchar * rlx_a_0; // x
  device uchar * rlx_a_1; // y
  u32 rlx_a_2[2]; // dims
};
FN u32 rlx_ld_u8(device uchar * p, i64 i) { return u32(((device uchar *)p)[i]); }
FN void rlx_st_u8(device uchar * p, i64 i, u32 v) { ((device uchar *)p)[i] = v; }
kernel void turn(constant rlx_args &rlx_b [[buffer(0)]], uint3 rlx_group [[threadgroup_position_in_grid]],
    uint3 rlx_groups [[threadgroups_per_grid]], uint rlx_local [[thread_index_in_threadgroup]]) {
  threadgroup u32 tile[272];
  device uchar * rlx_p_0 = rlx_b.rlx_a_0;
  const bool rlx_has_0 = rlx_p_0 != 0;
  device uchar * rlx_p_1 = rlx_b.rlx_a_1;
  const bool rlx_has_1 = rlx_p_1 != 0;
  u32 a = LOCAL_ID % 16u;
  u32 b = LOCAL_ID / 16u;
  tile[b * 17u + a] = rlx_ld_u8(rlx_p_0, i64((GROUP_ID_Y * u32(SIDE) + b) * rlx_b.rlx_a_2[1] + GROUP_ID * u32(SIDE) + a));
  BARRIER();
  rlx_st_u8(rlx_p_1, i64((GROUP_ID * u32(SIDE) + b) * rlx_b.rlx_a_2[0] + GROUP_ID_Y * u32(SIDE) + a), tile[a * 17u + b]);
}
