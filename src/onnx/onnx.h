/* onnx.h — models in ONNX's file format, in and out. */
#ifndef ONNX_ONNX_H
#define ONNX_ONNX_H

#include "ir/graph.h"

/* True if the bytes are a ModelProto as far as the outermost message goes. */
bool onnx_probe(const void *data, size_t size);
/* Imports a model. Weights stay in `file`, which is retained for them. folder: of external data; NULL:
 * refused. memory_limit: bytes that may be allocated, 0: no limit is stated. */
rlx_status onnx_import(mapped_file *file, const char *folder, const rlx_registry *registry, int64_t memory_limit,
                       rlx_graph **out);

/* The model's message, weights inside. It borrows the weights: the graph must outlive *w. */
struct wire_writer;
rlx_status onnx_encode(const rlx_graph *g, struct wire_writer *w);

/* Largest ONNX file: protobuf reads no more. */
#define ONNX_FILE_BYTES INT32_MAX
/* Writes a graph as a model. If it would take more than `file_bytes`, weights go to PATH.data. */
rlx_status onnx_export(const rlx_graph *g, const char *path, int64_t file_bytes);

#endif
