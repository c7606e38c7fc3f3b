/* import_node.c — NodeProto to a node, a constant, or the body of the function it calls. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/schema.h"

void node_parts_finish(node_parts *p) {
  vector_finish(&p->inputs);
  vector_finish(&p->outputs);
  vector_finish(&p->attributes);
  mem_free(p->op);
  *p = (node_parts){0};
}

static rlx_status take_apart(wire_span message, node_parts *p) {
  wire_reader r = wire_open(message, "NodeProto");
  wire_field f;
  bool room = true;
  while (room && wire_next(&r, &f)) {
    switch (f.number) {
      case NODE_INPUT: room = vector_push(&p->inputs, wire_name(&f)); break;
      case NODE_OUTPUT: room = vector_push(&p->outputs, wire_name(&f)); break;
      case NODE_ATTRIBUTE: room = vector_push(&p->attributes, wire_bytes(&f)); break;
      case NODE_NAME: p->name = wire_name(&f); break;
      case NODE_OP_TYPE: p->op_type = wire_name(&f); break;
      case NODE_DOMAIN: p->domain = wire_name(&f); break;
      case NODE_OVERLOAD: p->overload = wire_name(&f); break;
      default: break;
    }
  }
  if (!room) return status_no_memory(message.size);
  RLX_TRY(r.status);
  if (p->op_type.size == 0) return RLX_FAIL(INVALID, "node '%.*s' has no op_type", WIRE_TEXT(p->name));
  /* Optional operands left out at the end are as good as not written. */
  while (p->inputs.count && p->inputs.data[p->inputs.count - 1].size == 0) p->inputs.count--;
  while (p->outputs.count && p->outputs.data[p->outputs.count - 1].size == 0) p->outputs.count--;
  return RLX_OK;
}

rlx_status node_parts_read(wire_span message, node_parts *out) {
  *out = (node_parts){0};
  rlx_status status = take_apart(message, out);
  if (status == RLX_OK) {
    wire_span domain = domain_name(out->domain);
    out->op = mem_alloc(domain.size + out->op_type.size + 2);
    if (out->op) {
      memcpy(out->op, domain.data, domain.size);
      out->op[domain.size] = '.';
      memcpy(out->op + domain.size + 1, out->op_type.data, out->op_type.size);
      out->op[domain.size + 1 + out->op_type.size] = 0;
      return RLX_OK;
    }
    status = status_no_memory(domain.size + out->op_type.size + 2);
  }
  node_parts_finish(out);
  return status;
}

/* What the node costs, for the memory limit: tensors, lists and values are counted where they are made. */
static rlx_status count_cost(scope *s, const node_parts *p) {
  importer *im = s->importer;
  if (im->open_calls && ++im->inlined > MAX_INLINED) {
    return RLX_FAIL(UNSUPPORTED, "function calls expand to more than %d nodes", MAX_INLINED);
  }
  size_t bytes = 2 * sizeof(rlx_node) + 2 * (strlen(p->op) + p->name.size + strlen(s->prefix)) +
                 2 * sizeof(rlx_attr) * p->attributes.count + 16 * (p->inputs.count + p->outputs.count);
  return budget_take(&im->source.budget, (int64_t)bytes);
}

static rlx_status find_inputs(scope *s, const node_parts *p, rlx_value **inputs) {
  for (size_t i = 0; i < p->inputs.count; i++) {
    wire_span name = p->inputs.data[i];
    if (name.size == 0) continue;
    rlx_value *v = scope_find(s, name);
    if (!v) return RLX_FAIL(INVALID, "input %zu is '%.*s', which nothing defines", i, WIRE_TEXT(name));
    inputs[i] = v == &scope_absent ? NULL : v;
  }
  return RLX_OK;
}

/* The values declared for the outputs; those left out get one nobody can name. */
static rlx_status find_outputs(scope *s, const node_parts *p, rlx_value **outputs) {
  for (size_t i = 0; i < p->outputs.count; i++) {
    wire_span name = p->outputs.data[i];
    if (name.size == 0)
      RLX_TRY(scope_add(s, name, &outputs[i]));
    else
      outputs[i] = map_get_bytes(&s->names, name.data, name.size);
  }
  return RLX_OK;
}

static rlx_status same_name(const rlx_attr *attrs, size_t count) {
  for (size_t i = 0; i + 1 < count; i++) {
    if (strcmp(attrs[i].name, attrs[count - 1].name) == 0) {
      return RLX_FAIL(INVALID, "attribute '%s' is given twice", attrs[i].name);
    }
  }
  return RLX_OK;
}

static rlx_status read_attrs(scope *s, const node_parts *p, arena *scratch, rlx_attr *attrs, size_t *count) {
  for (size_t i = 0; i < p->attributes.count; i++) {
    bool present;
    RLX_TRY(attr_read(s, s->graph, scratch, p->attributes.data[i], &attrs[*count], &present));
    if (!present) continue;
    ++*count;
    RLX_TRY(same_name(attrs, *count));
  }
  return RLX_OK;
}

/* A Constant is a way of writing a constant: no node is made. */
static rlx_status set_constant(scope *s, const rlx_attr *attrs, size_t count, rlx_value *v) {
  rlx_tensor *t;
  RLX_TRY(constant_read(s, attrs, count, &t));
  v->constant = t;
  rlx_tensor_type(t, &v->type);
  return RLX_OK;
}

static rlx_status add_node(scope *s, const node_parts *p, arena *scratch, const rlx_attr *attrs, size_t count) {
  rlx_value **inputs = arena_array(scratch, p->inputs.count, sizeof *inputs);
  rlx_value **outputs = arena_array(scratch, p->outputs.count, sizeof *outputs);
  char *name =
      arena_printf(scratch, "%s%.*s", s->prefix, (int)p->name.size, p->name.size ? (const char *)p->name.data : "");
  if (!inputs || !outputs || !name) return status_no_memory(16 * (p->inputs.count + p->outputs.count));
  RLX_TRY(find_inputs(s, p, inputs));
  RLX_TRY(find_outputs(s, p, outputs));
  if (strcmp(p->op, "onnx.Constant") == 0) {
    if (p->outputs.count != 1 || p->inputs.count) return RLX_FAIL(INVALID, "takes no inputs and gives one output");
    return set_constant(s, attrs, count, outputs[0]);
  }
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = p->op,
                        .name = p->name.size ? name : NULL,
                        .inputs = inputs,
                        .input_count = (int)p->inputs.count,
                        .attrs = attrs,
                        .attr_count = (int)count,
                        .output_count = (int)p->outputs.count};
  return scope_add_node(s, &desc, outputs);
}

static rlx_status import_plain(scope *s, const node_parts *p) {
  if (memchr(p->op_type.data, '.', p->op_type.size)) { /* ops are called DOMAIN.NAME: it would move into the domain */
    return RLX_FAIL(INVALID, "op_type '%.*s' has a dot in it", WIRE_TEXT(p->op_type));
  }
  arena scratch = {0};
  size_t count = 0;
  rlx_attr *attrs = arena_array(&scratch, p->attributes.count, sizeof *attrs);
  rlx_status status =
      attrs ? read_attrs(s, p, &scratch, attrs, &count) : status_no_memory(p->attributes.count * sizeof *attrs);
  if (status == RLX_OK) status = add_node(s, p, &scratch, attrs, count);
  for (size_t i = 0; i < count; i++) attr_finish(&attrs[i]);
  arena_finish(&scratch);
  return status;
}

rlx_status import_node(scope *s, const node_parts *p) {
  if (p->inputs.count > INT32_MAX || p->outputs.count > INT32_MAX || p->attributes.count > 0xffff) {
    return RLX_FAIL(UNSUPPORTED, "%zu inputs, %zu outputs, %zu attributes", p->inputs.count, p->outputs.count,
                    p->attributes.count);
  }
  RLX_TRY(count_cost(s, p));
  const function *f;
  RLX_TRY(function_find(s, p, &f));
  return f ? import_call(s, p, f) : import_plain(s, p);
}
