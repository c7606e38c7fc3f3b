/* _elementwise_loops.h — the loops of every row of the table for one type. Included once a type, after
 *   #define EW_T float          the element type
 *   #define EW_ID float         a suffix for names
 *   #define EW_CLASS f          f float, i signed, u unsigned, b bool
 *   #define EW_NUMBER float     type of the attributes a and b
 *   #define EW_F(name) name##f  the function for exp, log …, erf, expm1, sigmoid, softplus (floats)
 * and, for integers, EW_U the unsigned type; and, if some rows have loops of their own, EW_INSTEAD a list of
 * `[EW_<row>] = loop,`. Leaves `ew_loops_<EW_ID>`: a loop (or NULL) per row. */

/* Rows expand to comparisons with 0 of every type, to unused remainders, to loops with calls; some are overridden. */
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Woverride-init"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wpass-failed"
#pragma GCC diagnostic ignored "-Wimplicit-int-float-conversion"
#endif

/* EW_IF_<types>_<class>: whether rows of these types exist for this class. */
#ifndef EW_IF_FLOATS_f
#define EW_IF_FLOATS_f(...) __VA_ARGS__
#define EW_IF_FLOATS_i(...)
#define EW_IF_FLOATS_u(...)
#define EW_IF_FLOATS_b(...)
#define EW_IF_FLOATS8_f(...) __VA_ARGS__
#define EW_IF_FLOATS8_i(...)
#define EW_IF_FLOATS8_u(...)
#define EW_IF_FLOATS8_b(...)
#define EW_IF_NUMBERS_f(...) __VA_ARGS__
#define EW_IF_NUMBERS_i(...) __VA_ARGS__
#define EW_IF_NUMBERS_u(...) __VA_ARGS__
#define EW_IF_NUMBERS_b(...)
#define EW_IF_SIGNED_f(...) __VA_ARGS__
#define EW_IF_SIGNED_i(...) __VA_ARGS__
#define EW_IF_SIGNED_u(...)
#define EW_IF_SIGNED_b(...)
#define EW_IF_INTEGERS_f(...)
#define EW_IF_INTEGERS_i(...) __VA_ARGS__
#define EW_IF_INTEGERS_u(...) __VA_ARGS__
#define EW_IF_INTEGERS_b(...)
#define EW_IF_BOOL_f(...)
#define EW_IF_BOOL_i(...)
#define EW_IF_BOOL_u(...)
#define EW_IF_BOOL_b(...) __VA_ARGS__
#define EW_IF_EQUAL_f(...) __VA_ARGS__
#define EW_IF_EQUAL_i(...) __VA_ARGS__
#define EW_IF_EQUAL_u(...) __VA_ARGS__
#define EW_IF_EQUAL_b(...) __VA_ARGS__
#define EW_IF_POWERS_f(...) __VA_ARGS__
#define EW_IF_POWERS_i(...) __VA_ARGS__
#define EW_IF_POWERS_u(...)
#define EW_IF_POWERS_b(...)
#define EW_IF_WIDE_f(...) __VA_ARGS__
#define EW_IF_WIDE_i(...) __VA_ARGS__
#define EW_IF_WIDE_u(...) __VA_ARGS__
#define EW_IF_WIDE_b(...)
#define EW_IF_ANY_f(...)
#define EW_IF_ANY_i(...)
#define EW_IF_ANY_u(...) __VA_ARGS__
#define EW_IF_ANY_b(...)

/* Types of x and of the result by kind. */
#define EW_X_VALUE EW_T
#define EW_X_TEST EW_T
#define EW_X_DIVIDE EW_T
#define EW_X_MEAN EW_T
#define EW_X_POWER EW_T
#define EW_X_CLAMP EW_T
#define EW_X_PICK uint8_t
#define EW_R_VALUE EW_T
#define EW_R_TEST uint8_t
#define EW_R_DIVIDE EW_T
#define EW_R_MEAN EW_T
#define EW_R_POWER EW_T
#define EW_R_CLAMP EW_T
#define EW_R_PICK EW_T

#define EW_GLUE_(a, b) a##b
#define EW_GLUE(a, b) EW_GLUE_(a, b)
#define EW_JOIN_(a, b) a##b /* the same again: a macro does not expand within itself */
#define EW_JOIN(a, b) EW_JOIN_(a, b)
#define EW_IF_(types, class) EW_IF_##types##_##class
#define EW_IF(types, class) EW_IF_(types, class)
#define EW_FN(name) EW_GLUE(ew_##name##_, EW_ID)
#define EW_RUN(name) EW_GLUE(ew_run_##name##_, EW_ID)
#define EW_LOOP(name) EW_GLUE(ew_loop_##name##_, EW_ID)

#define EW_FOR(name, ix, iy, iz)                                                                                       \
  EW_INDEPENDENT for (int64_t i = 0; i < n; i++) po[i] = EW_FN(name)(px[ix], py[iy], pz[iz], a, b)

#define EW_BODY_1(name) EW_FOR(name, i, 0, 0)
#define EW_BODY_2(name)                                                                                                \
  switch (still & 3) {                                                                                                 \
    case 0: EW_FOR(name, i, i, 0); break;                                                                              \
    case 1: EW_FOR(name, 0, i, 0); break;                                                                              \
    case 2: EW_FOR(name, i, 0, 0); break;                                                                              \
    default: EW_FOR(name, 0, 0, 0); break;                                                                             \
  }
#define EW_BODY_N(name) EW_BODY_2(name)
#define EW_BODY_3(name)                                                                                                \
  const int64_t sx = (still & 1) == 0, sy = (still & 2) == 0, sz = (still & 4) == 0;                                   \
  switch (still) {                                                                                                     \
    case 0: EW_FOR(name, i, i, i); break;                                                                              \
    case 2: EW_FOR(name, i, 0, i); break;                                                                              \
    case 4: EW_FOR(name, i, i, 0); break;                                                                              \
    case 6: EW_FOR(name, i, 0, 0); break;                                                                              \
    default: EW_FOR(name, i *sx, i *sy, i *sz); break;                                                                 \
  }
/* Operands a row does not have read a one of its type. */
#define EW_OPERANDS_1 (void)still, py = &one, pz = &one
#define EW_OPERANDS_2 pz = &one
#define EW_OPERANDS_N EW_OPERANDS_2
#define EW_OPERANDS_3 (void)one

#define EW_STRIP(...) __VA_ARGS__
#define EW_DEFINE(name, arity, kind, attributes, expression)                                                           \
  static inline EW_R_##kind EW_FN(name)(EW_X_##kind x, EW_T y, EW_T z, EW_NUMBER a, EW_NUMBER b) {                     \
    (void)x, (void)y, (void)z, (void)a, (void)b;                                                                       \
    return (EW_R_##kind)(expression);                                                                                  \
  }                                                                                                                    \
  static inline __attribute__((always_inline)) void EW_LOOP(name)(const EW_X_##kind *px, const EW_T *py,               \
                                                                  const EW_T *pz, EW_R_##kind *po, int64_t n,          \
                                                                  unsigned still, EW_NUMBER a, EW_NUMBER b) {          \
    static const EW_T one = 1;                                                                                         \
    EW_OPERANDS_##arity;                                                                                               \
    EW_BODY_##arity(name);                                                                                             \
  }                                                                                                                    \
  static void EW_RUN(name)(const void *x, const void *y, const void *z, void *out, int64_t n, unsigned still,          \
                           const double ab[2]) {                                                                       \
    const EW_NUMBER a = (EW_NUMBER)ab[0], b = (EW_NUMBER)ab[1];                                                        \
    if ((0 EW_STRIP attributes) == 0) {                                                                                \
      EW_LOOP(name)(x, y, z, out, n, still, a, b);                                                                     \
    } else if (a != 0) {                                                                                               \
      EW_LOOP(name)(x, y, z, out, n, still, 1, b);                                                                     \
    } else {                                                                                                           \
      EW_LOOP(name)(x, y, z, out, n, still, 0, b);                                                                     \
    }                                                                                                                  \
  }

/* The functions of the table's expressions that do not depend on the class. */
#define K(c) ((EW_T)(c))
#define N(x) ((EW_NUMBER)(x))
#define EXP(x) EW_F(exp)(x)
#define EXPM1(x) EW_F(expm1)(x)
#define LOG(x) EW_F(log)(x)
#define SQRT(x) EW_F(sqrt)(x)
#define FLOOR(x) EW_F(floor)(x)
#define CEIL(x) EW_F(ceil)(x)
#define ROUND_EVEN(x) EW_F(rint)(x)
#define SIN(x) EW_F(sin)(x)
#define COS(x) EW_F(cos)(x)
#define TAN(x) EW_F(tan)(x)
#define ASIN(x) EW_F(asin)(x)
#define ACOS(x) EW_F(acos)(x)
#define ATAN(x) EW_F(atan)(x)
#define SINH(x) EW_F(sinh)(x)
#define COSH(x) EW_F(cosh)(x)
#define TANH(x) EW_F(tanh)(x)
#define ASINH(x) EW_F(asinh)(x)
#define ACOSH(x) EW_F(acosh)(x)
#define ATANH(x) EW_F(atanh)(x)
#define ERF(x) EW_F(erf)(x)
#define SIGMOID(x) EW_F(sigmoid)(x)
#define SOFTPLUS(x) EW_F(softplus)(x)
#define ISNAN(x) ((x) != (x))
#define ISINF(x) (EW_F(fabs)(x) == (EW_T)INFINITY)
#define MAX(x, y) ((x) > (y) ? (x) : (x) == (x) ? (y) : (x)) /* NaN if either is */
#define MIN(x, y) ((x) < (y) ? (x) : (x) == (x) ? (y) : (x))
#define ABS(x) EW_JOIN(EW_ABS_, EW_CLASS)(x)
#define NEG(x) EW_JOIN(EW_NEG_, EW_CLASS)(x)
#define ADD(x, y) EW_JOIN(EW_ADD_, EW_CLASS)(x, y)
#define SUB(x, y) EW_JOIN(EW_SUB_, EW_CLASS)(x, y)
#define MUL(x, y) EW_JOIN(EW_MUL_, EW_CLASS)(x, y)
#define DIV(x, y) EW_JOIN(EW_DIV_, EW_CLASS)(x, y)
#define MOD(x, y) EW_FN(mod)(x, y)
#define FMOD(x, y) EW_FN(fmod)(x, y)
#define POW(x, y) EW_JOIN(EW_POW_, EW_CLASS)(x, y)
#define BIT_NOT(x) ~(x)
#define BIT_AND(x, y) ((x) & (y))
#define BIT_OR(x, y) ((x) | (y))
#define BIT_XOR(x, y) ((x) ^ (y))
#define SHIFT_LEFT(x, y) EW_FN(shift_left)(x, y)
#define SHIFT_RIGHT(x, y) EW_FN(shift_right)(x, y)

#define EW_ABS_f(x) EW_F(fabs)(x)
#define EW_NEG_f(x) (-(x))
#define EW_ADD_f(x, y) ((x) + (y))
#define EW_SUB_f(x, y) ((x) - (y))
#define EW_MUL_f(x, y) ((x) * (y))
#define EW_DIV_f(x, y) ((x) / (y))
#define EW_POW_f(x, y) EW_F(pow)(x, y)
/* Integers wrap: the arithmetic is done in unsigned long. */
#define EW_ABS_i(x) ((x) < 0 ? EW_NEG_i(x) : (x))
#define EW_ABS_u(x) (x)
#define EW_NEG_i(x) (EW_T)(EW_U)(0 - (uint64_t)(x))
#define EW_ADD_i(x, y) (EW_T)(EW_U)((uint64_t)(x) + (uint64_t)(y))
#define EW_SUB_i(x, y) (EW_T)(EW_U)((uint64_t)(x) - (uint64_t)(y))
#define EW_MUL_i(x, y) (EW_T)(EW_U)((uint64_t)(x) * (uint64_t)(y))
#define EW_DIV_i(x, y) EW_FN(div)(x, y)
#define EW_POW_i(x, y) EW_FN(power)(x, y)
#define EW_ADD_u(x, y) EW_ADD_i(x, y)
#define EW_SUB_u(x, y) EW_SUB_i(x, y)
#define EW_MUL_u(x, y) EW_MUL_i(x, y)
#define EW_DIV_u(x, y) (EW_T)((y) == 0 ? 0 : (x) / (y))

/* Remainders by class: MOD has the sign of y, FMOD that of x. */
#define EW_HELPERS_f                                                                                                   \
  static inline EW_T EW_FN(fmod)(EW_T x, EW_T y) { return EW_F(fmod)(x, y); }                                          \
  static inline EW_T EW_FN(mod)(EW_T x, EW_T y) {                                                                      \
    EW_T r = EW_F(fmod)(x, y);                                                                                         \
    return r == 0 ? EW_F(copysign)(r, y) : (r < 0) != (y < 0) ? r + y : r;                                             \
  }
#define EW_HELPERS_i                                                                                                   \
  static inline EW_T EW_FN(div)(EW_T x, EW_T y) { return y == 0 ? (EW_T)0 : y == -1 ? EW_NEG_i(x) : (EW_T)(x / y); }   \
  static inline EW_T EW_FN(fmod)(EW_T x, EW_T y) { return (EW_T)(y == 0 || y == -1 ? 0 : x % y); }                     \
  static inline EW_T EW_FN(mod)(EW_T x, EW_T y) {                                                                      \
    EW_T r = EW_FN(fmod)(x, y);                                                                                        \
    return (EW_T)(r != 0 && (r < 0) != (y < 0) ? r + y : r);                                                           \
  }                                                                                                                    \
  static inline EW_T EW_FN(power)(EW_T x, EW_T y) {                                                                    \
    if (y < 0) return x == 1 ? (EW_T)1 : x == -1 ? (y & 1 ? (EW_T)-1 : (EW_T)1) : (EW_T)0;                             \
    uint64_t result = 1, square = (uint64_t)x;                                                                         \
    for (uint64_t left = (uint64_t)y; left != 0; left >>= 1, square *= square) {                                       \
      if (left & 1) result *= square;                                                                                  \
    }                                                                                                                  \
    return (EW_T)(EW_U)result;                                                                                         \
  }                                                                                                                    \
  EW_HELPERS_SHIFT
#define EW_HELPERS_u                                                                                                   \
  static inline EW_T EW_FN(fmod)(EW_T x, EW_T y) { return (EW_T)(y == 0 ? 0 : x % y); }                                \
  static inline EW_T EW_FN(mod)(EW_T x, EW_T y) { return (EW_T)(y == 0 ? 0 : x % y); }                                 \
  EW_HELPERS_SHIFT
/* A shift by a negative number or by all bits leaves what filling in leaves. */
#define EW_HELPERS_SHIFT                                                                                               \
  static inline EW_T EW_FN(shift_left)(EW_T x, EW_T y) {                                                               \
    return (EW_T)(EW_U)((EW_U)y >= sizeof(EW_T) * 8 ? 0 : (uint64_t)(EW_U)x << (EW_U)y);                         \
  }                                                                                                                    \
  static inline EW_T EW_FN(shift_right)(EW_T x, EW_T y) {                                                              \
    return (EW_T)((EW_U)y >= sizeof(EW_T) * 8 ? (x < 1 && x != 0 ? (EW_T)-1 : 0) : x >> (EW_U)y);                \
  }
#define EW_HELPERS_b
#endif

/* Rows whose a chooses between two expressions have a loop for each. */
#define A_FLOAT(attr, value)
#define B_FLOAT(attr, value)
#define B_INT(attr, value)
#define A_INT(attr, value) +1
#define A_CHOICE(attr, first, second) +1
#define A_MUST_CHOOSE(attr, first, second) +1

EW_JOIN(EW_HELPERS_, EW_CLASS)

#define X(name, version, arity, ports, types, kind, cost, attributes, expression, dx, dy, dz)                          \
  EW_IF(types, EW_CLASS)(EW_DEFINE(name, arity, kind, attributes, (expression)))
#include "ops/elementwise.def"
#undef X

static ew_loop *const EW_GLUE(ew_loops_, EW_ID)[EW_ROW_COUNT] = {
#define X(name, version, arity, ports, types, kind, cost, attributes, expression, dx, dy, dz)                          \
  EW_IF(types, EW_CLASS)([EW_##name] = EW_RUN(name), )
#include "ops/elementwise.def"
#undef X
#ifdef EW_INSTEAD
    EW_INSTEAD
#endif
};

#undef EW_T
#undef EW_U
#undef EW_ID
#undef EW_CLASS
#undef EW_NUMBER
#undef EW_F
#undef EW_INSTEAD
#undef A_FLOAT
#undef B_FLOAT
#undef A_INT
#undef B_INT
#undef A_CHOICE
#undef A_MUST_CHOOSE
