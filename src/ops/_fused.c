/* _fused.c — scalar programs: reading, printing, checking types, and running them tile by tile. */
#include "ops/_fused.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ops/_convert.h"

/* ---- text ---- */

static void skip_space(const char **at) {
  while (**at == ' ') (*at)++;
}

static bool take(const char **at, char c) {
  skip_space(at);
  if (**at != c) return false;
  (*at)++;
  return true;
}

static int find_row(const char *name, size_t length) {
  if (length == 4 && memcmp(name, "Cast", 4) == 0) return FUSED_CAST;
  for (int r = 0; r < EW_ROW_COUNT; r++) {
    if (strlen(ew_rows[r].name) == length && memcmp(ew_rows[r].name, name, length) == 0) return r;
  }
  return -1;
}

static bool read_number(const char **at, double *number) {
  skip_space(at);
  char *end;
  *number = strtod(*at, &end);
  bool ok = end != *at;
  *at = end;
  return ok;
}

/* `<float>` of a cast. */
static const char *read_cast_type(const char **at, fused_step *s) {
  char name[32];
  size_t n = strcspn(*at, ">");
  if (n >= sizeof name) return "a type name is too long";
  memcpy(name, *at, n);
  name[n] = 0;
  *at += n;
  s->result = rlx_dtype_parse(name);
  return s->result == RLX_UNDEFINED ? "Cast to no type" : NULL;
}

static const char *read_step(const char **at, fused_step *s) {
  skip_space(at);
  const char *name = *at;
  while (isalnum((unsigned char)**at)) (*at)++;
  *s = (fused_step){.row = find_row(name, (size_t)(*at - name))};
  if (s->row < 0) return rlx_reason("no scalar op \"%.*s\"", (int)(*at - name), name);
  if (take(at, '<')) {
    if (s->row == FUSED_CAST) {
      const char *wrong = read_cast_type(at, s);
      if (wrong) return wrong;
    } else {
      for (int k = 0; k < 2; k++) {
        if (!read_number(at, &s->ab[k])) return "a number is missing after <";
        if (!take(at, ',')) break;
      }
    }
    if (!take(at, '>')) return "> is missing";
  }
  if (!take(at, '(')) return "( is missing";
  do {
    if (s->arg_count == 3) return "more than 3 arguments";
    fused_arg *a = &s->args[s->arg_count++];
    double number;
    bool reg = take(at, '%');
    if (!read_number(at, &number)) return "an argument is no number";
    if (reg && !(number >= 0 && number < FUSED_MAX_INPUTS + FUSED_MAX_STEPS)) return "a register does not exist";
    a->reg = reg ? (int)number : -1;
    a->number = reg ? 0 : number;
  } while (take(at, ','));
  return take(at, ')') ? NULL : ") is missing";
}

const char *fused_parse(rlx_string source, fused_program *p) {
  p->steps = 0;
  const char *at = source.data; /* NUL-terminated, as decoded attributes are */
  if (source.size == 0) return "an empty program";
  do {
    if (p->steps == FUSED_MAX_STEPS) return rlx_reason("more than %d steps", FUSED_MAX_STEPS);
    const char *wrong = read_step(&at, &p->step[p->steps]);
    if (wrong) return wrong;
    p->steps++;
  } while (take(&at, ';'));
  skip_space(&at);
  if (*at != 0) return rlx_reason("unexpected \"%.20s\"", at);
  return fused_check(p);
}

static void print_number(text *out, double number) {
  char digits[40];
  for (int precision = 6; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, number);
    if (strtod(digits, NULL) == number) break;
  }
  text_add(out, digits);
}

void fused_print(const fused_program *p, text *out) {
  for (int i = 0; i < p->steps; i++) {
    const fused_step *s = &p->step[i];
    text_printf(out, "%s%s", i ? "; " : "", s->row == FUSED_CAST ? "Cast" : ew_rows[s->row].name);
    if (s->row == FUSED_CAST) {
      text_printf(out, "<%s>", rlx_dtype_name(s->result));
    } else if (s->ab[0] != 0 || s->ab[1] != 0) {
      text_add(out, "<");
      print_number(out, s->ab[0]);
      text_add(out, ", ");
      print_number(out, s->ab[1]);
      text_add(out, ">");
    }
    for (int k = 0; k < s->arg_count; k++) {
      text_add(out, k ? ", " : "(");
      if (s->args[k].reg >= 0) {
        text_printf(out, "%%%d", s->args[k].reg);
      } else {
        print_number(out, s->args[k].number);
      }
    }
    text_add(out, ")");
  }
}

/* ---- types ---- */

rlx_dtype fused_type(const fused_program *p, int reg) {
  return reg < p->inputs ? p->input_types[reg] : p->step[reg - p->inputs].result;
}

rlx_dtype fused_result(const fused_program *p) { return p->step[p->steps - 1].result; }

/* The type of the step's data operands: that of the first register among them. */
static rlx_dtype argument_type(const fused_program *p, const fused_step *s, int first) {
  for (int k = first; k < s->arg_count; k++) {
    if (s->args[k].reg >= 0) return fused_type(p, s->args[k].reg);
  }
  return RLX_FLOAT;
}

static const char *check_step(const fused_program *p, fused_step *s, int defined) {
  for (int k = 0; k < s->arg_count; k++) {
    if (s->args[k].reg >= defined) return rlx_reason("%%%d is used before it is made", s->args[k].reg);
  }
  if (s->row == FUSED_CAST) {
    if (s->arg_count != 1 || s->args[0].reg < 0) return "Cast takes one register";
    s->type = fused_type(p, s->args[0].reg);
    bool whole = dtype_size(s->type) != 0 && dtype_size(s->result) != 0;
    return whole && convert_supports(s->type) && convert_supports(s->result) ? NULL : "Cast of an unsuitable type";
  }
  const ew_info *row = &ew_rows[s->row];
  int arity = row->arity == EW_ARITY_N ? 2 : row->arity;
  if (s->arg_count != arity) return rlx_reason("%s takes %d arguments", row->name, arity);
  bool pick = row->kind == EW_PICK;
  if (pick && (s->args[0].reg < 0 || fused_type(p, s->args[0].reg) != RLX_BOOL)) return "Where needs a bool register";
  rlx_dtype type = argument_type(p, s, pick);
  for (int k = pick; k < arity; k++) {
    if (s->args[k].reg >= 0 && fused_type(p, s->args[k].reg) != type) {
      return rlx_reason("%s of %s and %s", row->name, rlx_dtype_name(type),
                        rlx_dtype_name(fused_type(p, s->args[k].reg)));
    }
  }
  rlx_dtype in[3] = {pick ? RLX_BOOL : type, type, type};
  s->type = ew_compute_type((ew_row)s->row, in, arity);
  bool fits = (row->types >> type & 1) != 0 && (pick ? dtype_size(type) <= 8 : s->type == type);
  if (!fits || (row->kind == EW_DIVIDE && dtype_is_integer(type)) || row->kind == EW_MEAN) {
    return rlx_reason("%s of %s is no step of a program", row->name, rlx_dtype_name(type));
  }
  s->result = row->kind == EW_TEST ? RLX_BOOL : type;
  return NULL;
}

/* The result must depend on every input: its shape does. */
static const char *check_inputs(const fused_program *p) {
  bool used[FUSED_MAX_INPUTS + FUSED_MAX_STEPS] = {false};
  used[p->inputs + p->steps - 1] = true;
  for (int i = p->steps - 1; i >= 0; i--) {
    for (int k = 0; used[p->inputs + i] && k < p->step[i].arg_count; k++) {
      if (p->step[i].args[k].reg >= 0) used[p->step[i].args[k].reg] = true;
    }
  }
  for (int i = 0; i < p->inputs; i++) {
    if (!used[i]) return rlx_reason("input %%%d has no part in the result", i);
  }
  return NULL;
}

const char *fused_check(fused_program *p) {
  for (int i = 0; i < p->steps; i++) {
    const char *wrong = check_step(p, &p->step[i], p->inputs + i);
    if (wrong) return wrong;
  }
  const char *unused = check_inputs(p);
  if (unused) return unused;
  return fused_slots(p) <= FUSED_MAX_SLOTS ? NULL : "too many intermediate results at a time";
}

/* ---- tiles ---- */

/* The last step that reads each step's result. */
static void last_uses(const fused_program *p, int *last) {
  for (int i = 0; i < p->steps; i++) {
    last[i] = i;
    for (int k = 0; k < p->step[i].arg_count; k++) {
      int from = p->step[i].args[k].reg - p->inputs;
      if (from >= 0) last[from] = i;
    }
  }
}

/* A slot per step, not one that the step reads: an argument of one element is read all through a loop. Returns how
 * many there are. */
static int assign_slots(const fused_program *p, int *slots) {
  int last[FUSED_MAX_STEPS], owner[FUSED_MAX_STEPS], count = 0;
  last_uses(p, last);
  for (int i = 0; i < p->steps; i++) {
    int chosen = -1;
    for (int k = 0; k < count && chosen < 0; k++) {
      if (last[owner[k]] < i) chosen = k;
    }
    if (chosen < 0) chosen = count++;
    owner[chosen] = i;
    slots[i] = chosen;
  }
  return count;
}

int fused_slots(const fused_program *p) {
  int slots[FUSED_MAX_STEPS];
  return assign_slots(p, slots);
}

typedef struct run_step {
  ew_loop *loop; /* NULL: a cast */
  double ab[2];
  rlx_dtype from, to; /* of a cast */
  int args;
  int made[3];        /* the step that made an argument, -1: none; then it is … */
  int input[3];       /* … this input, -1: none; then … */
  uint64_t number[3]; /* … this number, in the step's type */
  int slot[3];        /* where the result of step made[k] is */
  int to_slot;        /* -1: the output */
} run_step;

struct fused_run {
  broadcast plan;
  int steps, inputs;
  int64_t grain;
  size_t input_size[FUSED_MAX_INPUTS], output_size;
  run_step step[];
};

static void store_number(rlx_dtype type, double number, uint64_t *out) {
  if (dtype_is_float(type)) {
    dtype_store(type, out, 0, number);
  } else {
    int64_t whole = number >= 0x1p63 ? INT64_MAX : number > -0x1p63 ? (int64_t)number : INT64_MIN;
    dtype_store_int(type, out, 0, whole); /* NaN: the least */
  }
}

static void prepare_step(const fused_program *p, int i, const int *slots, fused_run *r) {
  const fused_step *s = &p->step[i];
  run_step *t = &r->step[i];
  bool pick = s->row != FUSED_CAST && ew_rows[s->row].kind == EW_PICK;
  t->args = s->arg_count;
  memcpy(t->ab, s->ab, sizeof t->ab);
  t->to_slot = i == p->steps - 1 ? -1 : slots[i];
  t->from = s->type;
  t->to = s->result;
  for (int k = 0; k < s->arg_count; k++) {
    int reg = s->args[k].reg;
    t->input[k] = t->made[k] = -1;
    if (reg < 0) {
      store_number(pick ? s->result : s->type, s->args[k].number, &t->number[k]);
    } else if (reg < p->inputs) {
      t->input[k] = reg;
    } else {
      t->made[k] = reg - p->inputs;
      t->slot[k] = slots[t->made[k]];
    }
  }
}

rlx_status fused_prepare(const fused_program *p, const ew_table *table, const rlx_operand *in, const rlx_operand *out,
                         fused_run **run) {
  size_t bytes = sizeof(fused_run) + sizeof(run_step) * (size_t)p->steps;
  fused_run *r = mem_zalloc(bytes);
  if (r == NULL) return status_no_memory(bytes);
  broadcast_shape shapes[FUSED_MAX_INPUTS];
  for (int i = 0; i < p->inputs; i++) {
    shapes[i] = (broadcast_shape){in[i].rank, in[i].dims};
    r->input_size[i] = dtype_size(in[i].dtype);
  }
  r->output_size = dtype_size(out->dtype);
  broadcast_plan(&r->plan, (broadcast_shape){out->rank, out->dims}, shapes, p->inputs);
  r->steps = p->steps;
  r->inputs = p->inputs;
  int slots[FUSED_MAX_STEPS], cost = 1;
  assign_slots(p, slots);
  for (int i = 0; i < p->steps; i++) {
    const fused_step *s = &p->step[i];
    prepare_step(p, i, slots, r);
    if (s->row == FUSED_CAST) continue;
    cost += ew_rows[s->row].cost;
    r->step[i].loop = table->types[s->type] ? table->types[s->type][s->row] : NULL;
    if (r->step[i].loop == NULL) {
      mem_free(r);
      return RLX_FAIL(UNSUPPORTED, "%s of %s has no loop", ew_rows[s->row].name, rlx_dtype_name(s->type));
    }
  }
  r->grain = 65536 / cost < FUSED_TILE ? FUSED_TILE : 65536 / cost;
  *run = r;
  return RLX_OK;
}

/* One tile: every step over the elements of a piece. */
static void run_tile(const fused_run *r, const broadcast_piece *p, char *out) {
  _Alignas(64) char slots[FUSED_MAX_SLOTS][FUSED_TILE * 8];
  bool single[FUSED_MAX_STEPS];
  for (int i = 0; i < r->steps; i++) {
    const run_step *s = &r->step[i];
    const void *args[3] = {NULL, NULL, NULL};
    unsigned still = 0;
    for (int k = 0; k < s->args; k++) {
      bool one = true;
      if (s->made[k] >= 0) {
        args[k] = slots[s->slot[k]];
        one = single[s->made[k]];
      } else if (s->input[k] >= 0) {
        args[k] = p->in[s->input[k]];
        one = p->still >> s->input[k] & 1;
      } else {
        args[k] = &s->number[k];
      }
      still |= (unsigned)one << k;
    }
    single[i] = still == (1u << s->args) - 1;
    void *to = s->to_slot < 0 ? (void *)out : slots[s->to_slot];
    int64_t count = single[i] ? 1 : p->count;
    if (s->loop) {
      s->loop(args[0], args[1], args[2], to, count, still, s->ab);
    } else {
      convert_run(s->from, args[0], 0, s->to, to, 0, count, &convert_default);
    }
  }
}

typedef struct fused_job {
  const fused_run *run;
  const rlx_operand *in;
  char *out;
} fused_job;

static void run_range(void *arg, int64_t begin, int64_t end) {
  const fused_job *job = arg;
  const fused_run *r = job->run;
  _Alignas(64) broadcast_tile tiles[FUSED_MAX_INPUTS];
  const void *data[FUSED_MAX_INPUTS];
  for (int i = 0; i < r->inputs; i++) data[i] = job->in[i].data;
  broadcast_walk walk;
  broadcast_piece piece;
  broadcast_walk_start(&walk, &r->plan, data, r->input_size, tiles, FUSED_TILE);
  broadcast_walk_range(&walk, begin, end);
  while (broadcast_walk_next(&walk, &piece)) run_tile(r, &piece, job->out + (size_t)piece.at * r->output_size);
}

void fused_execute(rlx_ctx *ctx, const fused_run *run) {
  fused_job job = {run, ctx->inputs, ctx->outputs[0].data};
  if (run->plan.count <= run->grain) {
    run_range(&job, 0, run->plan.count);
  } else {
    rlx_parallel_for(ctx, run->plan.count, run->grain, run_range, &job);
  }
}
