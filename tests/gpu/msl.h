/* msl.h — enough of the Metal Shading Language as C++ to check the syntax and types of rendered kernels with clang. */
#define kernel
#define device
#define constant const
#define threadgroup
#define buffer(n) annotate("buffer")
#define threadgroup_position_in_grid annotate("")
#define threadgroups_per_grid annotate("")
#define thread_index_in_threadgroup annotate("")
#define INFINITY __builtin_inff()
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
namespace metal {
enum class mem_flags { mem_threadgroup };
void threadgroup_barrier(mem_flags);
template <class T> struct vec2_ {
  T x, y;
  vec2_(T a, T b) : x(a), y(b) {}
  vec2_() {}
};
template <class T> struct vec3_ {
  T v[3];
  T &operator[](int i) { return v[i]; }
};
struct half {
  ushort bits;
  explicit half(float);
  operator float() const;
  half() {}
};
struct float4 {
  float x, y, z, w;
  float4(float a, float b, float c, float d);
  float4() {}
  explicit float4(struct half4);
};
struct half4 {
  half x, y, z, w;
  explicit half4(float4);
};
typedef vec2_<uint> uint2;
typedef vec3_<uint> uint3;
float floor(float);
float ceil(float);
float rint(float);
float sqrt(float);
float exp(float);
float log(float);
float fma(float, float, float);
template <class T, class S> T as_type(S);
template <class T> T simd_shuffle_xor(T, ushort);
} // namespace metal
