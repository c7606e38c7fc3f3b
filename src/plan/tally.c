/* tally.c — rows of what steps run, shared by all stages of a session. */
#include "plan/tally.h"

#include <string.h>

static tally_row row_of(const step *s) {
  const candidate *c = s->chosen;
  const rlx_node *n = s->from->node;
  return (tally_row){n->op_name, candidate_name(c), c->kernel ? c->kernel->owner : n->op->owner, c->tier};
}

static bool same(const tally_row *a, const tally_row *b) {
  return a->tier == b->tier && strcmp(a->op, b->op) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
         strcmp(a->owner, b->owner) == 0;
}

static int find(tally *t, const tally_row *row) {
  for (int i = 0; i < t->count; i++)
    if (same(&t->rows[i], row)) return i;
  if (t->count == TALLY_MAX) return TALLY_MAX - 1;
  t->rows[t->count] = *row;
  if (t->count == TALLY_MAX - 1) t->rows[t->count] = (tally_row){"(others)", "", "", RLX_TIER_ANY};
  return t->count++;
}

rlx_status tally_stage(tally *t, stage *s) {
  s->tallies = arena_array(&s->memory, (size_t)s->step_count, sizeof *s->tallies);
  if (!s->tallies) return status_no_memory((size_t)s->step_count * sizeof *s->tallies);
  for (int i = 0; i < s->step_count; i++) {
    tally_row row = row_of(&s->steps[i]);
    int at = find(t, &row), k = 0;
    while (k < s->tally_count && s->tallies[k].row != at) k++;
    if (k == s->tally_count) s->tallies[s->tally_count++].row = at;
    s->tallies[k].steps++;
  }
  return RLX_OK;
}
