/* _program.c — scalar programs as text: a helper function per row and type, rendered from the table's expressions. */
#include "backend/gpu/kernels/_program.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ops/_convert.h"

const char *program_type(rlx_dtype dtype) {
  switch (dtype) {
    case RLX_FLOAT:
    case RLX_FLOAT16:
    case RLX_BFLOAT16: return "f32";
    case RLX_INT8:
    case RLX_INT16:
    case RLX_INT32: return "i32";
    case RLX_UINT8:
    case RLX_UINT16:
    case RLX_UINT32: return "u32";
    case RLX_INT64: return "i64";
    case RLX_UINT64: return "u64";
    case RLX_BOOL: return "bool";
    default: return NULL;
  }
}

static bool is_real(rlx_dtype d) { return d == RLX_FLOAT || d == RLX_FLOAT16 || d == RLX_BFLOAT16; }

/* ---- numbers ---- */

static void write_number(rlx_gpu_text *t, rlx_dtype d, double v) {
  char digits[40];
  if (is_real(d)) {
    if (v != v) {
      rlx_gpu_write(t, "NOT_A_NUMBER");
    } else if (isinf((float)v)) {
      rlx_gpu_write(t, v > 0 ? "INF" : "-INF");
    } else {
      snprintf(digits, sizeof digits, "%.9g", (double)(float)v);
      rlx_gpu_write(t, "%s%sf", digits, strpbrk(digits, ".e") ? "" : ".0");
    }
    return;
  }
  if (d == RLX_BOOL) {
    rlx_gpu_write(t, v != 0 ? "true" : "false");
    return;
  }
  uint64_t word = 0;
  bool fits = v > -9223372036854775808.0 && v < 18446744073709551616.0;
  int64_t whole = v >= 9223372036854775808.0 ? INT64_MAX : v > -9223372036854775808.0 ? (int64_t)v : INT64_MIN;
  word = fits && v >= 9223372036854775808.0 ? (uint64_t)v : (uint64_t)whole;
  if (d == RLX_INT64 || d == RLX_UINT64)
    rlx_gpu_write(t, "%s((u64(%uu) << 32u) | u64(%uu))", program_type(d), (unsigned)(word >> 32), (unsigned)word);
  else
    rlx_gpu_write(t, "%s(%uu)", program_type(d), (unsigned)word);
}

/* ---- conversions ---- */

/* What keeps a value in the range of a narrow type: printed around it. */
static const char *narrow_open(rlx_dtype d) {
  switch (d) {
    case RLX_INT8: return "NARROW_I8(";
    case RLX_INT16: return "NARROW_I16(";
    case RLX_UINT8: return "NARROW_U8(";
    case RLX_UINT16: return "NARROW_U16(";
    case RLX_FLOAT16: return "ROUND_F16(";
    case RLX_BFLOAT16: return "ROUND_BF16(";
    default: return "(";
  }
}

/* The value `v` of type `from` as one of `to`, as Cast has it. */
static void write_conversion(rlx_gpu_text *t, rlx_dtype from, rlx_dtype to, const char *v) {
  const char *type = program_type(to);
  if (from == to || (is_real(from) && to == RLX_FLOAT))
    rlx_gpu_write(t, "%s", v);
  else if (to == RLX_BOOL)
    rlx_gpu_write(t, "(%s != %s(0))", v, program_type(from));
  else if (from == RLX_BOOL)
    rlx_gpu_write(t, "(%s ? %s(1) : %s(0))", v, type, type);
  else if (is_real(from) && is_real(to))
    rlx_gpu_write(t, "%s%s)", narrow_open(to), v);
  else if (is_real(from) && to == RLX_UINT64)
    rlx_gpu_write(t, "TO_U64(%s)", v);
  else if (from == RLX_FLOAT && (to == RLX_INT32 || to == RLX_INT8 || to == RLX_UINT8))
    rlx_gpu_write(t, "%s%s(TO_I32(%s)))", narrow_open(to), type, v);
  else if (is_real(from))
    rlx_gpu_write(t, "%s%s(TO_I64(%s)))", narrow_open(to), type, v);
  else
    rlx_gpu_write(t, "%s%s(%s))", narrow_open(to), type, v);
}

/* ---- rows ---- */

/* The table's expression in the portable language: K becomes the type, N f32, real literals get their suffix. */
static void write_expression(rlx_gpu_text *t, const char *s, const char *type) {
  while (*s) {
    size_t n = 0;
    if (isalpha((unsigned char)*s) || *s == '_') {
      while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
      if (n == 1 && *s == 'K')
        rlx_gpu_write(t, "%s", type);
      else if (n == 1 && *s == 'N')
        rlx_gpu_write(t, "f32");
      else
        rlx_gpu_write(t, "%.*s", (int)n, s);
    } else if (isdigit((unsigned char)*s)) {
      char *end;
      double v = strtod(s, &end);
      n = (size_t)(end - s);
      if (memchr(s, '.', n) || memchr(s, 'e', n))
        write_number(t, RLX_FLOAT, v);
      else
        rlx_gpu_write(t, "%.*s", (int)n, s);
    } else {
      n = 1;
      rlx_gpu_write(t, "%c", *s);
    }
    s += n;
  }
}

static void write_row(rlx_gpu_text *t, const fused_step *s) {
  const ew_info *row = &ew_rows[s->row];
  rlx_dtype data = row->kind == EW_PICK ? s->result : s->type;
  const char *type = program_type(data), *result = program_type(s->result);
  rlx_gpu_write(t, "FN %s row_%s_%s(%s x", result, row->name, rlx_dtype_name(data),
                row->kind == EW_PICK ? "bool" : type);
  int arity = row->arity == EW_ARITY_N ? 2 : row->arity;
  if (arity > 1) rlx_gpu_write(t, ", %s y", type);
  if (arity > 2) rlx_gpu_write(t, ", %s z", type);
  rlx_gpu_write(t, ", f32 a, f32 b) { return %s%s(", narrow_open(is_real(s->result) ? RLX_FLOAT : s->result), result);
  write_expression(t, row->expression, type);
  rlx_gpu_write(t, ")); }\n");
}

static bool written_before(const fused_program *p, int i) {
  for (int j = 0; j < i; j++)
    if (p->step[j].row == p->step[i].row && p->step[j].type == p->step[i].type &&
        p->step[j].result == p->step[i].result)
      return true;
  return false;
}

/* ---- programs ---- */

static void write_argument(rlx_gpu_text *t, const fused_program *p, const fused_arg *a, rlx_dtype want) {
  if (a->reg < 0) {
    write_number(t, want, a->number);
    return;
  }
  char name[16];
  snprintf(name, sizeof name, "v%d", a->reg);
  write_conversion(t, fused_type(p, a->reg), want, name);
}

static void write_step(rlx_gpu_text *t, const fused_program *p, int i) {
  const fused_step *s = &p->step[i];
  rlx_gpu_write(t, "  %s v%d = ", program_type(s->result), p->inputs + i);
  if (s->row == FUSED_CAST) {
    write_argument(t, p, &s->args[0], s->result);
  } else {
    bool pick = ew_rows[s->row].kind == EW_PICK;
    rlx_dtype data = pick ? s->result : s->type;
    rlx_gpu_write(t, "row_%s_%s(", ew_rows[s->row].name, rlx_dtype_name(data));
    for (int k = 0; k < s->arg_count; k++) {
      write_argument(t, p, &s->args[k], pick && k == 0 ? RLX_BOOL : data);
      rlx_gpu_write(t, ", ");
    }
    write_number(t, RLX_FLOAT, s->ab[0]);
    rlx_gpu_write(t, ", ");
    write_number(t, RLX_FLOAT, s->ab[1]);
    rlx_gpu_write(t, ")");
  }
  rlx_gpu_write(t, ";\n");
}

rlx_status program_write(rlx_gpu_text *t, const fused_program *p) {
  for (int i = 0; i < p->steps; i++)
    if (p->step[i].row != FUSED_CAST && !written_before(p, i)) write_row(t, &p->step[i]);
  rlx_gpu_write(t, "FN %s program(", program_type(fused_result(p)));
  for (int i = 0; i < p->inputs; i++) rlx_gpu_write(t, "%s%s v%d", i ? ", " : "", program_type(p->input_types[i]), i);
  rlx_gpu_write(t, ") {\n");
  for (int i = 0; i < p->steps; i++) write_step(t, p, i);
  rlx_gpu_write(t, "  return v%d;\n}\n", p->inputs + p->steps - 1);
  return RLX_OK;
}

/* ---- from nodes ---- */

static void add_step(fused_program *p, int row, const double ab[2], rlx_dtype type, rlx_dtype result) {
  p->step[p->steps++] = (fused_step){.row = row, .ab = {ab[0], ab[1]}, .type = type, .result = result};
}

static void add_arg(fused_program *p, int reg, double number) {
  fused_step *s = &p->step[p->steps - 1];
  s->args[s->arg_count++] = (fused_arg){reg, number};
}

/* A bound of Clip that is left out. */
static double extreme(rlx_dtype d, int which) {
  uint64_t word = 0;
  if (is_real(d)) return which ? INFINITY : -INFINITY;
  ew_extreme(d, which, &word);
  return dtype_load(d, &word, 0);
}

/* Sum, Mean, Max, Min of any number of inputs: folded from the left. */
static void fold_steps(fused_program *p, int row, const double ab[2], rlx_dtype type, rlx_dtype out) {
  for (int i = 1; i < p->inputs; i++) {
    add_step(p, row, ab, type, type);
    add_arg(p, i == 1 ? 0 : p->inputs + i - 2, 0);
    add_arg(p, i, 0);
  }
  if (ew_rows[row].kind == EW_MEAN) {
    int last = p->inputs > 1 ? p->inputs + p->steps - 1 : 0;
    add_step(p, EW_Div, ab, type, type);
    add_arg(p, last, 0);
    add_arg(p, -1, p->inputs);
  }
  if (p->steps == 0 || out != type) {
    int last = p->steps ? p->inputs + p->steps - 1 : 0;
    add_step(p, FUSED_CAST, ab, type, out);
    add_arg(p, last, 0);
  }
}

static void plain_steps(fused_program *p, const rlx_node *n, int row, const double ab[2], rlx_dtype type) {
  rlx_dtype out = rlx_node_output_type(n, 0)->dtype;
  bool pick = ew_rows[row].kind == EW_PICK, test = ew_rows[row].kind == EW_TEST;
  add_step(p, row, ab, type, test ? RLX_BOOL : pick ? rlx_node_input_type(n, 1)->dtype : type);
  for (int k = 0, reg = 0; k < ew_rows[row].arity; k++) {
    bool given = rlx_node_input_type(n, k) != NULL;
    if (given)
      add_arg(p, reg++, 0);
    else
      add_arg(p, -1, extreme(type, k - 1));
  }
  if (!test && !pick && out != type) {
    add_step(p, FUSED_CAST, ab, type, out);
    add_arg(p, p->inputs, 0);
  }
}

/* Inputs that are left out are no registers: program_inputs gives the node's index of each. */
static const char *take_inputs(const rlx_node *n, fused_program *p) {
  p->inputs = 0;
  for (int i = 0; i < rlx_node_input_count(n); i++) {
    const rlx_type *t = rlx_node_input_type(n, i);
    if (!t) continue;
    if (p->inputs == FUSED_MAX_INPUTS) return rlx_reason("more than %d inputs", FUSED_MAX_INPUTS);
    if (!program_type(t->dtype)) return rlx_reason("no kernel text computes with %s", rlx_dtype_name(t->dtype));
    p->input_types[p->inputs++] = t->dtype;
  }
  return NULL;
}

static const char *scalar_op(const rlx_node *n, int row, fused_program *p) {
  double ab[2];
  if (ew_numbers(NULL, (ew_row)row, rlx_node_params(n), ab) != RLX_OK) return "an attribute is invalid";
  rlx_dtype in[3] = {RLX_FLOAT, RLX_FLOAT, RLX_FLOAT};
  for (int k = 0; k < 3 && rlx_node_input_type(n, k); k++) in[k] = rlx_node_input_type(n, k)->dtype;
  int arity = ew_rows[row].arity == EW_ARITY_N ? 1 : ew_rows[row].arity;
  bool pick = ew_rows[row].kind == EW_PICK;
  rlx_dtype type = pick ? in[1] : ew_compute_type((ew_row)row, in, arity);
  if (is_real(type) && type != RLX_FLOAT && !pick) type = RLX_FLOAT;
  if (ew_rows[row].kind == EW_POWER && is_real(in[0])) type = RLX_FLOAT;
  if (!program_type(type))
    return rlx_reason("no kernel text computes %s of %s", ew_rows[row].name, rlx_dtype_name(in[0]));
  bool whole = !is_real(type);
  if (whole && (ew_rows[row].kind == EW_DIVIDE || ew_rows[row].kind == EW_POWER || row == EW_Shrink))
    return rlx_reason("%s of integers is left to the CPU, which can refuse a zero divisor", ew_rows[row].name);
  if (ew_rows[row].arity == EW_ARITY_N)
    fold_steps(p, row, ab, type, rlx_node_output_type(n, 0)->dtype);
  else
    plain_steps(p, n, row, ab, type);
  return NULL;
}

const char *program_of_node(const rlx_node *n, fused_program *p) {
  static const double none[2] = {0, 0};
  *p = (fused_program){0};
  const char *wrong = take_inputs(n, p);
  const rlx_type *out = rlx_node_output_type(n, 0);
  if (wrong) return wrong;
  if (!out || !program_type(out->dtype)) return "no kernel text writes this type";
  if (strcmp(rlx_node_op(n), "rlx.fused") == 0) {
    const fused_params *params = rlx_node_params(n);
    wrong = fused_parse(params->program, p);
    for (int i = 0; !wrong && i < p->steps; i++)
      if (!program_type(p->step[i].result) || !program_type(p->step[i].type))
        wrong = rlx_reason("no kernel text computes with %s", rlx_dtype_name(p->step[i].result));
    return wrong;
  }
  int row = ew_find(rlx_node_op(n));
  if (row >= 0) return scalar_op(n, row, p);
  add_step(p, FUSED_CAST, none, p->input_types[0], out->dtype);
  add_arg(p, 0, 0);
  return NULL;
}
