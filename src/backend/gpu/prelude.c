/* prelude.c — types and primitives of each dialect, and the functions of the scalar ops in the portable language.
 *
 * Coefficients are those of cpu/kernels/_vector_math.h in decimal, but for asin, atan and pow, fitted the same way.
 * What must not be re-associated is marked PRECISE. */
#include "backend/gpu/prelude.h"

#include <stddef.h>

static const char glsl_prelude[] =
    "#define f32 float\n#define f64 double\n#define i32 int\n#define u32 uint\n#define i64 int64_t\n#define u64 "
    "uint64_t\n"
    "#define f32x4 vec4\n#define F32X4 vec4\n"
    "#define GROUP_ID gl_WorkGroupID[0]\n#define GROUP_ID_Y gl_WorkGroupID[1]\n#define GROUP_ID_Z gl_WorkGroupID[2]\n"
    "#define GROUPS gl_NumWorkGroups[0]\n#define LOCAL_ID gl_LocalInvocationIndex\n#define BARRIER barrier\n"
    "#define BITS_F2U floatBitsToUint\n#define BITS_U2F uintBitsToFloat\n#define INF uintBitsToFloat(0x7f800000u)\n"
    "#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)\n"
    "#define FLOOR floor\n#define CEIL ceil\n#define ROUND_EVEN roundEven\n#define SQRT sqrt\n#define FMA fma\n"
    "#define FAST_EXP exp\n#define FAST_LOG log\n#define PRECISE precise\n"
    "#define ROUND_F16(x) unpackHalf2x16(packHalf2x16(vec2(x, 0.0)))[0]\n";

static const char cuda_prelude[] =
    "typedef float f32;\ntypedef double f64;\ntypedef int i32;\ntypedef unsigned int u32;\ntypedef long long i64;\n"
    "typedef unsigned long long u64;\ntypedef float4 f32x4;\n#define F32X4 make_float4\n"
    "#define GROUP_ID blockIdx.x\n#define GROUP_ID_Y blockIdx.y\n#define GROUP_ID_Z blockIdx.z\n"
    "#define GROUPS gridDim.x\n#define LOCAL_ID rlx_local\n#define BARRIER __syncthreads\n"
    "#define BITS_F2U __float_as_uint\n#define BITS_U2F __uint_as_float\n#define INF __int_as_float(0x7f800000)\n"
    "#define NOT_A_NUMBER __int_as_float(0x7fc00000)\n"
    "#define FLOOR floorf\n#define CEIL ceilf\n#define ROUND_EVEN rintf\n#define SQRT sqrtf\n#define FMA fmaf\n"
    "#define FAST_EXP expf\n#define FAST_LOG logf\n#define PRECISE\n"
    "static __device__ __forceinline__ f32 rlx_from_f16(unsigned short h) {\n"
    "  float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f; }\n"
    "static __device__ __forceinline__ unsigned short rlx_to_f16(f32 f) {\n"
    "  unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n"
    "#define ROUND_F16(x) rlx_from_f16(rlx_to_f16(x))\n";

static const char msl_prelude[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "typedef float f32;\ntypedef int i32;\ntypedef uint u32;\ntypedef long i64;\ntypedef ulong u64;\ntypedef float4 "
    "f32x4;\n"
    "#define F32X4 float4\n"
    "#define GROUP_ID rlx_group[0]\n#define GROUP_ID_Y rlx_group[1]\n#define GROUP_ID_Z rlx_group[2]\n"
    "#define GROUPS rlx_groups[0]\n#define LOCAL_ID rlx_local\n"
    "#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)\n"
    "#define BITS_F2U as_type<uint>\n#define BITS_U2F as_type<float>\n#define INF INFINITY\n"
    "#define NOT_A_NUMBER as_type<float>(0x7fc00000u)\n"
    "#define FLOOR floor\n#define CEIL ceil\n#define ROUND_EVEN rint\n#define SQRT sqrt\n#define FMA fma\n"
    "#define FAST_EXP exp\n#define FAST_LOG log\n#define PRECISE\n"
    "#define ROUND_F16(x) f32(half(x))\n";

const char *gpu_prelude(gpu_dialect dialect) {
  return dialect == GPU_GLSL ? glsl_prelude : dialect == GPU_CUDA ? cuda_prelude : msl_prelude;
}

#define SNIPPET(name, ...) {#name, #__VA_ARGS__}

/* clang-format off */
const gpu_snippet gpu_snippets[] = {
  SNIPPET(ISNAN, FN bool ISNAN(f32 x) { return (BITS_F2U(x) & 0x7fffffffu) > 0x7f800000u; }),
  SNIPPET(ISINF, FN bool ISINF(f32 x) { return (BITS_F2U(x) & 0x7fffffffu) == 0x7f800000u; }),
  SNIPPET(ABS,
    FN f32 ABS(f32 x) { return BITS_U2F(BITS_F2U(x) & 0x7fffffffu); }
    FN i32 ABS(i32 x) { return x < 0 ? -x : x; }
    FN i64 ABS(i64 x) { return x < i64(0) ? -x : x; }
    FN u32 ABS(u32 x) { return x; }
    FN u64 ABS(u64 x) { return x; }),
  SNIPPET(COPYSIGN, FN f32 COPYSIGN(f32 x, f32 y) {
    return BITS_U2F((BITS_F2U(x) & 0x7fffffffu) | (BITS_F2U(y) & 0x80000000u)); }),
  SNIPPET(MAX, /* NaN if either is */
    FN f32 MAX(f32 x, f32 y) { return x > y || ISNAN(x) ? x : y; }
    FN i32 MAX(i32 x, i32 y) { return x > y ? x : y; }
    FN u32 MAX(u32 x, u32 y) { return x > y ? x : y; }
    FN i64 MAX(i64 x, i64 y) { return x > y ? x : y; }
    FN u64 MAX(u64 x, u64 y) { return x > y ? x : y; }),
  SNIPPET(MIN,
    FN f32 MIN(f32 x, f32 y) { return x < y || ISNAN(x) ? x : y; }
    FN i32 MIN(i32 x, i32 y) { return x < y ? x : y; }
    FN u32 MIN(u32 x, u32 y) { return x < y ? x : y; }
    FN i64 MIN(i64 x, i64 y) { return x < y ? x : y; }
    FN u64 MIN(u64 x, u64 y) { return x < y ? x : y; }),
  SNIPPET(NEG,
    FN f32 NEG(f32 x) { return BITS_U2F(BITS_F2U(x) ^ 0x80000000u); }
    FN i32 NEG(i32 x) { return -x; }
    FN i64 NEG(i64 x) { return -x; }),
#define ARITHMETIC(NAME, operator)                                                                                    \
  SNIPPET(NAME,                                                                                                       \
    FN f32 NAME(f32 x, f32 y) { return x operator y; }                                                                \
    FN i32 NAME(i32 x, i32 y) { return i32(u32(x) operator u32(y)); }                                                 \
    FN u32 NAME(u32 x, u32 y) { return x operator y; }                                                                \
    FN i64 NAME(i64 x, i64 y) { return i64(u64(x) operator u64(y)); }                                                 \
    FN u64 NAME(u64 x, u64 y) { return x operator y; })
#define BITWISE(NAME, operator)                                                                                       \
  SNIPPET(NAME,                                                                                                       \
    FN i32 NAME(i32 x, i32 y) { return x operator y; }                                                                \
    FN u32 NAME(u32 x, u32 y) { return x operator y; }                                                                \
    FN i64 NAME(i64 x, i64 y) { return x operator y; }                                                                \
    FN u64 NAME(u64 x, u64 y) { return x operator y; })
  ARITHMETIC(ADD, +), ARITHMETIC(SUB, -), ARITHMETIC(MUL, *),
  BITWISE(BIT_AND, &), BITWISE(BIT_OR, |), BITWISE(BIT_XOR, ^),
#undef ARITHMETIC
#undef BITWISE
  SNIPPET(DIV, FN f32 DIV(f32 x, f32 y) { return x / y; }),
  SNIPPET(BIT_NOT,
    FN i32 BIT_NOT(i32 x) { return ~x; }
    FN u32 BIT_NOT(u32 x) { return ~x; }
    FN i64 BIT_NOT(i64 x) { return ~x; }
    FN u64 BIT_NOT(u64 x) { return ~x; }),
  SNIPPET(TO_BF16, /* bits of the nearest bf16, ties to even; NaN stays NaN */
    FN u32 TO_BF16(f32 x) {
      u32 b = BITS_F2U(x);
      return (b & 0x7fffffffu) > 0x7f800000u ? (b >> 16u) | 0x40u : (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
    }),
  SNIPPET(ROUND_BF16, FN f32 ROUND_BF16(f32 x) { return BITS_U2F(TO_BF16(x) << 16u); }),
  SNIPPET(NARROW_I8, FN i32 NARROW_I8(i32 x) { return (x << 24) >> 24; }),
  SNIPPET(NARROW_I16, FN i32 NARROW_I16(i32 x) { return (x << 16) >> 16; }),
  SNIPPET(NARROW_U8, FN u32 NARROW_U8(u32 x) { return x & 255u; }),
  SNIPPET(NARROW_U16, FN u32 NARROW_U16(u32 x) { return x & 65535u; }),
  SNIPPET(TO_I32, /* what does not fit is the least number, as on processors */
    FN i32 TO_I32(f32 x) { return x > -2147483648.0f && x < 2147483648.0f ? i32(x) : -2147483647 - 1; }),
  SNIPPET(TO_I64,
    FN i64 TO_I64(f32 x) {
      return x > -9.22337204e18f && x < 9.22337204e18f ? i64(x) : i64(u64(0x80000000u) << 32u);
    }),
  SNIPPET(TO_U64,
    FN u64 TO_U64(f32 x) { return x >= 9.22337204e18f && x < 1.84467441e19f ? u64(x) : u64(TO_I64(x)); }),
  SNIPPET(POWER_OF_TWO, FN f32 POWER_OF_TWO(i32 n) { return BITS_U2F(u32(n + 127) << 23u); }),
  SNIPPET(EXP_LESS_ONE, /* e^r - 1 for |r| <= ln2 / 2 */
    FN f32 EXP_LESS_ONE(f32 r) {
      f32 p = 0.00139517197f;
      p = FMA(p, r, 0.00836959854f);
      p = FMA(p, r, 0.0416661873f);
      p = FMA(p, r, 0.166665122f);
      p = FMA(p, r, 0.5f);
      return FMA(r * r, p, r);
    }),
  SNIPPET(LN2_REST, /* x - whole ln2 */
    FN f32 LN2_REST(f32 x, f32 whole) {
      PRECISE f32 r = FMA(whole, -0.693115234f, x);
      r = FMA(whole, -3.19461833e-05f, r);
      return r;
    }),
  SNIPPET(EXP,
    FN f32 EXP(f32 x) {
      f32 bounded = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
      f32 whole = ROUND_EVEN(bounded * 1.44269502f);
      f32 q = EXP_LESS_ONE(LN2_REST(bounded, whole)) + 1.0f;
      i32 n = i32(whole);
      i32 half_n = n >> 1;
      f32 y = q * POWER_OF_TWO(half_n) * POWER_OF_TWO(n - half_n);
      return ISNAN(x) ? x : x > 88.72284f ? INF : y;
    }),
  SNIPPET(EXPM1,
    FN f32 EXPM1(f32 x) {
      f32 bounded = x > 89.0f ? 89.0f : x < -18.0f ? -18.0f : x;
      f32 whole = ROUND_EVEN(bounded * 1.44269502f);
      f32 q = EXP_LESS_ONE(LN2_REST(bounded, whole));
      f32 scale = POWER_OF_TWO(i32(whole) - 1);
      f32 y = 2.0f * FMA(q, scale, scale - 0.5f);
      if (ISNAN(x)) return x;
      return x == 0.0f ? x : x > 88.72284f ? INF : ABS(x) < 0.00012207031f ? FMA(x * x, 0.5f, x) : y;
    }),
  SNIPPET(LOG_POSITIVE, /* 0 < x < INF */
    FN f32 LOG_POSITIVE(f32 x) {
      f32 normal = x < 1.17549435e-38f ? x * 8388608.0f : x;
      u32 bits = BITS_F2U(normal) - 0x3f3504f3u;
      f32 e = f32((i32(bits) >> 23) - (x < 1.17549435e-38f ? 23 : 0));
      f32 f = BITS_U2F((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
      f32 p = -0.0786162317f;
      p = FMA(p, f, 0.128838211f);
      p = FMA(p, f, -0.131290108f);
      p = FMA(p, f, 0.141809076f);
      p = FMA(p, f, -0.166245028f);
      p = FMA(p, f, 0.200022966f);
      p = FMA(p, f, -0.250008106f);
      p = FMA(p, f, 0.333333164f);
      f32 square = f * f;
      PRECISE f32 tail = FMA(square * f, p, square * -0.5f);
      PRECISE f32 rest = FMA(e, 3.19461833e-05f, tail);
      PRECISE f32 y = FMA(e, 0.693115234f, f + rest);
      return y;
    }),
  SNIPPET(LOG,
    FN f32 LOG(f32 x) {
      if (x == 0.0f) return -INF;
      if (x < 0.0f) return NOT_A_NUMBER;
      return x < INF ? LOG_POSITIVE(x) : x;
    }),
  SNIPPET(LOG1P, /* x >= 0 */
    FN f32 LOG1P(f32 x) {
      PRECISE f32 u = 1.0f + x;
      PRECISE f32 back = u - 1.0f;
      PRECISE f32 lost = x - back;
      return u < INF ? LOG_POSITIVE(u) + lost / u : u;
    }),
  SNIPPET(TANH,
    FN f32 TANH(f32 x) {
      f32 a = ABS(x);
      f32 d = a > 10.0f ? 20.0f : a + a;
      f32 whole = ROUND_EVEN(d * 1.44269502f);
      f32 scale = POWER_OF_TWO(i32(whole));
      f32 t = FMA(EXP_LESS_ONE(LN2_REST(d, whole)), scale, scale - 1.0f);
      f32 y = a < 0.00024414062f ? a : t / (t + 2.0f);
      return ISNAN(x) ? x : COPYSIGN(y, x);
    }),
  SNIPPET(SIGMOID, /* below the least normal float: 0 */
    FN f32 SIGMOID(f32 x) {
      f32 e = EXP(-MAX(ABS(x), 0.0f));
      f32 y = (x < 0.0f ? e : 1.0f) / (1.0f + e);
      return x < -87.0f ? 0.0f : y;
    }),
  SNIPPET(ERF,
    FN f32 ERF(f32 x) {
      f32 a = ABS(x);
      f32 square = x * x;
      f32 p = 8.37014159e-05f;
      p = FMA(p, square, -0.000814271567f);
      p = FMA(p, square, 0.00520103332f);
      p = FMA(p, square, -0.0268593989f);
      p = FMA(p, square, 0.112836957f);
      p = FMA(p, square, -0.376126349f);
      p = FMA(p, square, 1.12837923f);
      f32 b = a > 4.0f ? 4.0f : a;
      f32 q = 0.000195720786f;
      q = FMA(q, b, -0.00304109394f);
      q = FMA(q, b, 0.0222184546f);
      q = FMA(q, b, -0.10391403f);
      q = FMA(q, b, -0.637202263f);
      q = FMA(q, b, -1.12766373f);
      q = FMA(q, b, -0.000198554044f);
      f32 y = a < 0.921875f ? p * x : COPYSIGN(1.0f - EXP(q), x);
      return ISNAN(x) ? x : y;
    }),
  SNIPPET(SOFTPLUS,
    FN f32 SOFTPLUS(f32 x) {
      if (ISNAN(x)) return x;
      return (x > 0.0f ? x : 0.0f) + LOG1P(EXP(-ABS(x)));
    }),
  SNIPPET(SINH,
    FN f32 SINH(f32 x) {
      f32 a = ABS(x);
      f32 e = EXPM1(a > 88.0f ? 0.0f : a);
      f32 h = EXP(0.5f * a);
      f32 y = a > 88.0f ? 0.5f * h * h : 0.5f * (e + e / (e + 1.0f));
      return ISNAN(x) ? x : COPYSIGN(a < 0.00024414062f ? a : y, x);
    }),
  SNIPPET(COSH,
    FN f32 COSH(f32 x) {
      f32 a = ABS(x);
      f32 e = EXP(a > 88.0f ? 0.0f : a);
      f32 h = EXP(0.5f * a);
      f32 y = a > 88.0f ? 0.5f * h * h : 0.5f * e + 0.5f / e;
      return ISNAN(x) ? x : y;
    }),
  SNIPPET(SINE, /* sin(x + quarters pi / 2): multiples of pi / 2 are taken off in three parts, or by whole numbers */
    FN f32 SINE(f32 x, u32 quarters) {
      f32 a = ABS(x);
      if (!(a < INF)) return NOT_A_NUMBER;
      f32 r = a;
      u32 quadrant = 0u;
      if (a < 6000.0f) {
        PRECISE f32 whole = ROUND_EVEN(a * 0.636619747f);
        PRECISE f32 first = a - whole * 1.5703125f;
        PRECISE f32 second = first - whole * 0.00048351288f;
        PRECISE f32 third = second - whole * 3.13855708e-07f;
        r = third - whole * 6.0771e-11f;
        quadrant = u32(i32(whole));
      } else { /* 2 / pi to 224 bits, those that matter for this exponent times the mantissa */
        u32 digits[7];
        digits[0] = 0xa2f9836eu; digits[1] = 0x4e441529u; digits[2] = 0xfc2757d1u; digits[3] = 0xf534ddc0u;
        digits[4] = 0xdb629599u; digits[5] = 0x3c439041u; digits[6] = 0xfe5163abu;
        u32 bits = BITS_F2U(a);
        u32 e = (bits >> 23u) - 120u; /* the window of 96 bits begins with the weights 2 and 1 */
        u64 mantissa = u64((bits & 0x7fffffu) | 0x800000u);
        u32 at = e >> 5u;
        u32 shift = 32u - (e & 31u);
        u64 word = u64(at > 0u ? digits[at - 1u] : 0u);
        word = (word << 32u) | u64(digits[at]);
        u64 product = (mantissa * u64(u32(word >> shift))) << 32u;
        word = (word << 32u) | u64(digits[at + 1u]);
        product = product + mantissa * u64(u32(word >> shift));
        word = (word << 32u) | u64(digits[at + 2u]);
        product = product + ((mantissa * u64(u32(word >> shift))) >> 32u);
        quadrant = u32(product >> 62u);
        i64 fraction = i64(product << 2u);
        if (fraction < i64(0)) quadrant = quadrant + 1u;
        r = f32(fraction) * 8.51530421e-20f;
      }
      bool negative = x < 0.0f;
      u32 q = (negative ? 0u - quadrant : quadrant) + quarters;
      r = negative ? -r : r;
      f32 square = r * r;
      f32 s = -0.00019514632f;
      s = FMA(s, square, 0.00833215564f);
      s = FMA(s, square, -0.166666552f);
      s = FMA(square * r, s, r);
      f32 c = 2.44324128e-05f;
      c = FMA(c, square, -0.00138873095f);
      c = FMA(c, square, 0.0416666456f);
      c = FMA(square * square, c, FMA(square, -0.5f, 1.0f));
      f32 y = (q & 1u) != 0u ? c : s;
      return (q & 2u) != 0u ? -y : y;
    }),
  SNIPPET(SIN, FN f32 SIN(f32 x) { return x == 0.0f ? x : SINE(x, 0u); }),
  SNIPPET(COS, FN f32 COS(f32 x) { return SINE(x, 1u); }),
  SNIPPET(TAN, FN f32 TAN(f32 x) { return x == 0.0f ? x : SINE(x, 0u) / SINE(x, 1u); }),
  SNIPPET(ASIN_POSITIVE, /* 0 <= a <= 1 */
    FN f32 ASIN_POSITIVE(f32 a) {
      bool large = a > 0.5f;
      f32 z = large ? 0.5f - 0.5f * a : a * a;
      f32 s = large ? SQRT(z) : a;
      f32 p = 0.0422185659f;
      p = FMA(p, z, 0.0241476018f);
      p = FMA(p, z, 0.0454770997f);
      p = FMA(p, z, 0.0749524161f);
      p = FMA(p, z, 0.166667536f);
      f32 y = FMA(z * s, p, s);
      return large ? 1.57079637f - 2.0f * y : y;
    }),
  SNIPPET(ASIN,
    FN f32 ASIN(f32 x) {
      f32 a = ABS(x);
      return a <= 1.0f ? COPYSIGN(ASIN_POSITIVE(a), x) : NOT_A_NUMBER;
    }),
  SNIPPET(ACOS,
    FN f32 ACOS(f32 x) {
      f32 a = ABS(x);
      if (!(a <= 1.0f)) return NOT_A_NUMBER;
      if (a <= 0.5f) return 1.57079637f - COPYSIGN(ASIN_POSITIVE(a), x);
      f32 y = 2.0f * ASIN_POSITIVE(SQRT(0.5f - 0.5f * a));
      return x < 0.0f ? 3.14159274f - y : y;
    }),
  SNIPPET(ATAN,
    FN f32 ATAN(f32 x) {
      f32 a = ABS(x);
      f32 base = a > 2.41421366f ? 1.57079637f : a > 0.414213568f ? 0.785398185f : 0.0f;
      f32 t = a > 2.41421366f ? -1.0f / a : a > 0.414213568f ? (a - 1.0f) / (a + 1.0f) : a;
      f32 z = t * t;
      f32 p = 0.080603078f;
      p = FMA(p, z, -0.13879849f);
      p = FMA(p, z, 0.199779257f);
      p = FMA(p, z, -0.333329558f);
      f32 y = base + FMA(z * t, p, t);
      return ISNAN(x) ? x : COPYSIGN(y, x);
    }),
  SNIPPET(ASINH,
    FN f32 ASINH(f32 x) {
      f32 a = ABS(x);
      f32 b = a > 4096.0f ? 1.0f : a;
      f32 y = LOG1P(b + b * b / (1.0f + SQRT(b * b + 1.0f)));
      if (a > 4096.0f && a < INF) y = LOG_POSITIVE(a) + 0.693147182f;
      return a < INF ? COPYSIGN(a < 0.00024414062f ? a : y, x) : x;
    }),
  SNIPPET(ACOSH,
    FN f32 ACOSH(f32 x) {
      if (!(x >= 1.0f)) return NOT_A_NUMBER;
      if (x > 4096.0f) return x < INF ? LOG_POSITIVE(x) + 0.693147182f : x;
      f32 t = x - 1.0f;
      return LOG1P(t + SQRT(2.0f * t + t * t));
    }),
  SNIPPET(ATANH,
    FN f32 ATANH(f32 x) {
      f32 a = ABS(x);
      if (!(a <= 1.0f)) return NOT_A_NUMBER;
      f32 y = a == 1.0f ? INF : 0.5f * LOG1P((a + a) / (1.0f - a));
      return COPYSIGN(a < 0.00024414062f ? a : y, x);
    }),
  SNIPPET(UPPER_HALF, /* the 12 high bits of the mantissa */
    FN f32 UPPER_HALF(f32 x) { return BITS_U2F(BITS_F2U(x) & 0xfffff000u); }),
  SNIPPET(POW_POSITIVE, /* e^(y log x), the logarithm in two floats; 0 < x < INF, y finite */
    FN f32 POW_POSITIVE(f32 x, f32 y) {
      f32 normal = x < 1.17549435e-38f ? x * 8388608.0f : x;
      u32 bits = BITS_F2U(normal) - 0x3f3504f3u;
      f32 e = f32((i32(bits) >> 23) - (x < 1.17549435e-38f ? 23 : 0));
      f32 f = BITS_U2F((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
      PRECISE f32 d = 2.0f + f;
      PRECISE f32 d_low = f - (d - 2.0f);
      PRECISE f32 s = f / d;
      PRECISE f32 s_high = UPPER_HALF(s);
      PRECISE f32 d_high = UPPER_HALF(d);
      PRECISE f32 left = f - s_high * d_high;
      left = left - s_high * ((d - d_high) + d_low);
      PRECISE f32 s_low = left / d;
      f32 z = s * s;
      f32 p = 0.117913f;
      p = FMA(p, z, 0.142686427f);
      p = FMA(p, z, 0.200001672f);
      p = FMA(p, z, 0.333333313f);
      PRECISE f32 tail = 2.0f * (z * s * p) + e * -1.90465421e-09f;
      PRECISE f32 a = e * 0.693145752f; /* exact: 16 bits */
      PRECISE f32 b = 2.0f * s_high;
      PRECISE f32 high = a + b;
      PRECISE f32 a_back = high - b;
      PRECISE f32 b_back = high - a_back;
      PRECISE f32 low = (a - a_back) + (b - b_back);
      low = low + (2.0f * s_low + (tail + e * 1.43051147e-06f));
      PRECISE f32 sum = high + low;
      PRECISE f32 low_sum = low - (sum - high);
      PRECISE f32 sum_high = UPPER_HALF(sum);
      PRECISE f32 sum_low = (sum - sum_high) + low_sum;
      PRECISE f32 y_high = UPPER_HALF(y);
      PRECISE f32 y_low = y - y_high;
      PRECISE f32 product = y * sum;
      if (!(ABS(product) < 200.0f)) return product > 0.0f ? INF : 0.0f;
      PRECISE f32 error = y_high * sum_high - product;
      error = error + y_high * sum_low;
      error = error + y_low * sum_high;
      error = error + y_low * sum_low;
      f32 bounded = product > 89.0f ? 89.0f : product < -104.0f ? -104.0f : product;
      f32 whole = ROUND_EVEN(bounded * 1.44269502f);
      f32 q = EXP_LESS_ONE(LN2_REST(bounded, whole) + error) + 1.0f;
      i32 n = i32(whole);
      i32 half_n = n >> 1;
      return product > 88.72284f + 1.0f ? INF : q * POWER_OF_TWO(half_n) * POWER_OF_TWO(n - half_n);
    }),
  SNIPPET(POW,
    FN f32 POW(f32 x, f32 y) {
      if (y == 0.0f || x == 1.0f) return 1.0f;
      if (ISNAN(x) || ISNAN(y)) return NOT_A_NUMBER;
      if (y == 1.0f) return x;
      if (y == 2.0f) return x * x;
      f32 a = ABS(x);
      f32 b = ABS(y);
      bool whole = b >= 8388608.0f || FLOOR(b) == b;
      bool odd = b < 16777216.0f && whole && (u32(b < 16777216.0f ? b : 0.0f) & 1u) == 1u;
      f32 r = 1.0f;
      if (a == 1.0f) r = 1.0f;
      else if (ISINF(y)) r = (a > 1.0f) == (y > 0.0f) ? INF : 0.0f;
      else if (a == 0.0f) r = y < 0.0f ? INF : 0.0f;
      else if (ISINF(x)) r = y < 0.0f ? 0.0f : INF;
      else r = POW_POSITIVE(a, y);
      if (BITS_F2U(x) < 0x80000000u) return r;
      if (!whole && a > 0.0f && a < INF) return NOT_A_NUMBER;
      return odd ? NEG(r) : r;
    }),
  SNIPPET(FMOD, /* long division of the mantissas: exact */
    FN f32 FMOD(f32 x, f32 y) {
      f32 a = ABS(x);
      f32 b = ABS(y);
      if (!(a < INF) || ISNAN(y) || b == 0.0f) return NOT_A_NUMBER;
      if (a < b) return x;
      u32 ea = BITS_F2U(a) >> 23u;
      u32 eb = BITS_F2U(b) >> 23u;
      u32 ma = ea > 0u ? (BITS_F2U(a) & 0x7fffffu) | 0x800000u : BITS_F2U(a);
      u32 mb = eb > 0u ? (BITS_F2U(b) & 0x7fffffu) | 0x800000u : BITS_F2U(b);
      i32 e = ea > 0u ? i32(ea) : 1;
      i32 end = eb > 0u ? i32(eb) : 1;
      for (; e > end; e = e - 1) {
        ma = ma >= mb ? ma - mb : ma;
        ma = ma << 1u;
      }
      ma = ma >= mb ? ma - mb : ma;
      for (; ma != 0u && ma < 0x800000u && e > 1; e = e - 1) ma = ma << 1u;
      u32 bits = ma < 0x800000u ? ma : (ma & 0x7fffffu) | (u32(e) << 23u);
      return COPYSIGN(BITS_U2F(bits), x);
    }),
  SNIPPET(MOD, /* the sign of y */
    FN f32 MOD(f32 x, f32 y) {
      f32 r = FMOD(x, y);
      return r == 0.0f ? COPYSIGN(r, y) : (r < 0.0f) != (y < 0.0f) ? r + y : r;
    }),
  SNIPPET(SHIFT_LEFT,
    FN u32 SHIFT_LEFT(u32 x, u32 y) { return y >= 32u ? 0u : x << y; }
    FN u64 SHIFT_LEFT(u64 x, u64 y) { return y >= u64(64u) ? u64(0u) : x << u32(y); }
    FN i32 SHIFT_LEFT(i32 x, i32 y) { return u32(y) >= 32u ? 0 : i32(u32(x) << u32(y)); }
    FN i64 SHIFT_LEFT(i64 x, i64 y) { return u64(y) >= u64(64u) ? i64(0) : i64(u64(x) << u32(y)); }),
  SNIPPET(SHIFT_RIGHT,
    FN u32 SHIFT_RIGHT(u32 x, u32 y) { return y >= 32u ? 0u : x >> y; }
    FN u64 SHIFT_RIGHT(u64 x, u64 y) { return y >= u64(64u) ? u64(0u) : x >> u32(y); }
    FN i32 SHIFT_RIGHT(i32 x, i32 y) { return u32(y) >= 32u ? (x < 0 ? -1 : 0) : x >> y; }
    FN i64 SHIFT_RIGHT(i64 x, i64 y) { return u64(y) >= u64(64u) ? (x < i64(0) ? i64(-1) : i64(0)) : x >> u32(y); }),
  {NULL, NULL},
};
/* clang-format on */
