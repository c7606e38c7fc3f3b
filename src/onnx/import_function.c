/* import_function.c — model-local functions: read once, put in the place of each call. */
#include <string.h>

#include "ir/registry.h"
#include "onnx/import.h"
#include "onnx/schema.h"

static void function_destroy(function *f) {
  if (!f) return;
  vector_finish(&f->inputs);
  vector_finish(&f->outputs);
  vector_finish(&f->attributes);
  vector_finish(&f->defaults);
  vector_finish(&f->nodes);
  vector_finish(&f->opsets);
  mem_free(f);
}

void functions_finish(importer *im) {
  for (size_t i = 0; i < im->functions.count; i++) function_destroy(im->functions.data[i]);
  vector_finish(&im->functions);
  map_finish(&im->function_names);
}

/* "acme.Gate", with an overload "acme.Gate:v2". */
static char *full_name(arena *memory, wire_span domain, wire_span name, wire_span overload) {
  domain = domain_name(domain);
  return arena_printf(memory, "%.*s.%.*s%s%.*s", (int)domain.size, (const char *)domain.data, (int)name.size,
                      name.size ? (const char *)name.data : "", overload.size ? ":" : "", (int)overload.size,
                      overload.size ? (const char *)overload.data : "");
}

static rlx_status take_apart(importer *im, wire_span message, function *fn) {
  wire_reader r = wire_open(message, "FunctionProto");
  wire_field f;
  wire_span name = {0}, domain = {0}, overload = {0};
  graph_opset opset;
  bool room = true;
  while (room && wire_next(&r, &f)) {
    switch (f.number) {
      case FUNCTION_NAME: name = wire_name(&f); break;
      case FUNCTION_DOMAIN: domain = wire_name(&f); break;
      case FUNCTION_OVERLOAD: overload = wire_name(&f); break;
      case FUNCTION_INPUT: room = vector_push(&fn->inputs, wire_name(&f)); break;
      case FUNCTION_OUTPUT: room = vector_push(&fn->outputs, wire_name(&f)); break;
      case FUNCTION_ATTRIBUTE: room = vector_push(&fn->attributes, wire_name(&f)); break;
      case FUNCTION_ATTRIBUTE_PROTO: room = vector_push(&fn->defaults, wire_bytes(&f)); break;
      case FUNCTION_NODE: room = vector_push(&fn->nodes, wire_bytes(&f)); break;
      case FUNCTION_OPSET_IMPORT:
        RLX_TRY(opset_read(wire_bytes(&f), &im->memory, &opset));
        room = vector_push(&fn->opsets, opset);
        break;
      default: break;
    }
  }
  RLX_TRY(r.status);
  fn->name = full_name(&im->memory, domain, name, overload);
  if (!room || !fn->name) return status_no_memory(message.size);
  return name.size ? RLX_OK : RLX_FAIL(INVALID, "a function has no name");
}

static rlx_status check(const importer *im, const function *f) {
  if (map_get(&im->function_names, f->name)) return RLX_FAIL(INVALID, "is defined twice");
  for (size_t i = 0; i < f->inputs.count; i++) {
    if (f->inputs.data[i].size == 0) return RLX_FAIL(INVALID, "input %zu has no name", i);
  }
  for (size_t i = 0; i < f->outputs.count; i++) {
    if (f->outputs.data[i].size == 0) return RLX_FAIL(INVALID, "output %zu has no name", i);
  }
  return RLX_OK;
}

static rlx_status keep(importer *im, function *f) {
  if (!vector_reserve(&im->functions, im->functions.count + 1) || !map_put(&im->function_names, f->name, f)) {
    return status_no_memory(sizeof f);
  }
  (void)vector_push(&im->functions, f);
  return RLX_OK;
}

rlx_status function_read(importer *im, wire_span message) {
  RLX_TRY(budget_take(&im->source.budget, (int64_t)sizeof(function) + (int64_t)message.size));
  function *f = mem_zalloc(sizeof *f);
  if (!f) return status_no_memory(sizeof *f);
  rlx_status status = take_apart(im, message, f);
  if (status == RLX_OK) status = check(im, f);
  if (status == RLX_OK) status = keep(im, f);
  if (status == RLX_OK) return RLX_OK;
  const char *name = f->name ? f->name : "?";
  function_destroy(f);
  return status_prefix(status, "function '%s'", name);
}

rlx_status function_find(const scope *s, const node_parts *p, const function **out) {
  const importer *im = s->importer;
  *out = NULL;
  if (im->functions.count == 0) return RLX_OK;
  arena scratch = {0};
  const char *name = full_name(&scratch, p->domain, p->op_type, p->overload);
  const function *f = name ? map_get(&im->function_names, name) : NULL;
  rlx_status status = name ? RLX_OK : status_no_memory(p->op_type.size);
  arena_finish(&scratch);
  if (!f) return status;
  op_entry *op = registry_find_op(im->registry, p->op, scope_opset(s, p->op));
  if (!op) *out = f;
  op_entry_release(op);
  return RLX_OK;
}

/* ---- calls -------------------------------------------------------------------------------- */

static bool listed(const span_list *list, wire_span name) {
  for (size_t i = 0; i < list->count; i++) {
    if (list->data[i].size == name.size && memcmp(list->data[i].data, name.data, name.size) == 0) return true;
  }
  return false;
}

static rlx_status has_default(const function *f, wire_span name, bool *out) {
  *out = false;
  for (size_t i = 0; i < f->defaults.count && !*out; i++) {
    wire_span other;
    RLX_TRY(attr_name(f->defaults.data[i], &other));
    *out = other.size == name.size && (name.size == 0 || memcmp(other.data, name.data, name.size) == 0);
  }
  return RLX_OK;
}

static rlx_status read_arguments(const node_parts *p, const function *f, argument *arguments) {
  for (size_t i = 0; i < p->attributes.count; i++) {
    argument *a = &arguments[i];
    bool known;
    a->message = p->attributes.data[i];
    RLX_TRY(attr_name(a->message, &a->name));
    RLX_TRY(has_default(f, a->name, &known));
    if (a->name.size == 0 || (!known && !listed(&f->attributes, a->name))) {
      return RLX_FAIL(INVALID, "the function has no attribute '%.*s'", WIRE_TEXT(a->name));
    }
    for (size_t k = 0; k < i; k++) {
      if (arguments[k].name.size == a->name.size && memcmp(arguments[k].name.data, a->name.data, a->name.size) == 0) {
        return RLX_FAIL(INVALID, "attribute '%.*s' is given twice", WIRE_TEXT(a->name));
      }
    }
  }
  return RLX_OK;
}

static rlx_status bind_inputs(scope *s, scope *body, const node_parts *p, const function *f) {
  if (p->inputs.count > f->inputs.count) {
    return RLX_FAIL(INVALID, "%zu inputs, and the function has %zu", p->inputs.count, f->inputs.count);
  }
  for (size_t i = 0; i < f->inputs.count; i++) {
    wire_span name = f->inputs.data[i];
    rlx_value *v = &scope_absent;
    if (i < p->inputs.count && p->inputs.data[i].size) v = scope_find(s, p->inputs.data[i]);
    if (!v) return RLX_FAIL(INVALID, "input %zu is '%.*s', which nothing defines", i, WIRE_TEXT(p->inputs.data[i]));
    if (map_get_bytes(&body->names, name.data, name.size)) {
      return RLX_FAIL(INVALID, "the function has two inputs '%.*s'", WIRE_TEXT(name));
    }
    if (!map_put_bytes(&body->names, name.data, name.size, v)) return status_no_memory(name.size);
  }
  return RLX_OK;
}

/* The caller's value of output i, made before; NULL if it is left out. */
static rlx_value *caller_output(scope *s, const node_parts *p, size_t i) {
  wire_span name = p->outputs.data[i];
  return name.size ? map_get_bytes(&s->names, name.data, name.size) : NULL;
}

/* Nodes of the body make the caller's values themselves. */
static rlx_status bind_outputs(scope *s, scope *body, const node_parts *p, const function *f) {
  if (p->outputs.count > f->outputs.count) {
    return RLX_FAIL(INVALID, "%zu outputs, and the function has %zu", p->outputs.count, f->outputs.count);
  }
  for (size_t i = 0; i < p->outputs.count; i++) {
    rlx_value *v = caller_output(s, p, i);
    wire_span name = f->outputs.data[i];
    bool taken = map_get_bytes(&body->names, name.data, name.size) || map_get_bytes(&body->bound, name.data, name.size);
    if (v && !taken && !map_put_bytes(&body->bound, name.data, name.size, v)) return status_no_memory(name.size);
  }
  return RLX_OK;
}

/* An output that is an input of the function, or comes twice, is a copy. */
static rlx_status copy_outputs(scope *s, scope *body, const node_parts *p, const function *f) {
  for (size_t i = 0; i < p->outputs.count; i++) {
    rlx_value *v = caller_output(s, p, i);
    wire_span name = f->outputs.data[i];
    rlx_value *made = map_get_bytes(&body->names, name.data, name.size);
    if (!v || made == v) continue;
    if (!made || made == &scope_absent)
      return RLX_FAIL(INVALID, "output '%.*s' of the function has no value", WIRE_TEXT(name));
    RLX_TRY(scope_copy_value(body, made, v));
  }
  return RLX_OK;
}

/* Domains only the function imports become known to the whole graph, which then can be printed. */
static rlx_status import_domains(const scope *s, const function *f) {
  rlx_graph *root = s->graph;
  while (root->parent) root = root->parent;
  for (size_t i = 0; i < f->opsets.count; i++) {
    const graph_opset *o = &f->opsets.data[i];
    if (!graph_opset_version(root, o->domain, strlen(o->domain))) rlx_graph_set_opset(root, o->domain, o->version);
  }
  return rlx_graph_status(root);
}

static rlx_status expand(scope *s, const node_parts *p, call *c, argument *arguments) {
  const function *f = c->function;
  arena *memory = &s->graph->memory;
  RLX_TRY(read_arguments(p, f, arguments));
  RLX_TRY(import_domains(s, f));
  const char *label = p->name.size ? arena_strndup(memory, (const char *)p->name.data, p->name.size) : f->name;
  const char *prefix = label ? arena_printf(memory, "%s%s/", s->prefix, label) : NULL;
  if (!prefix) return status_no_memory(p->name.size);
  RLX_TRY(budget_take(&s->importer->source.budget, (int64_t)(strlen(prefix) + p->name.size + 32)));
  scope body = {
      .importer = s->importer, .call = c, .graph = s->graph, .prefix = prefix, .origin = s->origin ? s->origin : label};
  rlx_status status = bind_inputs(s, &body, p, f);
  if (status == RLX_OK) status = bind_outputs(s, &body, p, f);
  if (status == RLX_OK) status = import_nodes(&body, &f->nodes);
  if (status == RLX_OK) status = copy_outputs(s, &body, p, f);
  scope_finish(&body);
  return status;
}

rlx_status import_call(scope *s, const node_parts *p, const function *f) {
  importer *im = s->importer;
  for (const call *c = s->call; c; c = c->site->call) {
    if (c->function == f) return RLX_FAIL(INVALID, "function '%s' calls itself", f->name);
  }
  if (im->level >= MAX_LEVELS) return RLX_FAIL(UNSUPPORTED, "more than %d levels of graphs and functions", MAX_LEVELS);
  argument *arguments = mem_array(p->attributes.count, sizeof *arguments);
  if (!arguments) return status_no_memory(p->attributes.count * sizeof *arguments);
  call c = {.function = f, .arguments = arguments, .argument_count = p->attributes.count, .site = s};
  im->level++;
  im->open_calls++;
  rlx_status status = expand(s, p, &c, arguments);
  im->open_calls--;
  im->level--;
  mem_free(arguments);
  return status;
}
