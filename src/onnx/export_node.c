/* export_node.c — nodes and attributes to NodeProto and AttributeProto. */
#include <string.h>

#include "ir/registry.h"
#include "onnx/export.h"
#include "onnx/schema.h"

static void put_list(exporter *e, wire_writer *w, const rlx_attr *a) {
  for (size_t i = 0; i < a->count; i++) {
    if (a->kind == RLX_ATTR_STRINGS) wire_put_bytes(w, ATTRIBUTE_STRINGS, a->strings[i].data, a->strings[i].size);
    if (a->kind == RLX_ATTR_TENSORS) export_tensor(e, w, ATTRIBUTE_TENSORS, a->tensors[i], NULL);
    if (a->kind == RLX_ATTR_TYPES) export_type(e, w, ATTRIBUTE_TYPE_PROTOS, &a->types[i], NULL);
  }
}

static rlx_status put_value(exporter *e, wire_writer *w, const rlx_attr *a) {
  switch (a->kind) {
    case RLX_ATTR_FLOAT: wire_put_float(w, ATTRIBUTE_F, a->f); break;
    case RLX_ATTR_INT: wire_put_int(w, ATTRIBUTE_I, a->i); break;
    case RLX_ATTR_STRING:
    case RLX_ATTR_BYTES: wire_put_bytes(w, ATTRIBUTE_S, a->s.data, a->s.size); break;
    case RLX_ATTR_TENSOR: export_tensor(e, w, ATTRIBUTE_T, a->tensor, NULL); break;
    case RLX_ATTR_GRAPH: return export_graph(e, w, ATTRIBUTE_G, a->graph);
    case RLX_ATTR_FLOATS: wire_put_floats(w, ATTRIBUTE_FLOATS, a->floats, a->count); break;
    case RLX_ATTR_INTS: wire_put_ints(w, ATTRIBUTE_INTS, a->ints, a->count); break;
    case RLX_ATTR_STRINGS:
    case RLX_ATTR_TENSORS:
    case RLX_ATTR_TYPES: put_list(e, w, a); break;
    case RLX_ATTR_GRAPHS:
      for (size_t i = 0; i < a->count; i++) RLX_TRY(export_graph(e, w, ATTRIBUTE_GRAPHS, a->graphs[i]));
      break;
    case RLX_ATTR_TYPE: export_type(e, w, ATTRIBUTE_TP, a->types, NULL); break;
    default: return RLX_FAIL(UNSUPPORTED, "attribute '%s': kind %d cannot be written", a->name, (int)a->kind);
  }
  return RLX_OK;
}

static rlx_status put_attr(exporter *e, wire_writer *w, const rlx_attr *a) {
  wire_writer message = {0};
  wire_put_string(&message, ATTRIBUTE_NAME, a->name);
  rlx_status status = put_value(e, &message, a);
  wire_put_int(&message, ATTRIBUTE_TYPE, a->kind == RLX_ATTR_BYTES ? RLX_ATTR_STRING : a->kind);
  wire_put_message(w, NODE_ATTRIBUTE, &message);
  return status;
}

/* A file has one opset version a domain: nodes of others (inlined functions have some) must mean the same. */
static rlx_status check_opset(const rlx_node *n) {
  int version = graph_opset_version(n->graph, n->op_name, op_domain_length(n->op_name));
  if (n->opset == version || n->opset == 0 || version == 0) return RLX_OK;
  op_entry *op = registry_find_op(n->graph->registry, n->op_name, version);
  bool same = op && op == n->op;
  op_entry_release(op);
  if (same) return RLX_OK;
  return RLX_FAIL(UNSUPPORTED, "means version %d of the opset, and the model has version %d", n->opset, version);
}

static rlx_status put_ports(exporter *e, wire_writer *w, const rlx_node *n) {
  for (int i = 0; i < n->input_count; i++) {
    const char *name = n->inputs[i] ? export_name(e, n->inputs[i]) : "";
    if (!name) return status_no_memory(sizeof *n);
    wire_put_string(w, NODE_INPUT, name);
  }
  for (int i = 0; i < n->output_count; i++) {
    const char *name = export_name(e, n->outputs[i]);
    if (!name) return status_no_memory(sizeof *n);
    wire_put_string(w, NODE_OUTPUT, name);
  }
  return RLX_OK;
}

static rlx_status fill(exporter *e, wire_writer *w, const rlx_node *n) {
  size_t length = op_domain_length(n->op_name);
  bool standard = length == 4 && memcmp(n->op_name, "onnx", 4) == 0;
  RLX_TRY(check_opset(n));
  RLX_TRY(put_ports(e, w, n));
  wire_put_string(w, NODE_NAME, n->name);
  wire_put_string(w, NODE_OP_TYPE, n->op_name + length + 1);
  if (!standard) wire_put_bytes(w, NODE_DOMAIN, n->op_name, length);
  for (int i = 0; i < n->attr_count; i++) RLX_TRY(put_attr(e, w, &n->attrs[i]));
  return RLX_OK;
}

rlx_status export_node(exporter *e, wire_writer *w, const rlx_node *n) {
  wire_writer message = {0};
  rlx_status status = fill(e, &message, n);
  wire_put_message(w, GRAPH_NODE, &message);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
}

void export_identity(wire_writer *w, const char *from, const char *to) {
  wire_writer message = {0};
  wire_put_string(&message, NODE_INPUT, from);
  wire_put_string(&message, NODE_OUTPUT, to);
  wire_put_string(&message, NODE_OP_TYPE, "Identity");
  wire_put_message(w, GRAPH_NODE, &message);
}
