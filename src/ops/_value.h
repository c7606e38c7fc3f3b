/* _value.h — shared by ops on sequences, optionals and maps. */
#ifndef OPS_VALUE_H
#define OPS_VALUE_H

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ir/tensor.h"

/* The sequence that input i is; NULL after a failure, which is recorded. */
rlx_tensor *value_sequence(rlx_ctx *ctx, int i);
/* Makes the items a sequence and that the output; drops the caller's references to them. */
rlx_status value_give_sequence(rlx_ctx *ctx, int output, const rlx_type *held, rlx_tensor **items, int64_t count);
/* A tensor as an output; texts are copied, since t may go before the run ends. */
rlx_status value_give_tensor(rlx_ctx *ctx, int output, const rlx_tensor *t);
/* Copies elements of outputs of the run. */
rlx_status value_copy(rlx_ctx *ctx, rlx_dtype dtype, void *to, const void *from, int64_t count);
/* The type of an operand; of what is no tensor that of its value. */
void value_type(const rlx_operand *o, rlx_type *out);
/* The value of an operand: tensors are copied, others retained. NULL after a failure, which is recorded. */
rlx_tensor *value_take(rlx_ctx *ctx, const rlx_operand *o);
/* Passes a failure of the library on as the kernel's. */
rlx_status value_failed(rlx_ctx *ctx, rlx_status status);

/* Inference: fails unless input i is, or may be, a sequence. */
rlx_status value_expect_sequence(rlx_infer *ctx, int i);
/* The output is a sequence of `held`, tensors whose dtype may be unknown included. */
rlx_status value_infer_sequence(rlx_infer *ctx, int output, const rlx_type *held);
/* What the sequence or optional that is input i holds; tensors of unknown dtype while it is not known. */
void value_infer_held(rlx_infer *ctx, int i, rlx_type *out);
/* An item as the output, whatever kind it is. */
rlx_status value_give(rlx_ctx *ctx, int output, rlx_tensor *item);

#endif
