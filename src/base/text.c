/* text.c — the growable string. */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void text_finish(text *t) {
  mem_free(t->data);
  *t = (text){0};
}

static bool reserve(text *t, size_t more) {
  if (t->failed) return false;
  if (more < t->capacity && t->size + more < t->capacity) return true;
  size_t capacity = t->capacity ? t->capacity * 2 : 256;
  while (capacity <= t->size + more && capacity < SIZE_MAX / 2) capacity *= 2;
  char *data = mem_realloc(t->data, capacity);
  if (!data) {
    t->failed = true;
    return false;
  }
  t->data = data;
  t->capacity = capacity;
  return true;
}

void text_add_bytes(text *t, const void *data, size_t size) {
  if (!reserve(t, size)) return;
  if (size) memcpy(t->data + t->size, data, size);
  t->size += size;
  t->data[t->size] = 0;
}

void text_add(text *t, const char *s) { text_add_bytes(t, s, strlen(s)); }

void text_printf(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0 || !reserve(t, (size_t)n)) {
    t->failed = true;
    return;
  }
  va_start(args, format);
  vsnprintf(t->data + t->size, (size_t)n + 1, format, args);
  va_end(args);
  t->size += (size_t)n;
}

/* Length of the valid UTF-8 sequence at s (NUL-terminated), or 0. */
static size_t utf8_length(const unsigned char *s) {
  static const struct {
    unsigned char mask, lead;
    uint32_t least;
  } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
  for (size_t n = 0; n < 4; n++) {
    if ((s[0] & forms[n].mask) != forms[n].lead) continue;
    uint32_t code = s[0] & (unsigned char)~forms[n].mask;
    for (size_t i = 1; i <= n; i++) {
      if ((s[i] & 0xc0) != 0x80) return 0;
      code = code << 6 | (s[i] & 0x3f);
    }
    bool bad = code < forms[n].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000);
    return bad ? 0 : n + 1;
  }
  return 0;
}

void text_json_string(text *t, const char *s) {
  text_add(t, "\"");
  for (const unsigned char *p = (const unsigned char *)s; *p;) {
    size_t n = utf8_length(p);
    if (n == 0) {
      text_add(t, "\xef\xbf\xbd");
      n = 1;
    } else if (*p == '"' || *p == '\\') {
      text_printf(t, "\\%c", *p);
    } else if (*p < 0x20) {
      text_printf(t, "\\u%04x", *p);
    } else {
      text_add_bytes(t, p, n);
    }
    p += n;
  }
  text_add(t, "\"");
}

char *text_take(text *t) {
  text_add(t, "");
  char *data = t->failed ? NULL : t->data;
  if (t->failed) mem_free(t->data);
  *t = (text){0};
  return data;
}
