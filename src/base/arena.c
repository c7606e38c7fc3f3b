/* arena.c — chained blocks. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { FIRST_BLOCK = 1024, LARGEST_BLOCK = 256 * 1024, ALIGN = 16 };

struct arena_block {
  struct arena_block *next;
  size_t used, size;
  alignas(ALIGN) unsigned char data[];
};

void arena_finish(arena *a) {
  for (struct arena_block *b = a->head; b;) {
    struct arena_block *next = b->next;
    mem_free(b);
    b = next;
  }
  *a = (arena){0};
}

static struct arena_block *grow(arena *a, size_t bytes) {
  size_t size = a->head ? a->head->size * 2 : FIRST_BLOCK;
  if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
  if (size < bytes) size = bytes;
  if (size > SIZE_MAX / 2) return NULL;
  struct arena_block *b = mem_zalloc(sizeof *b + size);
  if (!b) return NULL;
  *b = (struct arena_block){.next = a->head, .size = size};
  a->head = b;
  return b;
}

void *arena_alloc(arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 4) return NULL;
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (bytes == 0) bytes = ALIGN;
  struct arena_block *b = a->head;
  if (!b || b->size - b->used < bytes) b = grow(a, bytes);
  if (!b) return NULL;
  void *p = b->data + b->used;
  b->used += bytes;
  a->used += bytes;
  return p;
}

void *arena_array(arena *a, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) return NULL;
  return arena_alloc(a, count * size);
}

void *arena_copy(arena *a, const void *data, size_t bytes) {
  void *p = arena_alloc(a, bytes);
  if (p && bytes) memcpy(p, data, bytes);
  return p;
}

char *arena_strndup(arena *a, const char *s, size_t length) {
  if (length == SIZE_MAX) return NULL;
  char *p = arena_alloc(a, length + 1);
  if (p && length) memcpy(p, s, length);
  return p;
}

char *arena_strdup(arena *a, const char *s) { return s ? arena_strndup(a, s, strlen(s)) : NULL; }

char *arena_printf(arena *a, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0) return NULL;
  char *p = arena_alloc(a, (size_t)n + 1);
  if (!p) return NULL;
  va_start(args, format);
  vsnprintf(p, (size_t)n + 1, format, args);
  va_end(args);
  return p;
}
