/* parallel.h — the only parallel call of rlx, over OpenMP. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stdint.h>

/* body over [0, n) in ranges of at least `grain` on up to `threads` threads; inline if one is enough or
 * when already inside a parallel region. */
void parallel_for(int threads, int64_t n, int64_t grain, void (*body)(void *arg, int64_t begin, int64_t end),
                  void *arg);
int parallel_cores(void);
/* Makes `threads` what OpenMP gives this thread (libraries under us ask it); returns what it was, for leave. */
int parallel_enter(int threads);
void parallel_leave(int before);

#endif
