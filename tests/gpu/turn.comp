#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(local_size_x = 16, local_size_y = 16, local_size_z = 1) in;
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
#define SIDE (16)
layout(push_constant, scalar) uniform rlx_push { u64 rlx_block; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer rlx_args {
  u64 rlx_a_0; // x
  u64 rlx_a_1; // y
  u32 rlx_a_2[2]; // dims
};
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer rlx_r_u8 { uint8_t v; };
FN u32 rlx_ld_u8(u64 p, i64 i) { return u32(rlx_r_u8(p + u64(i) * u64(1)).v); }
FN void rlx_st_u8(u64 p, i64 i, u32 v) { rlx_r_u8(p + u64(i) * u64(1)).v = uint8_t(v); }
shared u32 tile[272];
void main() {
  rlx_args rlx_b = rlx_args(rlx_block);
  const u64 rlx_p_0 = rlx_b.rlx_a_0;
  const bool rlx_has_0 = rlx_p_0 != u64(0);
  const u64 rlx_p_1 = rlx_b.rlx_a_1;
  const bool rlx_has_1 = rlx_p_1 != u64(0);
  u32 a = LOCAL_ID % 16u;
  u32 b = LOCAL_ID / 16u;
  tile[b * 17u + a] = rlx_ld_u8(rlx_p_0, i64((GROUP_ID_Y * u32(SIDE) + b) * rlx_b.rlx_a_2[1] + GROUP_ID * u32(SIDE) + a));
  BARRIER();
  rlx_st_u8(rlx_p_1, i64((GROUP_ID * u32(SIDE) + b) * rlx_b.rlx_a_2[0] + GROUP_ID_Y * u32(SIDE) + a), tile[a * 17u + b]);
}
