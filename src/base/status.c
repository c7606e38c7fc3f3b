/* status.c — the per-thread error message. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[STATUS_TEXT_BYTES];

/* One line: control characters become spaces. */
static void flatten(char *s) {
  for (; *s; s++)
    if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = ' ';
}

rlx_status status_fail(rlx_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char text[STATUS_TEXT_BYTES]; /* arguments may point into the message itself */
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(message, text, sizeof message);
  flatten(message);
  return code;
}

void status_clear(void) { message[0] = 0; }

rlx_status status_prefix(rlx_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char text[STATUS_TEXT_BYTES];
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n < 0) return code;
  size_t used = (size_t)n < sizeof text - 3 ? (size_t)n : sizeof text - 3;
  text[used] = ':';
  text[used + 1] = ' ';
  size_t rest = strnlen(message, sizeof text - used - 3);
  memcpy(text + used + 2, message, rest);
  text[used + 2 + rest] = 0;
  memcpy(message, text, sizeof message);
  flatten(message);
  return code;
}

rlx_status status_no_memory(size_t bytes) { return RLX_FAIL(OUT_OF_MEMORY, "out of memory (%zu bytes wanted)", bytes); }

void status_save(char text[STATUS_TEXT_BYTES]) { memcpy(text, message, STATUS_TEXT_BYTES); }

void status_restore(const char *text) { memcpy(message, text, STATUS_TEXT_BYTES); }

const char *rlx_error_message(void) { return message; }

const char *rlx_status_name(rlx_status status) {
  static const char *const names[] = {
      [RLX_OK] = "ok",
      [RLX_INVALID] = "invalid",
      [RLX_NOT_FOUND] = "not found",
      [RLX_UNSUPPORTED] = "unsupported",
      [RLX_OUT_OF_MEMORY] = "out of memory",
      [RLX_IO] = "input/output error",
      [RLX_MALFORMED] = "malformed",
      [RLX_CANCELLED] = "cancelled",
      [RLX_BUSY] = "busy",
      [RLX_DEVICE] = "device error",
      [RLX_KERNEL] = "kernel failed",
      [RLX_DUPLICATE] = "duplicate",
      [RLX_POLICY] = "forbidden by policy",
      [RLX_INTERNAL] = "internal error",
  };
  bool known = status >= 0 && (size_t)status < sizeof names / sizeof *names;
  return known ? names[status] : "unknown status";
}

#define STRING(x) STRING_(x)
#define STRING_(x) #x
const char *rlx_version(void) {
  return STRING(RLX_VERSION_MAJOR) "." STRING(RLX_VERSION_MINOR) "." STRING(RLX_VERSION_PATCH);
}
