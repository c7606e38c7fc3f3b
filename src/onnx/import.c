/* import.c — ModelProto to a graph. */
#include <string.h>

#include "base/log.h"
#include "onnx/import.h"
#include "onnx/onnx.h"
#include "onnx/schema.h"

/* A ModelProto taken apart. */
typedef struct model_parts {
  wire_span graph;
  bool has_graph;
  int64_t ir_version;
  span_list opsets, functions;
} model_parts;

/* Fields of the model that become metadata of the graph, under these keys. */
static const struct {
  uint32_t field;
  const char *key;
} model_strings[] = {
    {MODEL_PRODUCER_NAME, "onnx.producer_name"},
    {MODEL_PRODUCER_VERSION, "onnx.producer_version"},
    {MODEL_DOMAIN, "onnx.domain"},
    {MODEL_DOC_STRING, "onnx.doc_string"},
};

wire_span domain_name(wire_span domain) {
  if (domain.size == 0 || wire_equal(domain, "ai.onnx")) return (wire_span){(const uint8_t *)"onnx", 4};
  return domain;
}

rlx_status name_copy(arena *memory, wire_span name, const char **out) {
  const char *copy = arena_strndup(memory, name.size ? (const char *)name.data : "", name.size);
  if (!copy) return status_no_memory(name.size);
  *out = copy;
  return RLX_OK;
}

rlx_status opset_read(wire_span message, arena *memory, graph_opset *out) {
  wire_reader r = wire_open(message, "OperatorSetIdProto");
  wire_field f;
  wire_span domain = {0};
  int64_t version = 0;
  while (wire_next(&r, &f)) {
    if (f.number == OPSET_DOMAIN) domain = wire_name(&f);
    if (f.number == OPSET_VERSION) version = wire_int(&f);
  }
  RLX_TRY(r.status);
  if (version < 1 || version > INT32_MAX) {
    return RLX_FAIL(INVALID, "opset import: version %lld of domain '%.*s'", (long long)version, WIRE_TEXT(domain));
  }
  out->version = (int)version;
  RLX_TRY(name_copy(memory, domain_name(domain), &out->domain));
  rlx_status status = opset_check(out->domain, out->version);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "opset import");
}

static rlx_status add_metadata(importer *im, rlx_graph *g, const char *key, wire_span value) {
  graph_metadata m = {.key = key};
  RLX_TRY(budget_take(&im->source.budget, (int64_t)value.size + 64));
  RLX_TRY(name_copy(&g->memory, value, &m.value));
  return vector_push(&g->metadata, m) ? RLX_OK : status_no_memory(sizeof m);
}

static rlx_status read_metadata(importer *im, rlx_graph *g, wire_span message) {
  wire_reader r = wire_open(message, "StringStringEntryProto");
  wire_field f;
  wire_span key = {0}, value = {0};
  const char *name = NULL;
  while (wire_next(&r, &f)) {
    if (f.number == ENTRY_KEY) key = wire_name(&f);
    if (f.number == ENTRY_VALUE) value = wire_name(&f);
  }
  RLX_TRY(r.status);
  RLX_TRY(budget_take(&im->source.budget, (int64_t)key.size));
  RLX_TRY(name_copy(&g->memory, key, &name));
  return add_metadata(im, g, name, value);
}

static rlx_status add_model_string(importer *im, rlx_graph *g, const wire_field *f) {
  for (size_t i = 0; i < sizeof model_strings / sizeof *model_strings; i++) {
    if (model_strings[i].field != f->number) continue;
    wire_span text = wire_name(f);
    return text.size ? add_metadata(im, g, model_strings[i].key, text) : RLX_OK;
  }
  return RLX_OK;
}

static rlx_status take_apart(importer *im, rlx_graph *g, wire_span message, model_parts *p) {
  wire_reader r = wire_open(message, "ModelProto");
  wire_field f;
  bool room = true;
  while (room && wire_next(&r, &f)) {
    switch (f.number) {
      case MODEL_IR_VERSION: p->ir_version = wire_int(&f); break;
      case MODEL_GRAPH:
        if (p->has_graph) wire_repeated(&f);
        p->graph = wire_bytes(&f);
        p->has_graph = true;
        break;
      case MODEL_OPSET_IMPORT: room = vector_push(&p->opsets, wire_bytes(&f)); break;
      case MODEL_FUNCTIONS: room = vector_push(&p->functions, wire_bytes(&f)); break;
      case MODEL_METADATA_PROPS: RLX_TRY(read_metadata(im, g, wire_bytes(&f))); break;
      case MODEL_TRAINING_INFO: log_line(RLX_LOG_WARN, "the model's training information is left out"); break;
      default: RLX_TRY(add_model_string(im, g, &f)); break;
    }
  }
  if (!room) return status_no_memory(message.size);
  RLX_TRY(r.status);
  return p->has_graph ? RLX_OK : RLX_FAIL(MALFORMED, "holds no graph");
}

static rlx_status add_opsets(const model_parts *p, rlx_graph *g) {
  for (size_t i = 0; i < p->opsets.count; i++) {
    graph_opset opset;
    RLX_TRY(opset_read(p->opsets.data[i], &g->memory, &opset));
    int before = graph_opset_version(g, opset.domain, strlen(opset.domain));
    if (before && before != opset.version) {
      return RLX_FAIL(INVALID, "domain '%s' is imported in versions %d and %d", opset.domain, before, opset.version);
    }
    rlx_graph_set_opset(g, opset.domain, opset.version);
  }
  if (p->opsets.count == 0) {
    if (p->ir_version >= 3) return RLX_FAIL(INVALID, "imports no opset");
    rlx_graph_set_opset(g, "onnx", 1); /* before there were opsets */
  }
  return rlx_graph_status(g);
}

static rlx_status fill(importer *im, rlx_graph *g, wire_span message) {
  model_parts p = {0};
  scope s = {.importer = im, .graph = g, .prefix = ""};
  rlx_status status = take_apart(im, g, message, &p);
  im->ir_version = p.ir_version;
  if (status == RLX_OK) status = add_opsets(&p, g);
  for (size_t i = 0; i < p.functions.count && status == RLX_OK; i++) status = function_read(im, p.functions.data[i]);
  if (status == RLX_OK) status = import_graph(&s, p.graph);
  scope_finish(&s);
  vector_finish(&p.opsets);
  vector_finish(&p.functions);
  return status == RLX_OK ? rlx_graph_finish(g) : status;
}

bool onnx_probe(const void *data, size_t size) {
  wire_reader r = wire_open((wire_span){data, size}, "ModelProto");
  wire_field f;
  bool graph = false;
  while (wire_next(&r, &f)) {
    if (f.number > MODEL_CONFIGURATION) return false;
    graph |= f.number == MODEL_GRAPH && f.type == WIRE_LENGTH;
  }
  return graph && r.status == RLX_OK;
}

rlx_status onnx_import(mapped_file *file, const char *folder, const rlx_registry *registry, int64_t memory_limit,
                       rlx_graph **out) {
  importer im = {.source = {.file = file, .folder = folder, .budget = budget_open(memory_limit)}, .registry = registry};
  if (!file->path) RLX_TRY(budget_take(&im.source.budget, (int64_t)file->size)); /* a copy in memory */
  rlx_graph *g;
  RLX_TRY(graph_create(registry, NULL, &g));
  rlx_status status = fill(&im, g, (wire_span){file->data, file->size});
  functions_finish(&im);
  tensor_source_finish(&im.source);
  arena_finish(&im.memory);
  if (status != RLX_OK) {
    rlx_graph_destroy(g);
    return status;
  }
  *out = g;
  return RLX_OK;
}
