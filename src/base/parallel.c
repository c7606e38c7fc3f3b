/* parallel.c — parallel_for over OpenMP's pool (the one oneDNN uses). */
#include "base/parallel.h"

#include <omp.h>
#include <unistd.h>

int parallel_cores(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

int parallel_enter(int threads) {
  int before = omp_get_max_threads();
  if (before != threads) omp_set_num_threads(threads);
  return before;
}

void parallel_leave(int before) {
  if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

/* Pieces a thread takes one after the other: a thread that the system holds up leaves the rest to the others. */
enum { CHUNKS = 4 };

void parallel_for(int threads, int64_t n, int64_t grain, void (*body)(void *arg, int64_t begin, int64_t end),
                  void *arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  int64_t pieces = n / grain;
  if (pieces > threads) pieces = threads;
  if (pieces <= 1 || omp_in_parallel()) {
    body(arg, 0, n);
    return;
  }
  int64_t next = 0, chunk = n / (pieces * CHUNKS);
  if (chunk < grain) chunk = grain;
#pragma omp parallel num_threads((int)pieces)
  for (int64_t begin; (begin = __atomic_fetch_add(&next, chunk, __ATOMIC_RELAXED)) < n;)
    body(arg, begin, n - begin < chunk ? n : begin + chunk);
}
