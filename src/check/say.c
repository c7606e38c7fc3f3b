/* say.c — what a check says, with what it was doing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "ir/print.h"

static void say(checker *c, int outcome, const char *words, double ulp, double relative) {
  check_message m = {outcome, c->check, c->subject, c->current ? c->current->row : "", words, "", ulp, relative};
  char *graph = NULL;
  if (c->running < c->resume) return; /* said before, by a process that died later */
  if (outcome == RLX_CHECK_FAILED && c->current && rlx_graph_print(c->current->graph, &graph) == RLX_OK)
    m.graph = graph;
  c->sink(c->user, &m);
  rlx_free(graph);
}

static bool is_fatal(const checker *c, int ordinal) {
  for (int i = 0; i < c->fatal_count; i++)
    if (c->fatal[i] == ordinal) return true;
  return false;
}

bool check_begin(checker *c, const char *check, const char *subject, bool needed) {
  int me = c->ordinal++;
  c->check = check;
  c->subject = subject;
  if (c->death && me == c->resume - 1) { /* of the process before this one; here is the graph */
    c->running = c->resume;
    check_failed(c, "%s", c->death);
  }
  if (is_fatal(c, me) || (me < c->resume && !needed)) return false;
  c->running = me;
  check_message m = {CHECK_BEGIN, check, subject, c->current ? c->current->row : "", "", "", (double)me, 0};
  c->sink(c->user, &m);
  return true;
}

void check_passed(checker *c, double ulp, double relative) { say(c, RLX_CHECK_PASSED, "", ulp, relative); }

void check_failed(checker *c, const char *format, ...) {
  char words[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  say(c, RLX_CHECK_FAILED, words, 0, 0);
}

void check_skipped(checker *c, const char *format, ...) {
  char words[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  say(c, RLX_CHECK_SKIPPED, words, 0, 0);
}
