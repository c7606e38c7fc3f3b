/* fuse.c — pass fuse: chains and trees of elementwise nodes become one rlx.fused node each. */
#include <string.h>

#include "base/text.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "ops/_cast.h"
#include "ops/_fused.h"
#include "pass/native.h"
#include "pass/pass.h"

/* Nodes that become one: `root` gives the result, the others feed it and nothing else. */
typedef struct region {
  rlx_node *nodes[FUSED_MAX_STEPS];
  int count;
} region;

/* A region as a program. */
typedef struct build {
  const int *rows; /* per node: its row, FUSED_CAST or -1 */
  fused_program program;
  rlx_value *inputs[FUSED_MAX_INPUTS];
  rlx_value *made[FUSED_MAX_STEPS]; /* by step */
} build;

typedef struct fuser {
  rlx_graph *g;
  arena memory;
  const uint32_t *uses; /* per value */
  bool *fusable;        /* per node: alone it makes a valid program */
  bool *taken;          /* per node: in a region that was fused */
} fuser;

/* ---- a region's program ---- */

static bool is_half(rlx_dtype dtype) { return dtype == RLX_FLOAT16 || dtype == RLX_BFLOAT16; }

static int find_register(const build *b, const rlx_value *v) {
  for (int i = b->program.steps; i-- > 0;) {
    if (b->made[i] == v) return b->program.inputs + i;
  }
  for (int i = 0; i < b->program.inputs; i++) {
    if (b->inputs[i] == v) return i;
  }
  return -1;
}

static bool made_inside(const region *r, const rlx_value *v) {
  for (int i = 0; i < r->count; i++) {
    if (v->producer == r->nodes[i]) return true;
  }
  return false;
}

/* A one-element constant that can be written as a number: another operand gives the type and at least the rank, and
 * the number survives being a double. */
static bool as_number(const rlx_node *n, int input, bool pick) {
  const rlx_tensor *t = n->inputs[input]->constant;
  if (t == NULL || t->count != 1 || (pick && input == 0)) return false;
  if (!(RLX_SET_NUMBERS >> t->dtype & 1)) return false;
  if (dtype_size(t->dtype) == 8 && dtype_is_integer(t->dtype)) {
    int64_t value = dtype_load_int(t->dtype, t->data, 0);
    if (value > INT64_C(1) << 53 || value < -(INT64_C(1) << 53)) return false;
  }
  for (int k = pick; k < n->input_count; k++) {
    const rlx_value *v = n->inputs[k];
    if (k != input && v && !v->constant && v->type.dtype == t->dtype && v->type.rank >= t->rank) return true;
  }
  return false;
}

static bool add_inputs(build *b, const region *r, const rlx_node *n, bool pick) {
  for (int k = 0; k < n->input_count; k++) {
    rlx_value *v = n->inputs[k];
    if (v == NULL || made_inside(r, v) || as_number(n, k, pick) || find_register(b, v) >= 0) continue;
    if (b->program.inputs == FUSED_MAX_INPUTS) return false;
    b->program.input_types[b->program.inputs] = v->type.dtype;
    b->inputs[b->program.inputs++] = v;
  }
  return true;
}

static fused_arg argument(const build *b, const rlx_node *n, int k, bool pick) {
  const rlx_value *v = n->inputs[k];
  if (as_number(n, k, pick)) return (fused_arg){.reg = -1, .number = dtype_load(v->type.dtype, v->constant->data, 0)};
  return (fused_arg){.reg = find_register(b, v)};
}

static bool push(build *b, fused_step s, rlx_value *result) {
  if (b->program.steps == FUSED_MAX_STEPS) return false;
  b->made[b->program.steps] = result;
  b->program.step[b->program.steps++] = s;
  return true;
}

static fused_step cast_step(fused_arg from, rlx_dtype to) {
  return (fused_step){.row = FUSED_CAST, .arg_count = 1, .args = {from}, .result = to};
}

static fused_arg last_step(const build *b) { return (fused_arg){.reg = b->program.inputs + b->program.steps - 1}; }

/* A bound that Clip leaves out. */
static fused_arg extreme(rlx_dtype dtype, int which) {
  uint64_t value = 0;
  ew_extreme(dtype, which, &value);
  return (fused_arg){.reg = -1, .number = dtype_load(dtype, &value, 0)};
}

/* Inputs two by two, then Mean's division. */
static bool add_variadic(build *b, const rlx_node *n, int row) {
  if (n->input_count < 2) return false;
  rlx_value *result = n->outputs[0];
  fused_step s = {.row = row == EW_Mean ? EW_Sum : row, .arg_count = 2};
  s.args[0] = argument(b, n, 0, false);
  for (int k = 1; k < n->input_count; k++) {
    s.args[1] = argument(b, n, k, false);
    bool last = k == n->input_count - 1 && ew_rows[row].kind != EW_MEAN;
    if (!push(b, s, last ? result : NULL)) return false;
    s.args[0] = last_step(b);
  }
  if (ew_rows[row].kind != EW_MEAN) return true;
  s.row = EW_Div;
  s.args[1] = (fused_arg){.reg = -1, .number = n->input_count};
  return push(b, s, result);
}

/* A cast to half floats rounds, and what follows computes with float again. */
static bool add_cast(build *b, const rlx_node *n) {
  const cast_params *p = n->params;
  rlx_dtype to = n->outputs[0]->type.dtype;
  if (!p->saturate && dtype_size(to) == 1) return false; /* a program's casts saturate */
  fused_arg from = argument(b, n, 0, false);
  if (!is_half(to)) return push(b, cast_step(from, to), n->outputs[0]);
  return push(b, cast_step(from, to), NULL) && push(b, cast_step(last_step(b), RLX_FLOAT), n->outputs[0]);
}

static bool add_node(build *b, const rlx_node *n) {
  int row = b->rows[n->id];
  if (row == FUSED_CAST) return add_cast(b, n);
  const ew_info *info = &ew_rows[row];
  if (info->arity == EW_ARITY_N) return add_variadic(b, n, row);
  fused_step s = {.row = row, .arg_count = info->arity};
  if (ew_numbers(NULL, (ew_row)row, n->params, s.ab) != RLX_OK) return false;
  for (int k = 0; k < info->arity; k++) {
    bool given = k < n->input_count && n->inputs[k] != NULL;
    if (!given && info->kind != EW_CLAMP) return false;
    s.args[k] = given ? argument(b, n, k, info->kind == EW_PICK) : extreme(n->inputs[0]->type.dtype, k - 1);
  }
  return push(b, s, n->outputs[0]);
}

/* Half floats are computed with as float: widened when they come in, rounded once when the result goes out. */
static bool widen_inputs(build *b) {
  for (int i = 0; i < b->program.inputs; i++) {
    if (!is_half(b->program.input_types[i])) continue;
    if (!push(b, cast_step((fused_arg){.reg = i}, RLX_FLOAT), b->inputs[i])) return false;
  }
  return true;
}

static bool narrow_result(build *b, rlx_dtype dtype) {
  return !is_half(dtype) || push(b, cast_step(last_step(b), dtype), NULL);
}

/* False if the region makes no valid program. Nodes are in topological order by id. */
static bool build_program(const region *r, build *b) {
  b->program.inputs = b->program.steps = 0;
  for (int i = 0; i < r->count; i++) {
    if (!add_inputs(b, r, r->nodes[i], b->rows[r->nodes[i]->id] == EW_Where)) return false;
  }
  if (!widen_inputs(b)) return false;
  for (int i = 0; i < r->count; i++) {
    if (!add_node(b, r->nodes[i])) return false;
  }
  if (!narrow_result(b, r->nodes[r->count - 1]->outputs[0]->type.dtype)) return false;
  return b->program.inputs > 0 && fused_check(&b->program) == NULL;
}

/* ---- which nodes ---- */

static int row_of(const rlx_node *n) {
  if (!n->op) return -1;
  return strcmp(n->op->op.name, "onnx.Cast") == 0 ? FUSED_CAST : ew_find(n->op->op.name);
}

/* Shapes, indices and conditions are small, and wanted on the host: they stay as they are. */
static bool is_host_like(const rlx_type *t) {
  if (t->dtype == RLX_BOOL) return t->rank == 0;
  return (t->dtype == RLX_INT64 || t->dtype == RLX_INT32) && t->rank <= 1;
}

static bool is_fusable(const rlx_node *n, build *scratch) {
  if (!n->op || !n->op->builtin || !node_is_own(n) || n->output_count != 1) return false;
  if (scratch->rows[n->id] < 0 || !n->op->op.eval || n->outputs[0]->type.rank == RLX_UNKNOWN ||
      is_host_like(&n->outputs[0]->type)) {
    return false;
  }
  for (int k = 0; k < n->input_count; k++) {
    if (n->inputs[k] && n->inputs[k]->type.rank == RLX_UNKNOWN) return false;
  }
  return build_program(&(region){.nodes = {(rlx_node *)n}, .count = 1}, scratch);
}

/* Would computing `inner` once per element of `outer` repeat no work, as far as is known? */
static bool same_size(const rlx_type *inner, const rlx_type *outer) {
  if (inner->rank != outer->rank) return false;
  for (int d = 0; d < inner->rank; d++) {
    int64_t a = inner->dims[d], b = outer->dims[d];
    if (a != b && ((a != RLX_UNKNOWN && b != RLX_UNKNOWN) || a == 1)) return false;
  }
  return true;
}

static bool contains(const region *r, const rlx_node *n) {
  for (int i = 0; i < r->count; i++) {
    if (r->nodes[i] == n) return true;
  }
  return false;
}

static uint32_t uses_inside(const region *r, const rlx_value *v) {
  uint32_t count = 0;
  for (int i = 0; i < r->count; i++) {
    for (int k = 0; k < r->nodes[i]->input_count; k++) count += r->nodes[i]->inputs[k] == v;
  }
  return count;
}

/* Keeps nodes ordered by id. */
static void insert(region *r, rlx_node *n) {
  int i = r->count++;
  for (; i > 0 && r->nodes[i - 1]->id > n->id; i--) r->nodes[i] = r->nodes[i - 1];
  r->nodes[i] = n;
}

static void erase(region *r, const rlx_node *n) {
  int kept = 0;
  for (int i = 0; i < r->count; i++) {
    if (r->nodes[i] != n) r->nodes[kept++] = r->nodes[i];
  }
  r->count = kept;
}

static bool may_join(const fuser *f, const region *r, const rlx_value *v, const rlx_node *root) {
  const rlx_node *p = v ? v->producer : NULL;
  if (!p || p->graph != f->g || r->count == FUSED_MAX_STEPS || !f->fusable[p->id] || f->taken[p->id]) return false;
  return !contains(r, p) && f->uses[v->id] == uses_inside(r, v) && same_size(&v->type, &root->outputs[0]->type);
}

/* Tries to take in each producer of r->nodes[at]; true if any came. */
static bool grow_at(const fuser *f, const rlx_node *root, int at, region *r, build *b) {
  const rlx_node *n = r->nodes[at];
  bool grown = false;
  for (int k = 0; k < n->input_count; k++) {
    if (!may_join(f, r, n->inputs[k], root)) continue;
    rlx_node *p = n->inputs[k]->producer;
    insert(r, p);
    if (build_program(r, b)) {
      grown = true;
    } else {
      erase(r, p);
    }
  }
  return grown;
}

/* Takes in producers until none fits any more; leaves the program in *b. */
static bool grow(const fuser *f, rlx_node *root, region *r, build *b) {
  *r = (region){.nodes = {root}, .count = 1};
  bool grown = true;
  while (grown) {
    grown = false;
    for (int left = 1; left <= r->count; left++) grown |= grow_at(f, root, r->count - left, r, b);
  }
  return r->count > 1 && build_program(r, b);
}

/* ---- replacing ---- */

static const char *join_origins(rlx_graph *g, const region *r) {
  text names = {0};
  for (int i = 0; i < r->count; i++) {
    const rlx_node *n = r->nodes[i];
    text_printf(&names, "%s%s", i ? ", " : "", n->origin ? n->origin : n->name);
  }
  const char *joined = names.failed ? NULL : arena_strdup(&g->memory, names.data);
  text_finish(&names);
  return joined;
}

static void forget(fuser *f, rlx_node *n) {
  f->taken[n->id] = true;
  selection_drop(n);
}

static rlx_status replace(fuser *f, const region *r, build *b, const target *t) {
  rlx_node *root = r->nodes[r->count - 1];
  fused_simplify(&b->program);
  const char *wrong = fused_check(&b->program);
  if (wrong) return RLX_FAIL(INTERNAL, "fusing up to node '%s': %s", root->name, wrong);
  text program = {0};
  fused_print(&b->program, &program);
  if (program.failed) {
    text_finish(&program);
    return status_no_memory(program.size);
  }
  rlx_attr attr = {.name = "program", .kind = RLX_ATTR_STRING, .s = {program.data, program.size}};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = "rlx.fused",
                        .name = root->name,
                        .inputs = b->inputs,
                        .input_count = b->program.inputs,
                        .attrs = &attr,
                        .attr_count = 1,
                        .output_count = 1};
  rlx_node *fused = graph_add_node(f->g, &desc, &root->outputs[0]);
  text_finish(&program);
  if (!fused) return rlx_graph_status(f->g);
  fused->origin = join_origins(f->g, r);
  if (!fused->origin) return status_no_memory(1);
  for (int i = 0; i < r->count; i++) forget(f, r->nodes[i]);
  return select_node(fused, t);
}

static rlx_status fuse_all(fuser *f, const target *t, bool *changed) {
  size_t count = f->g->nodes.count;
  build *b = arena_alloc(&f->memory, sizeof *b);
  int *rows = arena_array(&f->memory, count, sizeof *rows);
  f->uses = graph_use_counts(f->g, &f->memory);
  f->fusable = arena_array(&f->memory, count, sizeof *f->fusable);
  f->taken = arena_array(&f->memory, count, sizeof *f->taken);
  if (!b || !rows || !f->uses || !f->fusable || !f->taken) return status_no_memory(count);
  for (size_t i = 0; i < count; i++) rows[i] = row_of(f->g->nodes.data[i]);
  b->rows = rows;
  for (size_t i = 0; i < count; i++) f->fusable[i] = is_fusable(f->g->nodes.data[i], b);
  bool fused = false;
  for (size_t i = count; i-- > 0;) {
    region r;
    if (!f->fusable[i] || f->taken[i] || !grow(f, f->g->nodes.data[i], &r, b)) continue;
    RLX_TRY(replace(f, &r, b, t));
    fused = true;
  }
  if (!fused) return RLX_OK;
  *changed = true;
  bool *keep = arena_array(&f->memory, f->g->nodes.count, sizeof *keep);
  if (!keep) return status_no_memory(f->g->nodes.count);
  for (size_t i = 0; i < f->g->nodes.count; i++) keep[i] = i >= count || !f->taken[i];
  graph_remove_nodes(f->g, keep);
  return graph_sort(f->g);
}

rlx_status pass_fuse(rlx_graph *g, const target *t, bool *changed) {
  bool native;
  RLX_TRY(target_is_native(t, "rlx.fused", 1, &native));
  if (!native) return RLX_OK;
  graph_number(g);
  fuser f = {.g = g};
  rlx_status status = fuse_all(&f, t, changed);
  arena_finish(&f.memory);
  return status;
}
