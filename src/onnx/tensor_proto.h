/* tensor_proto.h — TensorProto and SparseTensorProto to tensors. */
#ifndef ONNX_TENSOR_PROTO_H
#define ONNX_TENSOR_PROTO_H

#include "base/map.h"
#include "ir/tensor.h"
#include "onnx/budget.h"
#include "onnx/wire.h"

/* Where the messages come from. Borrowed but for `externals`: tensor_source_finish. */
typedef struct tensor_source {
  mapped_file *file;  /* what the messages lie in; NULL: nothing is used in place, external data neither */
  const char *folder; /* where external data is looked for; NULL: refused */
  map externals;      /* location → mapped_file, one reference each */
  budget budget;
} tensor_source;

void tensor_source_finish(tensor_source *s);

/* Reads a TensorProto. Data whose address is aligned to its elements stays where it is in the mapped
 * file; anything else is copied. *name (may be NULL) is borrowed from the message. */
rlx_status tensor_proto_read(tensor_source *s, wire_span message, wire_span *name, rlx_tensor **out);
/* Reads a SparseTensorProto as the dense tensor it stands for. */
rlx_status sparse_proto_read(tensor_source *s, wire_span message, wire_span *name, rlx_tensor **out);

/* Writes the fields of a TensorProto: raw data, borrowed until w is written out; strings as string_data.
 * name may be NULL. */
void tensor_proto_put(wire_writer *w, const rlx_tensor *t, const char *name);
/* Only those before the data: dims, dtype, name. */
void tensor_proto_put_head(wire_writer *w, const rlx_tensor *t, const char *name);

#endif
