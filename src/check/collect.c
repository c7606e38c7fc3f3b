/* collect.c — gathers what checks say into one block for the caller. */
#include "check/collect.h"

#include <string.h>

static void line_finish(collected_line *l) {
  mem_free(l->check);
  mem_free(l->subject);
  mem_free(l->sample);
  mem_free(l->text);
  mem_free(l->graph);
}

void collector_finish(collector *c) {
  for (size_t i = 0; i < c->lines.count; i++) line_finish(&c->lines.data[i]);
  vector_finish(&c->lines);
}

void collector_add(void *user, const check_message *m) {
  collector *c = user;
  if (m->outcome == CHECK_BEGIN) return;
  for (size_t i = 0; i < c->lines.count; i++) {
    collected_line *l = &c->lines.data[i];
    if (l->outcome != m->outcome || strcmp(l->check, m->check) != 0 || strcmp(l->subject, m->subject) != 0) continue;
    l->count++;
    if (m->ulp > l->ulp) l->ulp = m->ulp;
    if (m->relative > l->relative) l->relative = m->relative;
    return;
  }
  collected_line l = {m->outcome,
                      1,
                      mem_strdup(m->check),
                      mem_strdup(m->subject),
                      mem_strdup(m->sample),
                      mem_strdup(m->text),
                      mem_strdup(m->graph),
                      m->ulp,
                      m->relative};
  bool ok = l.check && l.subject && l.sample && l.text && l.graph && vector_push(&c->lines, l);
  if (!ok) line_finish(&l);
  c->failed |= !ok;
}

/* Failures, then passes, then what could not be tested; each in the order it came. */
static int rank(int outcome) { return outcome == RLX_CHECK_FAILED ? 0 : outcome == RLX_CHECK_PASSED ? 1 : 2; }

static const char *put(char **at, const char *text) {
  size_t n = strlen(text) + 1;
  char *to = memcpy(*at, text, n);
  *at += n;
  return to;
}

static rlx_check_line make_line(const collected_line *l, char **at) {
  return (rlx_check_line){(rlx_check_outcome)l->outcome,
                          l->count,
                          put(at, l->check),
                          put(at, l->subject),
                          put(at, l->sample),
                          put(at, l->text),
                          put(at, l->graph),
                          l->ulp,
                          l->relative};
}

rlx_status collector_result(const collector *c, const op_entry *op, int samples, rlx_check_result **out) {
  size_t bytes = sizeof **out + c->lines.count * sizeof(rlx_check_line) + strlen(op->op.name) + 1;
  if (c->failed) return status_no_memory(1);
  for (size_t i = 0; i < c->lines.count; i++) {
    const collected_line *l = &c->lines.data[i];
    bytes += strlen(l->check) + strlen(l->subject) + strlen(l->sample) + strlen(l->text) + strlen(l->graph) + 5;
  }
  char *block = mem_zalloc(bytes);
  if (!block) return status_no_memory(bytes);
  rlx_check_result *r = (rlx_check_result *)(void *)block;
  rlx_check_line *lines = (rlx_check_line *)(void *)(block + sizeof *r);
  char *at = (char *)(lines + c->lines.count);
  *r = (rlx_check_result){
      .op = put(&at, op->op.name), .version = op->op.version, .sample_count = samples, .lines = lines};
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < c->lines.count; i++) {
      const collected_line *l = &c->lines.data[i];
      if (rank(l->outcome) != k) continue;
      lines[r->line_count++] = make_line(l, &at);
      int32_t *sums[] = {&r->failed, &r->passed, &r->skipped};
      *sums[k] += l->count;
    }
  *out = r;
  return RLX_OK;
}
