typedef float f32;
typedef double f64;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float4 f32x4;
#define F32X4 make_float4
#define GROUP_ID blockIdx.x
#define GROUP_ID_Y blockIdx.y
#define GROUP_ID_Z blockIdx.z
#define GROUPS gridDim.x
#define LOCAL_ID rlx_local
#define BARRIER __syncthreads
#define BITS_F2U __float_as_uint
#define BITS_U2F __uint_as_float
#define INF __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)
#define FLOOR floorf
#define CEIL ceilf
#define ROUND_EVEN rintf
#define SQRT sqrtf
#define FMA fmaf
#define FAST_EXP expf
#define FAST_LOG logf
#define PRECISE
static __device__ __forceinline__ f32 rlx_from_f16(unsigned short h) {
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
static __device__ __forceinline__ unsigned short rlx_to_f16(f32 f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#define ROUND_F16(x) rlx_from_f16(rlx_to_f16(x))
#define FN static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define WG 256u
#define GLOBAL_ID (GROUP_ID * WG + LOCAL_ID)
#define GLOBAL_SIZE (GROUPS * WG)
FN u32 rlx_local_id() { return threadIdx.x + 256u * (threadIdx.y + 1u * threadIdx.z); }
#define rlx_local rlx_local_id()
#define SHUFFLE_XOR(v, m) __shfl_xor_sync(0xffffffffu, v, m)
struct rlx_args {
  unsigned char * rlx_a_0; // x
  unsigned char * rlx_a_1; // y
  i64 rlx_a_2; // n
  f32 rlx_a_3; // slope
};
FN f32 rlx_ld_f32(unsigned char * p, i64 i) { return ((float *)p)[i]; }
FN void rlx_st_f32(unsigned char * p, i64 i, f32 v) { ((float *)p)[i] = v; }
FN f32 leaky(f32 v, f32 a) {
  return v < 0.0f ? v * a : v;
}
extern "C" __global__ void __launch_bounds__(256) leaky(const rlx_args *__restrict__ rlx_b) {
  unsigned char * rlx_p_0 = rlx_b->rlx_a_0;
  const bool rlx_has_0 = rlx_p_0 != 0;
  unsigned char * rlx_p_1 = rlx_b->rlx_a_1;
  const bool rlx_has_1 = rlx_p_1 != 0;
  const i64 rlx_a_2 = rlx_b->rlx_a_2;
  const f32 rlx_a_3 = rlx_b->rlx_a_3;
  for (i64 i = i64(GLOBAL_ID); i < rlx_a_2; i += i64(GLOBAL_SIZE)) rlx_st_f32(rlx_p_1, i64(i), leaky(rlx_ld_f32(rlx_p_0, i64(i)), rlx_a_3));
}
