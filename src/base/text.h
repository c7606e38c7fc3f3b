/* text.h — a growable string. The first failed allocation is remembered; later calls do nothing. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised is empty. Owned: text_finish, or text_take. data is NUL-terminated once not NULL. */
typedef struct text {
  char *data;
  size_t size, capacity;
  bool failed;
} text;

void text_finish(text *t);
void text_add(text *t, const char *s);
void text_add_bytes(text *t, const void *data, size_t size);
__attribute__((format(printf, 2, 3))) void text_printf(text *t, const char *format, ...);
/* s as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD. */
void text_json_string(text *t, const char *s);
/* Gives the string to the caller (mem_free / rlx_free); NULL if any allocation failed. */
char *text_take(text *t);

#endif
