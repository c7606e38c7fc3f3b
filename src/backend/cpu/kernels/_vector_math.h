/* _vector_math.h — float functions without branches or tables, so that loops over them vectorise.
 *
 * Included once in each file compiled for an instruction set, after MADD(a, b, c) = a * b + c is defined. Largest
 * errors, tested over all magnitudes: log, expm1 1 ulp, exp 1.1, sin, cos 2, tanh, sigmoid, erf 2.5,
 * softplus 2. NaN, infinities, overflow, underflow and signed zeros are those of C's functions, but for sigmoid, which
 * is 0 where it is less than the least normal float, 1.2e-38. Coefficients are minimax fits (Lawson's
 * iteration) of the function named beside them. */

typedef union vm_bits {
  float f;
  uint32_t u;
  int32_t i;
} vm_bits;
static inline float vm_float(int32_t i) { return (vm_bits){.i = i}.f; }
static inline int32_t vm_int(float f) { return (vm_bits){.f = f}.i; }

/* 2^n, n from -126 to 127; anything for other n (the arithmetic is unsigned: NaN gives any n). */
static inline float vm_power(int32_t n) { return vm_float((int32_t)((uint32_t)(n + 127) << 23)); }

#define VM_LN2_HIGH 0x1.62ep-1f /* exact when multiplied by any exponent */
#define VM_LN2_LOW 0x1.0bfbe8p-15f
#define VM_SHIFT 0x1.8p23f /* adding it rounds to an integer in the low bits */

/* (e^r - 1 - r) / r^2 for |r| <= ln2 / 2 */
static inline float vm_exp_tail(float r) {
  float p = 0x1.6dbc68p-10f;
  p = MADD(p, r, 0x1.124148p-7f);
  p = MADD(p, r, 0x1.555454p-5f);
  p = MADD(p, r, 0x1.555486p-3f);
  return MADD(p, r, 0.5f);
}

/* x = n ln2 + r, n in the low bits of *shifted; then e^r - 1. */
static inline float vm_exp_reduced(float x, int32_t *n) {
  float shifted = MADD(x, 0x1.715476p+0f, VM_SHIFT), whole = shifted - VM_SHIFT;
  *n = vm_int(shifted) - vm_int(VM_SHIFT);
  float r = MADD(whole, -VM_LN2_HIGH, x);
  r = MADD(whole, -VM_LN2_LOW, r);
  return MADD(r * r, vm_exp_tail(r), r);
}

static inline float v_exp(float x) {
  float bounded = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  int32_t n;
  float q = vm_exp_reduced(bounded, &n);
  int32_t half = n >> 1; /* two steps, so that subnormals and overflow come out by themselves */
  return (q + 1.0f) * vm_power(half) * vm_power(n - half);
}

static inline float v_expm1(float x) {
  float bounded = x > 89.0f ? 89.0f : x < -18.0f ? -18.0f : x;
  int32_t n;
  float q = vm_exp_reduced(bounded, &n);
  float scale = vm_power(n - 1); /* half of 2^n, which may overflow */
  float y = 2.0f * MADD(q, scale, scale - 0.5f);
  return fabsf(x) < 0x1p-13f ? MADD(x * x, 0.5f, x) : y; /* keeps -0 and subnormals */
}

/* log for finite x > 0, as e and log(m): x = m 2^e, m in [sqrt(1/2), sqrt(2)). */
static inline float vm_log_positive(float x) {
  float normal = x < 0x1p-126f ? x * 0x1p23f : x;
  int32_t bits = (int32_t)((uint32_t)vm_int(normal) - 0x3f3504f3u);
  int32_t exponent = bits >> 23;
  float f = vm_float((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
  float e = (float)(exponent - (x < 0x1p-126f ? 23 : 0));
  float p = -0x1.420318p-4f; /* (log(1 + f) - f + f^2 / 2) / f^3 */
  p = MADD(p, f, 0x1.07dc54p-3f);
  p = MADD(p, f, -0x1.0ce1d4p-3f);
  p = MADD(p, f, 0x1.226cccp-3f);
  p = MADD(p, f, -0x1.547846p-3f);
  p = MADD(p, f, 0x1.99a5a4p-3f);
  p = MADD(p, f, -0x1.000220p-2f);
  p = MADD(p, f, 0x1.55554ap-2f);
  float square = f * f;
  float tail = MADD(square * f, p, square * -0.5f);
  return MADD(e, VM_LN2_HIGH, f + MADD(e, VM_LN2_LOW, tail));
}

static inline float v_log(float x) {
  float y = vm_log_positive(x);
  y = x == 0.0f ? -INFINITY : y;
  y = x < 0.0f ? NAN : y;
  return x < INFINITY ? y : x; /* infinity and NaN */
}

static inline float v_tanh(float x) {
  float a = fabsf(x);
  int32_t n;
  float q = vm_exp_reduced(a > 10.0f ? 20.0f : a + a, &n), scale = vm_power(n);
  float t = MADD(q, scale, scale - 1.0f); /* e^2a - 1 */
  float y = t / (t + 2.0f);
  y = a < 0x1p-12f ? a : y;
  return copysignf(y, x);
}

/* Results below the least normal float are 0. */
static inline float v_sigmoid(float x) {
  float a = -fabsf(x);
  int32_t n;
  float q = vm_exp_reduced(a < -87.0f ? -87.0f : a, &n), scale = vm_power(n);
  float e = MADD(q, scale, scale);
  float y = (x < 0.0f ? e : 1.0f) / (1.0f + e);
  return x < -87.0f ? 0.0f : y;
}

static inline float v_erf(float x) {
  float a = fabsf(x), square = x * x;
  float p = 0x1.5f11b6p-14f; /* erf(x) / x */
  p = MADD(p, square, -0x1.aae9aep-11f);
  p = MADD(p, square, 0x1.54dadcp-8f);
  p = MADD(p, square, -0x1.b8107cp-6f);
  p = MADD(p, square, 0x1.ce2e20p-4f);
  p = MADD(p, square, -0x1.812744p-2f);
  p = MADD(p, square, 0x1.20dd76p+0f);
  float b = a > 4.0f ? 4.0f : a;
  float q = 0x1.9a74ccp-13f; /* log(1 - erf(b)) */
  q = MADD(q, b, -0x1.8e9a2ep-9f);
  q = MADD(q, b, 0x1.6c06f4p-6f);
  q = MADD(q, b, -0x1.a9a1c2p-4f);
  q = MADD(q, b, -0x1.463f60p-1f);
  q = MADD(q, b, -0x1.20ae92p+0f);
  q = MADD(q, b, -0x1.a065e4p-13f);
  int32_t n;
  float reduced = vm_exp_reduced(q, &n) + 1.0f;
  float large = 1.0f - reduced * vm_power(n);
  return a < 0.921875f ? p * x : copysignf(large, x);
}

/* log(1 + e), e in [0, 1]: the log of the rounded sum, and what rounding lost. */
static inline float vm_log1p_unit(float e) {
  float u = 1.0f + e;
  return vm_log_positive(u) + (e - (u - 1.0f)) / u;
}

static inline float v_softplus(float x) {
  float positive = x > 0.0f ? x : 0.0f * x; /* NaN stays */
  float y = positive + vm_log1p_unit(v_exp(-fabsf(x)));
  return x == -INFINITY ? 0.0f : x == INFINITY ? x : y;
}

/* sin(x + quarter pi / 2) for |x| <= VM_SINE_LIMIT: x less a multiple of pi / 2, in double. */
#define VM_SINE_LIMIT 1e6f
static inline float vm_sine(float x, uint32_t quarter) {
  double wide = (double)x, shifted = wide * 0x1.45f306dc9c883p-1 + 0x1.8p52, whole = shifted - 0x1.8p52;
  union {
    double d;
    uint64_t u;
  } bits = {.d = shifted};
  uint32_t quadrant = (uint32_t)bits.u + quarter;
  float r = (float)((wide - whole * 0x1.921fb544p+0) - whole * 0x1.0b4611a626331p-34);
  float square = r * r;
  float s = -0x1.994062p-13f; /* (sin(r) - r) / r^3 */
  s = MADD(s, square, 0x1.110730p-7f);
  s = MADD(s, square, -0x1.555546p-3f);
  s = MADD(square * r, s, r);
  float c = 0x1.99e86ap-16f; /* (cos(r) - 1 + r^2 / 2) / r^4 */
  c = MADD(c, square, -0x1.6c0c28p-10f);
  c = MADD(c, square, 0x1.55554ap-5f);
  c = MADD(square * square, c, MADD(square, -0.5f, 1.0f));
  float y = quadrant & 1 ? c : s;
  return quadrant & 2 ? -y : y;
}

/* The rest is the processor's or C's. */
static inline float v_fabs(float x) { return fabsf(x); }
static inline float v_sqrt(float x) { return sqrtf(x); }
static inline float v_floor(float x) { return floorf(x); }
static inline float v_ceil(float x) { return ceilf(x); }
static inline float v_rint(float x) { return rintf(x); }
static inline float v_copysign(float x, float y) { return copysignf(x, y); }
static inline float v_sin(float x) { return sinf(x); }
static inline float v_cos(float x) { return cosf(x); }
static inline float v_tan(float x) { return tanf(x); }
static inline float v_asin(float x) { return asinf(x); }
static inline float v_acos(float x) { return acosf(x); }
static inline float v_atan(float x) { return atanf(x); }
static inline float v_sinh(float x) { return sinhf(x); }
static inline float v_cosh(float x) { return coshf(x); }
static inline float v_asinh(float x) { return asinhf(x); }
static inline float v_acosh(float x) { return acoshf(x); }
static inline float v_atanh(float x) { return atanhf(x); }
static inline float v_fmod(float x, float y) { return fmodf(x, y); }
/* The exponents that models have; adding 0 makes the root of -0 what pow says. Squares have a loop of their own. */
static inline float v_pow(float x, float y) {
  if (y == 3.0f) return x * x * x;
  if (y == 0.5f) return x == -INFINITY ? INFINITY : sqrtf(x) + 0.0f;
  if (y == -0.5f) return x == -INFINITY ? 0.0f : 1.0f / (sqrtf(x) + 0.0f);
  if (y == -1.0f) return 1.0f / x;
  return powf(x, y);
}

/* Double: C's own. */
static inline double vm_sigmoid_double(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
static inline double vm_softplus_double(double x) { return (x <= 0 ? 0 : x) + log1p(exp(-fabs(x))); }
