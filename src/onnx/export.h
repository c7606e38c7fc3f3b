/* export.h — the parts of the ONNX exporter. */
#ifndef ONNX_EXPORT_H
#define ONNX_EXPORT_H

#include "base/file.h"
#include "ir/graph.h"
#include "onnx/wire.h"

/* Owned: exporter_finish in export.c. */
typedef struct exporter {
  arena memory;
  map used;               /* names taken, in the whole model */
  map names;              /* address of a value → its name */
  bool external;          /* weights go to a file of their own */
  const char *location;   /* its name */
  VECTOR(file_part) data; /* its contents, borrowed */
  int64_t data_size;
  int ir_version; /* smallest that has what was written */
  uint64_t counter;
} exporter;

/* export_name.c */
/* The name a value has in the file; made on first use. NULL when memory is short. */
const char *export_name(exporter *e, const rlx_value *v);
/* Takes `name` for v, or for nobody if v is NULL; false if it is taken (or memory is short: *failed). */
bool export_reserve(exporter *e, const char *name, const rlx_value *v, bool *failed);

/* export_type.c */
void export_type(exporter *e, wire_writer *w, uint32_t number, const rlx_type *type, const char *const *symbols);
rlx_status export_declaration(exporter *e, wire_writer *w, uint32_t number, const char *name, const rlx_value *v);
void export_tensor(exporter *e, wire_writer *w, uint32_t number, const rlx_tensor *t, const char *name);

/* export_node.c */
rlx_status export_node(exporter *e, wire_writer *w, const rlx_node *n);
void export_identity(wire_writer *w, const char *from, const char *to);

/* export_graph.c */
rlx_status export_graph(exporter *e, wire_writer *w, uint32_t number, const rlx_graph *g);

#endif
