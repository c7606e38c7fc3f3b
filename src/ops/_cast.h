/* _cast.h — attributes of onnx.Cast and onnx.CastLike. */
#ifndef OPS_CAST_H
#define OPS_CAST_H

#include <rlx/extend.h>

#include "ops/_convert.h"

typedef struct cast_params {
  uint64_t given;
  int64_t to;
  int64_t saturate;
  rlx_string round_mode;
} cast_params;

/* Fails (through ctx) on a round_mode that does not exist. */
rlx_status cast_rule(const void *ctx, const cast_params *p, convert_rule *rule);

#endif
