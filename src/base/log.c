/* log.c — the process's log sink. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rlx_log_fn sink;
static void *sink_user;

void rlx_set_log(rlx_log_fn fn, void *user) {
  pthread_mutex_lock(&lock);
  sink = fn;
  sink_user = user;
  pthread_mutex_unlock(&lock);
}

static void to_stderr(const char *line) {
  if (option_get(OPTION_DEBUG) || option_get(OPTION_DBG_CUSTOM)) fprintf(stderr, "rlx: %s\n", line);
}

void log_line(int level, const char *format, ...) {
  char line[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  rlx_log_fn fn = sink;
  void *user = sink_user;
  pthread_mutex_unlock(&lock);
  if (fn)
    fn(user, level, line);
  else
    to_stderr(line);
}

void log_text(int level, const char *text) {
  while (*text) {
    size_t n = strcspn(text, "\n");
    log_line(level, "%.*s", (int)(n < 2000 ? n : 2000), text);
    text += n + (text[n] == '\n');
  }
}
