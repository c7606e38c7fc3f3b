/* tensor_proto_write.c — a tensor to TensorProto. */
#include "onnx/schema.h"
#include "onnx/tensor_proto.h"

void tensor_proto_put_head(wire_writer *w, const rlx_tensor *t, const char *name) {
  if (t->rank) wire_put_ints(w, TENSOR_DIMS, t->dims, (size_t)t->rank);
  wire_put_int(w, TENSOR_DATA_TYPE, t->dtype);
  if (name) wire_put_string(w, TENSOR_NAME, name);
}

void tensor_proto_put(wire_writer *w, const rlx_tensor *t, const char *name) {
  tensor_proto_put_head(w, t, name);
  if (t->dtype != RLX_STRING) {
    wire_put_borrowed(w, TENSOR_RAW_DATA, tensor_raw(t), t->bytes);
    return;
  }
  const rlx_string *strings = t->data;
  for (int64_t i = 0; i < t->count; i++) {
    wire_put_bytes(w, TENSOR_STRING_DATA, strings[i].data, strings[i].size);
  }
}
