/* npy.h — NumPy's array files. Source: numpy.lib.format, versions 1 to 3. */
#ifndef ONNX_NPY_H
#define ONNX_NPY_H

#include "ir/tensor.h"
#include "onnx/wire.h"

bool npy_probe(wire_span content);
/* Reads into memory of the tensor's own; big-endian data is swapped. Fortran order, records and Python
 * objects are refused. */
rlx_status npy_read(wire_span content, rlx_tensor **out);
/* Header and data in *w, which borrows the tensor's memory unless it holds strings. Types NumPy has no
 * name for (bfloat16, float8, sub-byte) are refused. */
rlx_status npy_write(const rlx_tensor *t, wire_writer *w);

#endif
