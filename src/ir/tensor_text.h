/* tensor_text.h — contents of tensors as text: "{1, 2.5}". */
#ifndef IR_TENSOR_TEXT_H
#define IR_TENSOR_TEXT_H

#include "ir/lexer.h"
#include "ir/tensor.h"

/* Every element reads back to the same bits. In the float types below 32 bits an integer is the element's bits, as in
 * ONNX's text; a number with a point or exponent, inf or nan is its value. Complex: real and imaginary parts in turn.
 */
void tensor_print_data(const rlx_tensor *t, text *out);
/* At "{". The type must be concrete, and there must be as many elements as it says. `scratch` is for strings on the
 * way. */
rlx_status tensor_parse_data(lexer *l, const rlx_type *type, arena *scratch, rlx_tensor **out);

#endif
