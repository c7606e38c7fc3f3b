/* value_proto.h — SequenceProto, OptionalProto and MapProto. */
#ifndef ONNX_VALUE_PROTO_H
#define ONNX_VALUE_PROTO_H

#include "onnx/tensor_proto.h"

/* Reads the message of a value of that type: a TensorProto, or one of the three. */
rlx_status value_proto_read(tensor_source *s, wire_span message, const rlx_type *type, rlx_tensor **out);
/* Writes its fields; data is borrowed until w is written out. name may be NULL. */
void value_proto_put(wire_writer *w, const rlx_tensor *t, const char *name);

#endif
