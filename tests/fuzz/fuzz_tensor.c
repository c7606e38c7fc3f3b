/* fuzz_tensor.c — any bytes as a tensor file, TensorProto or NumPy. */
#include "onnx/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mapped_file *file;
  rlx_tensor *t;
  if (mapped_file_copy(data, size, &file) != RLX_OK) return 0;
  if (tensor_file_parse(file, NULL, &t) == RLX_OK) rlx_tensor_destroy(t);
  mapped_file_release(file);
  return 0;
}
