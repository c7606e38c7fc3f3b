/* export.c — a graph to ModelProto and its file. */
#include <string.h>

#include "onnx/export.h"
#include "onnx/onnx.h"
#include "onnx/schema.h"

enum {
  OLDEST_IR = 10,
  UNSTATED_OPSET = 21 /* of a graph that never said: at least this one */
};

static void exporter_finish(exporter *e) {
  map_finish(&e->used);
  map_finish(&e->names);
  vector_finish(&e->data);
  arena_finish(&e->memory);
}

static void put_opset(wire_writer *w, const char *domain, size_t length, int version) {
  wire_writer message = {0};
  bool standard = length == 4 && memcmp(domain, "onnx", 4) == 0;
  wire_put_bytes(&message, OPSET_DOMAIN, domain, standard ? 0 : length);
  wire_put_int(&message, OPSET_VERSION, version);
  wire_put_message(w, MODEL_OPSET_IMPORT, &message);
}

/* Domains that nodes use and the graph says nothing of: the newest versions their records have. */
static rlx_status find_unstated(exporter *e, const rlx_graph *g, map *versions) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    size_t length = op_domain_length(n->op_name);
    if (graph_opset_version(g, n->op_name, length)) continue;
    int *known = map_get_bytes(versions, n->op_name, length);
    int version = n->op ? n->op->op.version : 1;
    if (!known) {
      known = arena_alloc(&e->memory, sizeof *known);
      if (!known || !map_put_bytes(versions, n->op_name, length, known)) return status_no_memory(sizeof *known);
      *known = length == 4 && memcmp(n->op_name, "onnx", 4) == 0 ? UNSTATED_OPSET : 1;
    }
    if (version > *known) *known = version;
  }
  for (size_t i = 0; i < g->subgraphs.count; i++) RLX_TRY(find_unstated(e, g->subgraphs.data[i], versions));
  return RLX_OK;
}

static rlx_status put_opsets(exporter *e, wire_writer *w, const rlx_graph *g) {
  map versions = {0};
  const char *domain;
  size_t at = 0;
  for (size_t i = 0; i < g->opsets.count; i++) {
    put_opset(w, g->opsets.data[i].domain, strlen(g->opsets.data[i].domain), g->opsets.data[i].version);
  }
  rlx_status status = find_unstated(e, g, &versions);
  if (status == RLX_OK && !graph_opset_version(g, "onnx", 4) && !map_get(&versions, "onnx")) {
    put_opset(w, "onnx", 4, UNSTATED_OPSET); /* a model must have it */
  }
  for (const int *v; status == RLX_OK && (v = map_next(&versions, &at, &domain));)
    put_opset(w, domain, strlen(domain), *v);
  map_finish(&versions);
  return status;
}

static const struct {
  const char *key;
  uint32_t field;
} model_strings[] = {
    {"onnx.producer_name", MODEL_PRODUCER_NAME},
    {"onnx.producer_version", MODEL_PRODUCER_VERSION},
    {"onnx.domain", MODEL_DOMAIN},
    {"onnx.doc_string", MODEL_DOC_STRING},
};

static void put_metadata(wire_writer *w, const graph_metadata *m) {
  for (size_t i = 0; i < sizeof model_strings / sizeof *model_strings; i++) {
    if (strcmp(m->key, model_strings[i].key) != 0) continue;
    wire_put_string(w, model_strings[i].field, m->value);
    return;
  }
  wire_writer entry = {0};
  wire_put_string(&entry, ENTRY_KEY, m->key);
  wire_put_string(&entry, ENTRY_VALUE, m->value);
  wire_put_message(w, MODEL_METADATA_PROPS, &entry);
}

static rlx_status put_model(exporter *e, wire_writer *w, const rlx_graph *g) {
  e->ir_version = OLDEST_IR;
  for (size_t i = 0; i < g->metadata.count; i++) put_metadata(w, &g->metadata.data[i]);
  RLX_TRY(put_opsets(e, w, g));
  RLX_TRY(export_graph(e, w, MODEL_GRAPH, g));
  wire_put_int(w, MODEL_IR_VERSION, e->ir_version);
  return w->failed ? status_no_memory(w->size) : RLX_OK;
}

rlx_status onnx_encode(const rlx_graph *g, wire_writer *w) {
  exporter e = {0};
  rlx_status status = put_model(&e, w, g);
  exporter_finish(&e);
  return status;
}

static rlx_status write_once(const rlx_graph *g, const char *path, const char *location, int64_t file_bytes,
                             bool *fits) {
  exporter e = {.external = location != NULL, .location = location};
  wire_writer w = {0};
  rlx_status status = put_model(&e, &w, g);
  *fits = (uint64_t)w.size <= (uint64_t)file_bytes;
  if (status == RLX_OK && *fits && location) {
    char *data = arena_printf(&e.memory, "%s.data", path);
    status = data ? file_write_parts(data, e.data.data, e.data.count) : status_no_memory(strlen(path));
  }
  if (status == RLX_OK && *fits) status = wire_save(&w, path);
  wire_writer_finish(&w);
  exporter_finish(&e);
  return status;
}

rlx_status onnx_export(const rlx_graph *g, const char *path, int64_t file_bytes) {
  bool fits;
  RLX_TRY(write_once(g, path, NULL, file_bytes, &fits));
  if (fits) return RLX_OK;
  arena memory = {0};
  const char *slash = strrchr(path, '/');
  const char *location = arena_printf(&memory, "%s.data", slash ? slash + 1 : path);
  rlx_status status = location ? write_once(g, path, location, file_bytes, &fits) : status_no_memory(strlen(path));
  arena_finish(&memory);
  if (status == RLX_OK && !fits)
    return RLX_FAIL(UNSUPPORTED, "the graph alone takes more than %lld bytes", (long long)file_bytes);
  return status;
}
