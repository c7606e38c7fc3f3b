/* memory.h — the one place allocations go through, so that tests can make any of them fail. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* NULL when memory is short (or a test injects it); never aborts. Size 0 gives a unique pointer. */
void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_realloc(void *p, size_t bytes);
/* For arrays: NULL also when count * size overflows. Zeroed. */
void *mem_array(size_t count, size_t size);
char *mem_strdup(const char *s);
void mem_free(void *p);
/* align: a power of two. Freed with mem_free. */
void *mem_aligned(size_t align, size_t bytes);

/* Tests: the n-th allocation from now fails (1: the next), and `repeat` makes all after it fail too.
 * 0 turns it off. Returns how many allocations happened since the last call. */
int64_t mem_inject(int64_t n, int repeat);

#endif
