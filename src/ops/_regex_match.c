/* _regex_match.c — running a compiled pattern: all steps that a prefix of the text can lead to, side by side. */
#include "ops/_regex_parts.h"

/* A set of steps in the order of arrival. `mark[s]` is the turn in which step s was last added. */
typedef struct matcher {
  const regex *r;
  int *now, *next, *mark, *stack;
  int now_count, next_count, turn;
} matcher;

static bool is_word(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

enum { NOTHING = 0x110000 }; /* before the first and after the last character */

static bool holds(int what, uint32_t before, uint32_t after) {
  bool boundary = (before != NOTHING && is_word(before)) != (after != NOTHING && is_word(after));
  switch (what) {
    case ASSERT_BEGIN: return before == NOTHING;
    case ASSERT_END: return after == NOTHING;
    case ASSERT_LINE_BEGIN: return before == NOTHING || before == '\n';
    case ASSERT_LINE_END: return after == NOTHING || after == '\n';
    case ASSERT_WORD: return boundary;
    default: return !boundary;
  }
}

/* Adds step s, and what it leads to without reading a character. Every step is stacked at most twice a turn. */
static void add(matcher *m, int s, uint32_t before, uint32_t after) {
  int top = 0;
  m->stack[top++] = s;
  while (top > 0) {
    s = m->stack[--top];
    if (m->mark[s] == m->turn) continue;
    m->mark[s] = m->turn;
    const regex_step *step = &m->r->steps.data[s];
    if (step->kind == STEP_SPLIT) {
      if (m->mark[step->b] != m->turn) m->stack[top++] = step->b;
      if (m->mark[step->a] != m->turn) m->stack[top++] = step->a;
    } else if (step->kind == STEP_ASSERT) {
      if (holds(step->a, before, after)) m->stack[top++] = s + 1;
    } else {
      m->next[m->next_count++] = s;
    }
  }
}

static bool in_set(const regex *r, const regex_step *s, uint32_t c) {
  for (int i = s->a; i < s->b; i++)
    if (c >= r->ranges.data[i].low && c <= r->ranges.data[i].high) return true;
  return false;
}

static void turn_over(matcher *m) {
  int *swap = m->now;
  m->now = m->next;
  m->now_count = m->next_count;
  m->next = swap;
  m->next_count = 0;
  m->turn++;
}

bool regex_matches(regex *r, rlx_string text) {
  size_t steps = r->steps.count, at = 0;
  matcher m = {.r = r,
               .now = r->lists,
               .next = r->lists + steps,
               .mark = r->lists + 2 * steps,
               .stack = r->lists + 3 * steps,
               .turn = 1};
  for (size_t i = 0; i < steps; i++) m.mark[i] = 0;
  uint32_t c = text.size ? utf8_next(text.data, text.size, &at) : NOTHING;
  add(&m, 0, NOTHING, c);
  turn_over(&m);
  while (c != NOTHING) {
    uint32_t after = at < text.size ? utf8_next(text.data, text.size, &at) : NOTHING;
    for (int i = 0; i < m.now_count; i++) {
      const regex_step *s = &r->steps.data[m.now[i]];
      if (s->kind == STEP_SET && in_set(r, s, c)) add(&m, m.now[i] + 1, c, after);
    }
    turn_over(&m);
    if (m.now_count == 0) return false;
    c = after;
  }
  for (int i = 0; i < m.now_count; i++)
    if (r->steps.data[m.now[i]].kind == STEP_MATCH) return true;
  return false;
}
