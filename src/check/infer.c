/* infer.c — shape inference against the run: what it says while little is known must hold. */
#include <string.h>

#include "check/check.h"
#include "ir/infer.h"
#include "ir/shape.h"

/* What inference may know. */
typedef struct knowledge {
  const char *name;
  bool (*knows)(int input, int dim);
  bool ranks, values;
} knowledge;

static bool all(int input, int dim) {
  (void)input, (void)dim;
  return true;
}
static bool none(int input, int dim) {
  (void)input, (void)dim;
  return false;
}
static bool odd_dims(int input, int dim) {
  (void)input;
  return dim & 1;
}
static bool even_dims(int input, int dim) {
  (void)input;
  return !(dim & 1);
}
static bool first_input(int input, int dim) {
  (void)dim;
  return input == 0;
}
static bool other_inputs(int input, int dim) {
  (void)dim;
  return input != 0;
}

static const knowledge levels[] = {
    {"everything known", all, true, true},         {"contents unknown", all, true, false},
    {"no dim known", none, true, false},           {"odd dims known", odd_dims, true, false},
    {"even dims known", even_dims, true, false},   {"only input 0 known", first_input, true, true},
    {"input 0 unknown", other_inputs, true, true}, {"no rank known", none, false, false},
};

typedef struct asking {
  const check_case *k;
  const knowledge *level;
} asking;

static const rlx_tensor *tell(void *user, const rlx_node *n, int i) {
  const asking *a = user;
  const rlx_value *v = n->inputs[i];
  if (v->constant) return v->constant;
  for (int j = 0; j < a->k->input_count && a->level->values; j++)
    if (a->k->graph->inputs.data[j] == v && a->level->knows(i, 0)) return a->k->inputs[j];
  return NULL;
}

static void blur(const check_case *k, const knowledge *level, rlx_type *types, const rlx_type **inputs) {
  for (int i = 0; i < k->node->input_count; i++) {
    const rlx_value *v = k->node->inputs[i];
    if (!v) continue;
    types[i] = v->type;
    inputs[i] = &types[i];
    if (v->constant || v->type.kind != RLX_KIND_TENSOR) continue;
    for (int d = 0; d < types[i].rank; d++)
      if (!level->knows(i, d)) types[i].dims[d] = RLX_UNKNOWN;
    if (!level->ranks) types[i].rank = RLX_UNKNOWN;
  }
}

static void check_level(checker *c, check_case *k, const knowledge *level) {
  arena memory = {0};
  asking a = {k, level};
  size_t ins = (size_t)k->node->input_count, outs = (size_t)k->node->output_count;
  rlx_type *types = arena_array(&memory, ins, sizeof *types), *said = arena_array(&memory, outs, sizeof *said);
  const rlx_type **inputs = arena_array(&memory, ins, sizeof *inputs);
  if (types && said && inputs) {
    blur(k, level, types, inputs);
    struct rlx_infer context = {.node = k->node, .inputs = inputs, .outputs = said, .value = tell, .user = &a};
    rlx_status status = infer_node(&context);
    if (status != RLX_OK) {
      check_failed(c, "%s: inference fails where the node runs: %s", level->name, rlx_error_message());
    } else {
      bool good = true;
      for (int i = 0; i < k->output_count && good; i++) {
        char wrong[300], right[300];
        rlx_type is;
        rlx_tensor_type(k->expected[i], &is);
        good = type_admits(&said[i], &is) || said[i].kind != RLX_KIND_TENSOR;
        if (!good)
          check_failed(c, "%s: output %d is inferred as %s and comes as %s", level->name, i,
                       type_text(&said[i], wrong, sizeof wrong), type_text(&is, right, sizeof right));
      }
      if (good) check_passed(c, 0, 0);
    }
  }
  arena_finish(&memory);
}

void check_infer(checker *c, check_case *k) {
  if (node_subgraph(k->node, 0)) return; /* inferred together with what is inside: by sessions only */
  if (!check_begin(c, "infer", "", false)) return;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) check_level(c, k, &levels[i]);
}
