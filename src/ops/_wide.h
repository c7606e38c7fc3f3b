/* _wide.h — operands in the type that an op computes in: float for float16 and bfloat16, int32 for bytes … */
#ifndef OPS_WIDE_H
#define OPS_WIDE_H

#include <rlx/extend.h>

/* An operand's elements as `dtype`: the operand itself when it has that dtype, else an owned copy. Finished with
 * wide_finish, also after a failure if zero-initialised. */
typedef struct wide {
  void *data; /* not written for inputs; NULL for an operand left out */
  void *owned;
  rlx_dtype dtype;
} wide;

/* float, or double for double; int64 (wrapping, which suits uint64 too) for integers. */
rlx_dtype wide_dtype(rlx_dtype dtype);
rlx_status wide_input(const void *ctx, const rlx_operand *operand, rlx_dtype dtype, wide *out);
/* int8 or uint8 minus its zero point, as int32. zero (may be left out) has one element, or one for each of the
 * `count / inner / period` … index (i / inner) % period. */
rlx_status wide_centred(const void *ctx, const rlx_operand *operand, const rlx_operand *zero, int64_t period,
                        int64_t inner, wide *out);
/* Where to compute an output; wide_store then converts it into the operand. */
rlx_status wide_output(const void *ctx, const rlx_operand *operand, rlx_dtype dtype, wide *out);
void wide_store(const wide *w, const rlx_operand *operand);
void wide_finish(wide *w);

#endif
