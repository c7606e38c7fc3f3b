/* _convert.h — runs of elements from one numeric dtype to another, by the rules of onnx.Cast. */
#ifndef OPS_CONVERT_H
#define OPS_CONVERT_H

#include <rlx/extend.h>

typedef enum convert_rounding { CONVERT_UP, CONVERT_DOWN, CONVERT_NEAREST } convert_rounding;

/* How float8 and float4 targets treat what they cannot hold; zeroed is not the default of Cast. */
typedef struct convert_rule {
  bool saturate;             /* to the largest finite value instead of infinity or NaN */
  convert_rounding rounding; /* of float8e8m0 only */
} convert_rule;
extern const convert_rule convert_default; /* saturate, up */

/* True for every dtype but string, complex and undefined. */
bool convert_supports(rlx_dtype dtype);
/* Elements [at, at + n) of `data` to elements [to_at, to_at + n) of `out`. Integers wrap; floats truncate to
 * integers (out of the target's range: unspecified, never undefined behaviour). Sub-byte targets: to_at and,
 * but for the last run of a tensor, n must fill whole bytes. */
void convert_run(rlx_dtype from, const void *data, int64_t at, rlx_dtype to, void *out, int64_t to_at, int64_t n,
                 const convert_rule *rule);

#endif
