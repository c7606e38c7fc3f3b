/* onnx_model.h — building ONNX models in tests, field by field, right ones and wrong ones. */
#ifndef TESTS_ONNX_MODEL_H
#define TESTS_ONNX_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rlx/rlx.h>

#include "ir/graph.h"
#include "onnx/schema.h"
#include "onnx/wire.h"

#define HELPER __attribute__((unused)) static

/* Puts each word of "a,b,,c" as a string field; "" puts none. */
HELPER void put_names(wire_writer *w, uint32_t number, const char *names) {
  while (*names) {
    size_t size = strcspn(names, ",");
    wire_put_bytes(w, number, names, size);
    names += size + (names[size] == ',');
  }
}

HELPER wire_writer begin_node(const char *op, const char *inputs, const char *outputs) {
  wire_writer n = {0};
  put_names(&n, NODE_INPUT, inputs);
  put_names(&n, NODE_OUTPUT, outputs);
  wire_put_string(&n, NODE_OP_TYPE, op);
  return n;
}

HELPER void put_node(wire_writer *graph, const char *op, const char *inputs, const char *outputs) {
  wire_writer n = begin_node(op, inputs, outputs);
  wire_put_message(graph, GRAPH_NODE, &n);
}

HELPER wire_writer begin_attr(const char *name, rlx_attr_kind kind) {
  wire_writer a = {0};
  wire_put_string(&a, ATTRIBUTE_NAME, name);
  wire_put_int(&a, ATTRIBUTE_TYPE, kind);
  return a;
}

HELPER void put_int_attr(wire_writer *node, const char *name, int64_t value) {
  wire_writer a = begin_attr(name, RLX_ATTR_INT);
  wire_put_int(&a, ATTRIBUTE_I, value);
  wire_put_message(node, NODE_ATTRIBUTE, &a);
}

HELPER void put_float_attr(wire_writer *node, const char *name, float value) {
  wire_writer a = begin_attr(name, RLX_ATTR_FLOAT);
  wire_put_float(&a, ATTRIBUTE_F, value);
  wire_put_message(node, NODE_ATTRIBUTE, &a);
}

HELPER void put_graph_attr(wire_writer *node, const char *name, wire_writer *graph) {
  wire_writer a = begin_attr(name, RLX_ATTR_GRAPH);
  wire_put_message(&a, ATTRIBUTE_G, graph);
  wire_put_message(node, NODE_ATTRIBUTE, &a);
}

HELPER void put_reference(wire_writer *node, const char *name, rlx_attr_kind kind, const char *to) {
  wire_writer a = begin_attr(name, kind);
  wire_put_string(&a, ATTRIBUTE_REF_ATTR_NAME, to);
  wire_put_message(node, NODE_ATTRIBUTE, &a);
}

/* shape: "2,N,?": numbers, symbols, unknown; NULL: no shape. */
HELPER wire_writer make_type(rlx_dtype dtype, const char *shape) {
  wire_writer tensor = {0}, type = {0}, dims = {0};
  wire_put_int(&tensor, TENSOR_TYPE_ELEM, dtype);
  for (const char *s = shape; s && *s;) {
    wire_writer dim = {0};
    size_t size = strcspn(s, ",");
    if (*s == '-' || (*s >= '0' && *s <= '9'))
      wire_put_int(&dim, DIM_VALUE, strtoll(s, NULL, 10));
    else if (*s != '?')
      wire_put_bytes(&dim, DIM_PARAM, s, size);
    wire_put_message(&dims, SHAPE_DIM, &dim);
    s += size + (s[size] == ',');
  }
  if (shape) wire_put_message(&tensor, TENSOR_TYPE_SHAPE, &dims);
  wire_put_message(&type, TYPE_TENSOR, &tensor);
  return type;
}

HELPER void put_value(wire_writer *graph, uint32_t number, const char *name, rlx_dtype dtype, const char *shape) {
  wire_writer value = {0}, type = make_type(dtype, shape);
  wire_put_string(&value, VALUE_NAME, name);
  wire_put_message(&value, VALUE_TYPE, &type);
  wire_put_message(graph, number, &value);
}

HELPER wire_writer begin_tensor(const char *name, rlx_dtype dtype, const char *dims) {
  wire_writer t = {0};
  if (name) wire_put_string(&t, TENSOR_NAME, name);
  wire_put_int(&t, TENSOR_DATA_TYPE, dtype);
  for (const char *s = dims; *s; s += strcspn(s, ","), s += *s == ',') {
    wire_put_int(&t, TENSOR_DIMS, strtoll(s, NULL, 10));
  }
  return t;
}

HELPER void put_floats(wire_writer *graph, const char *name, const char *dims, const float *data, size_t count) {
  wire_writer t = begin_tensor(name, RLX_FLOAT, dims);
  wire_put_bytes(&t, TENSOR_RAW_DATA, data, count * sizeof *data);
  wire_put_message(graph, GRAPH_INITIALIZER, &t);
}

HELPER void put_external(wire_writer *tensor, const char *key, const char *value) {
  wire_writer entry = {0};
  wire_put_string(&entry, ENTRY_KEY, key);
  wire_put_string(&entry, ENTRY_VALUE, value);
  wire_put_message(tensor, TENSOR_EXTERNAL_DATA, &entry);
}

HELPER void put_opset(wire_writer *w, uint32_t number, const char *domain, int64_t version) {
  wire_writer o = {0};
  wire_put_string(&o, OPSET_DOMAIN, domain);
  wire_put_int(&o, OPSET_VERSION, version);
  wire_put_message(w, number, &o);
}

/* A model of opset 17 around the graph, which is finished. */
HELPER wire_writer make_model(wire_writer *graph) {
  wire_writer m = {0};
  wire_put_int(&m, MODEL_IR_VERSION, 8);
  put_opset(&m, MODEL_OPSET_IMPORT, "", 17);
  wire_put_message(&m, MODEL_GRAPH, graph);
  return m;
}

/* The bytes in one block; finishes the writer. Freed with free. */
HELPER uint8_t *join(wire_writer *w, size_t *size) {
  uint8_t *all = malloc(w->size + 1), *at = all;
  assert_non_null(all);
  assert_false(w->failed);
  for (size_t i = 0; i < w->pieces.count; i++) {
    const wire_piece *p = &w->pieces.data[i];
    memcpy(at, p->borrowed ? p->borrowed : w->bytes.data + p->offset, p->size);
    at += p->size;
  }
  *size = w->size;
  wire_writer_finish(w);
  return all;
}

/* Loads and finishes the model. */
HELPER rlx_status load_model(wire_writer *model, rlx_graph **out) {
  size_t size;
  uint8_t *bytes = join(model, &size);
  rlx_status status = rlx_graph_load_memory(bytes, size, NULL, out);
  free(bytes);
  return status;
}

HELPER rlx_graph *load_good(wire_writer *model) {
  rlx_graph *g = NULL;
  if (load_model(model, &g) != RLX_OK) fail_msg("%s", rlx_error_message());
  return g;
}

/* The model must fail with this status and a message that holds `text`. */
HELPER void load_bad(wire_writer *model, rlx_status want, const char *text) {
  rlx_graph *g = NULL;
  rlx_status status = load_model(model, &g);
  if (status == RLX_OK) rlx_graph_destroy(g);
  if (status != want || !strstr(rlx_error_message(), text) || strchr(rlx_error_message(), '\n')) {
    fail_msg("status %s, message '%s'; wanted %s, '%s'", rlx_status_name(status), status ? rlx_error_message() : "",
             rlx_status_name(want), text);
  }
}

/* A file of the test's own under $TMPDIR or /tmp; the path is valid until the next call. */
HELPER const char *test_path(const char *name) {
  static char path[512];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/rlx-test-%ld-%s", folder && *folder ? folder : "/tmp", (long)getpid(), name);
  return path;
}

#endif
