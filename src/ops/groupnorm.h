/* groupnorm.h — parameters of instance and group normalisation, for the op records and for kernels. */
#ifndef OPS_GROUPNORM_H
#define OPS_GROUPNORM_H

#include <rlx/extend.h>

typedef struct groupnorm_params {
  uint64_t given;
  float epsilon;
  int64_t num_groups;       /* GroupNormalization */
  int64_t stash_type;       /* GroupNormalization 21 */
  rlx_ints consumed_inputs; /* InstanceNormalization 1, without meaning */
} groupnorm_params;

/* batch × groups × (channels / groups) × inner; scale and bias have one element a channel, or one a group. */
typedef struct groupnorm_shape {
  int64_t batch, groups, channels, inner;
  bool per_group;
} groupnorm_shape;

/* NULL, or why the shapes do not fit, in the buffer of rlx_reason. groups 0: one a channel. */
const char *groupnorm_resolve(int rank, const int64_t *dims, int64_t groups, int64_t scale_count, bool per_group,
                              groupnorm_shape *out);

#endif
