/* layout.h — the memory layouts of activations that kernels may ask for (rlx_layouts, rlx_operand.layout).
 *
 * Dims always stay the logical ones, [N, C, spatial…]; a layout says how they lie in memory. Every layout
 * takes exactly the bytes of the dense row-major tensor: a blocked one is only for channel counts that its
 * block divides. For 3 to 5 dims. With a spatial size of 1 all of them are the same bytes. */
#ifndef IR_LAYOUT_H
#define IR_LAYOUT_H

#include <rlx/extend.h>

enum {
  LAYOUT_ROW_MAJOR = RLX_ROW_MAJOR,
  LAYOUT_BLOCK8 = 1,       /* [N, C / 8, spatial…, 8] */
  LAYOUT_BLOCK16 = 2,      /* [N, C / 16, spatial…, 16] */
  LAYOUT_CHANNELS_LAST = 3 /* [N, spatial…, C] */
};

/* Channels that lie together for one spatial point: 1, 8, 16 or `channels`; 0 for an id that is no layout. */
int64_t layout_block(uint32_t layout, int64_t channels);
/* Whether a tensor of this type (dims may be unknown) can lie so. */
bool layout_fits(uint32_t layout, const rlx_type *type);
/* The dims in the order in which they lie, for code that works on row-major tensors of any rank. Returns their number:
 * `rank`, or one more. A dim 1 of size 1 in a tensor that is broadcast to more channels stays 1. `out` has room for
 * rank + 1. */
int layout_physical(uint32_t layout, int rank, const int64_t *dims, int64_t *out);
/* Where dim `axis` is among them: of blocked channels, the number of the block. */
int layout_physical_axis(uint32_t layout, int rank, int axis);
/* "row-major", "channels last", …; for reports. */
const char *layout_name(uint32_t layout);

#endif
