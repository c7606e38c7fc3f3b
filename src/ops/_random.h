/* _random.h — random numbers by index: number i of a seed is a hash, so any thread may make any of them. */
#ifndef OPS_RANDOM_H
#define OPS_RANDOM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"

/* SplitMix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static inline uint64_t random_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static inline uint64_t random_bits(uint64_t seed, uint64_t i) {
  return random_mix(seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* In [0, 1). */
static inline double random_uniform(uint64_t seed, uint64_t i) {
  return (double)(random_bits(seed, i) >> 11) * 0x1p-53;
}

/* Mean 0, deviation 1 (Box and Muller). */
static inline double random_normal(uint64_t seed, uint64_t i) {
  double u = 1 - random_uniform(seed, 2 * i), angle = random_uniform(seed, 2 * i + 1);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * angle);
}

/* A seed of its own for every run whose node gives none. */
static inline uint64_t random_seed_fresh(const void *ctx) {
  return random_mix((uint64_t)clock_ns() ^ (uint64_t)(uintptr_t)ctx << 20);
}

/* The attribute `seed` of ONNX's random ops is a float. */
static inline uint64_t random_seed(const void *ctx, int given, float seed) {
  uint32_t bits;
  memcpy(&bits, &seed, sizeof bits);
  return given ? random_mix(bits) : random_seed_fresh(ctx);
}

#endif
