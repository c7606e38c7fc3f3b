/* status.h — making and passing on errors: one line of text per thread, no allocation. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <rlx/rlx.h>

/* return RLX_FAIL(INVALID, "softmax: axis %d outside rank %d", axis, rank); */
#define RLX_FAIL(code, ...) status_fail(RLX_##code, __VA_ARGS__)

/* Passes a failure on. */
#define RLX_TRY(expr)                                                                                    \
  do {                                                                                                   \
    rlx_status try_status_ = (expr);                                                                     \
    if (try_status_ != RLX_OK) return try_status_;                                                       \
  } while (0)

/* Records the message (cut to one line, control characters replaced) and returns code. */
__attribute__((format(printf, 2, 3))) rlx_status status_fail(rlx_status code, const char *format, ...);
void status_clear(void); /* an empty message; costs nothing, for each step of a run */
/* Puts "<prefix>: " before this thread's message; returns code. */
__attribute__((format(printf, 2, 3))) rlx_status status_prefix(rlx_status code, const char *format, ...);
/* The out-of-memory status for `bytes` wanted. */
rlx_status status_no_memory(size_t bytes);
/* Saving and restoring the message around calls that may overwrite it. */
#define STATUS_TEXT_BYTES 4096
void status_save(char text[STATUS_TEXT_BYTES]);
void status_restore(const char *text);

#endif
