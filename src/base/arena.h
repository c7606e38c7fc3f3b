/* arena.h — memory that lives with its owner (a graph, a program) and is freed all at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

/* Blocks are chained; pointers stay valid until arena_finish. Zero-initialised is a valid empty arena. */
typedef struct arena {
  struct arena_block *head;
  size_t used; /* bytes handed out in all */
} arena;

void arena_finish(arena *a);
/* 16-byte aligned, zeroed; NULL when memory is short. */
void *arena_alloc(arena *a, size_t bytes);
/* NULL also on overflow of count * size. */
void *arena_array(arena *a, size_t count, size_t size);
void *arena_copy(arena *a, const void *data, size_t bytes);
char *arena_strdup(arena *a, const char *s);                 /* NULL in, NULL out */
char *arena_strndup(arena *a, const char *s, size_t length); /* NUL-terminated copy */
__attribute__((format(printf, 2, 3))) char *arena_printf(arena *a, const char *format, ...);

#endif
