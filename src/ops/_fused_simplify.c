/* _fused_simplify.c — recognises activations that exporters write out as arithmetic, in whatever order.
 *
 * A product is flattened to a constant and factors, so that x * 0.5 * (1 + erf(x / sqrt(2))), 0.5 * (x * (1 + …)) and
 * every other order of the same look alike. */
#include <math.h>
#include <string.h>

#include "ops/_fused.h"

enum { MAX_FACTORS = 4 };

typedef struct product {
  double constant;
  int factors[MAX_FACTORS]; /* registers */
  int count;                /* MAX_FACTORS + 1: too many */
} product;

/* Exporters round constants to as few as five digits. */
static bool near(double a, double b) { return fabs(a - b) <= 2e-5 * fabs(b); }

static const fused_step *step_of(const fused_program *p, int reg) {
  return reg >= p->inputs ? &p->step[reg - p->inputs] : NULL;
}

static bool is_row(const fused_program *p, int reg, int row) {
  const fused_step *s = step_of(p, reg);
  return s != NULL && s->row == row;
}

static void add_factor(product *out, int reg) {
  if (out->count < MAX_FACTORS) out->factors[out->count] = reg;
  if (out->count <= MAX_FACTORS) out->count++;
}

/* Multiplies *out by register reg; `whole` is a register not to be taken apart. */
static void flatten(const fused_program *p, int reg, int whole, product *out) {
  const fused_step *s = reg == whole ? NULL : step_of(p, reg);
  bool by_number = s && s->arg_count == 2 && s->args[1].reg < 0;
  if (s && s->row == EW_Mul) {
    for (int k = 0; k < 2; k++) {
      if (s->args[k].reg < 0) {
        out->constant *= s->args[k].number;
      } else {
        flatten(p, s->args[k].reg, whole, out);
      }
    }
  } else if (s && s->row == EW_Div && by_number && s->args[1].number != 0) {
    out->constant /= s->args[1].number;
    flatten(p, s->args[0].reg, whole, out);
  } else if (s && s->row == EW_Pow && by_number && (s->args[1].number == 2 || s->args[1].number == 3)) {
    for (int k = 0; k < (int)s->args[1].number; k++) flatten(p, s->args[0].reg, whole, out);
  } else {
    add_factor(out, reg);
  }
}

/* reg = constant * x^power? */
static bool is_power(const fused_program *p, int reg, int x, int power, double constant) {
  product f = {.constant = 1};
  flatten(p, reg, x, &f);
  if (f.count != power || !near(f.constant, constant)) return false;
  for (int k = 0; k < f.count; k++) {
    if (f.factors[k] != x) return false;
  }
  return true;
}

/* reg = number + other? */
static bool is_plus_number(const fused_program *p, int reg, double number, int *other) {
  if (!is_row(p, reg, EW_Add)) return false;
  const fused_step *s = step_of(p, reg);
  for (int k = 0; k < 2; k++) {
    if (s->args[k].reg < 0 && near(s->args[k].number, number)) {
      *other = s->args[1 - k].reg;
      return *other >= 0;
    }
  }
  return false;
}

#define GELU_SLOPE 0.7978845608028654 /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715

/* reg = x + constant * x^3 (scaled), in either order? */
static bool is_cubic(const fused_program *p, int reg, int x, double linear, double cubic) {
  if (!is_row(p, reg, EW_Add)) return false;
  const fused_arg *args = step_of(p, reg)->args;
  for (int k = 0; k < 2; k++) {
    if (args[0].reg < 0 || args[1].reg < 0) return false;
    if (is_power(p, args[k].reg, x, 1, linear) && is_power(p, args[1 - k].reg, x, 3, cubic)) return true;
  }
  return false;
}

/* reg = sqrt(2 / pi) (x + 0.044715 x^3)? */
static bool is_gelu_argument(const fused_program *p, int reg, int x) {
  product f = {.constant = 1};
  int other;
  flatten(p, reg, x, &f);
  if (f.count == 1 && near(f.constant, GELU_SLOPE)) return is_cubic(p, f.factors[0], x, 1, GELU_CUBE);
  if (f.count == 2 && near(f.constant, GELU_SLOPE)) {
    for (int k = 0; k < 2; k++) {
      if (f.factors[k] == x && is_plus_number(p, f.factors[1 - k], 1, &other) && is_power(p, other, x, 2, GELU_CUBE)) {
        return true;
      }
    }
  }
  return f.count == 1 && f.constant == 1 && is_cubic(p, reg, x, GELU_SLOPE, GELU_SLOPE * GELU_CUBE);
}

/* The row that `constant * x * factor` is, with its numbers; -1: none. */
static int activation_of(const fused_program *p, int x, int factor, double constant, double ab[2]) {
  const fused_step *s = step_of(p, factor);
  int other = -1;
  if (s == NULL) return -1;
  ab[0] = ab[1] = 0;
  if (near(constant, 0.5) && is_plus_number(p, factor, 1, &other)) {
    const fused_step *inner = step_of(p, other);
    if (inner && inner->row == EW_Erf && is_power(p, inner->args[0].reg, x, 1, 0.7071067811865476)) return EW_Gelu;
    ab[0] = 1;
    return inner && inner->row == EW_Tanh && is_gelu_argument(p, inner->args[0].reg, x) ? EW_Gelu : -1;
  }
  if (near(constant, 1.0 / 6) && s->row == EW_Clip && s->args[1].reg < 0 && s->args[2].reg < 0 &&
      s->args[1].number == 0 && s->args[2].number == 6 && s->args[0].reg >= 0) {
    return is_plus_number(p, s->args[0].reg, 3, &other) && other == x ? EW_HardSwish : -1;
  }
  if (constant != 1) return -1;
  int inner = s->args[0].reg;
  if (s->row == EW_HardSigmoid && inner == x && near(s->ab[0], 1.0 / 6) && s->ab[1] == 0.5) return EW_HardSwish;
  if (s->row == EW_Tanh && is_row(p, inner, EW_Softplus) && step_of(p, inner)->args[0].reg == x) return EW_Mish;
  if (s->row != EW_Sigmoid || inner < 0) return -1;
  product f = {.constant = 1};
  flatten(p, inner, x, &f);
  ab[0] = f.constant;
  return f.count == 1 && f.factors[0] == x ? EW_Swish : -1;
}

/* Replaces a product by an activation of register x, if it is one. */
static bool recognise(fused_program *p, int i, int x) {
  fused_step *s = &p->step[i];
  product f = {.constant = 1};
  flatten(p, p->inputs + i, x, &f);
  for (int k = 0; f.count == 2 && k < 2; k++) {
    if (f.factors[k] != x) continue;
    double ab[2];
    int row = activation_of(p, x, f.factors[1 - k], f.constant, ab);
    if (row < 0) continue;
    s->row = row;
    memcpy(s->ab, ab, sizeof ab);
    s->arg_count = 1;
    s->args[0] = (fused_arg){.reg = x};
    return true;
  }
  return false;
}

/* Squares without pow. */
static void square(fused_step *s) {
  if (s->row != EW_Pow || s->args[0].reg < 0 || s->args[1].reg >= 0 || s->args[1].number != 2) return;
  s->row = EW_Mul;
  s->args[1] = s->args[0];
}

static void drop_unused(fused_program *p) {
  bool used[FUSED_MAX_STEPS] = {false};
  int moved[FUSED_MAX_STEPS], kept = 0;
  used[p->steps - 1] = true;
  for (int i = p->steps - 1; i >= 0; i--) {
    for (int k = 0; used[i] && k < p->step[i].arg_count; k++) {
      if (p->step[i].args[k].reg >= p->inputs) used[p->step[i].args[k].reg - p->inputs] = true;
    }
  }
  for (int i = 0; i < p->steps; i++) {
    if (!used[i]) continue;
    fused_step s = p->step[i];
    for (int k = 0; k < s.arg_count; k++) {
      if (s.args[k].reg >= p->inputs) s.args[k].reg = p->inputs + moved[s.args[k].reg - p->inputs];
    }
    moved[i] = kept;
    p->step[kept++] = s;
  }
  p->steps = kept;
}

void fused_simplify(fused_program *p) {
  for (int i = 0; i < p->steps; i++) {
    int row = p->step[i].row;
    bool found = (row != EW_Mul && row != EW_Div) || p->step[i].type != RLX_FLOAT;
    for (int x = 0; !found && x < p->inputs + i; x++) found = recognise(p, i, x);
  }
  for (int i = 0; i < p->steps; i++) square(&p->step[i]);
  drop_unused(p);
}
