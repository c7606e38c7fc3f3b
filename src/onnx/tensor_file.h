/* tensor_file.h — tensor files by content. */
#ifndef ONNX_TENSOR_FILE_H
#define ONNX_TENSOR_FILE_H

#include "ir/tensor.h"

/* Reads an .npy file or a TensorProto. The tensor has memory of its own. folder: of external data; NULL:
 * refused. */
rlx_status tensor_file_parse(const mapped_file *file, const char *folder, rlx_tensor **out);

#endif
