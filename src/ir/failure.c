/* failure.c — the first failure of a run, and rlx_fail. */
#include "ir/failure.h"

#include <stdarg.h>
#include <stdio.h>

void failure_reset(failure *f) {
  __atomic_store_n(&f->taken, 0, __ATOMIC_RELEASE);
  f->code = RLX_OK;
  f->text[0] = 0;
}

static bool take(failure *f) {
  int none = 0;
  return __atomic_compare_exchange_n(&f->taken, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

rlx_status failure_set(failure *f, rlx_status code, const char *format, ...) {
  if (!take(f)) return code;
  va_list args;
  va_start(args, format);
  vsnprintf(f->text, sizeof f->text, format, args);
  va_end(args);
  f->code = code;
  return code;
}

rlx_status rlx_fail(const void *ctx, rlx_status code, const char *format, ...) {
  char text[sizeof((failure *)0)->text];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (code == RLX_OK) code = RLX_INTERNAL; /* a failure without a code is still one */
  const rlx_ctx *run = ctx;
  /* Only a run has other threads; inference and binding fail on the calling one. */
  if (run && run->struct_size == sizeof *run && run->executor) {
    const executor_head *e = run->executor;
    return failure_set(e->failure, code, "%s", text);
  }
  return status_fail(code, "%s", text);
}
