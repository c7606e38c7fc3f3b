/* layout.c — memory layouts of activations. */
#include "ir/layout.h"

int64_t layout_block(uint32_t layout, int64_t channels) {
  switch (layout) {
    case LAYOUT_ROW_MAJOR: return 1;
    case LAYOUT_BLOCK8: return 8;
    case LAYOUT_BLOCK16: return 16;
    case LAYOUT_CHANNELS_LAST: return channels;
    default: return 0;
  }
}

bool layout_fits(uint32_t layout, const rlx_type *type) {
  if (layout == LAYOUT_ROW_MAJOR) return true;
  if (!type || type->kind != RLX_KIND_TENSOR || type->rank < 3 || type->rank > 5 || type->dims[1] < 1) return false;
  int64_t block = layout_block(layout, type->dims[1]);
  return block > 0 && type->dims[1] % block == 0;
}

int layout_physical(uint32_t layout, int rank, const int64_t *dims, int64_t *out) {
  if (layout == LAYOUT_ROW_MAJOR || rank < 3) {
    for (int i = 0; i < rank; i++) out[i] = dims[i];
    return rank;
  }
  int64_t channels = dims[1], inner = channels == 1 ? 1 : layout_block(layout, channels);
  int count = 0;
  out[count++] = dims[0];
  if (layout != LAYOUT_CHANNELS_LAST) out[count++] = channels / inner;
  for (int i = 2; i < rank; i++) out[count++] = dims[i];
  out[count++] = inner;
  return count;
}

int layout_physical_axis(uint32_t layout, int rank, int axis) {
  if (layout != LAYOUT_CHANNELS_LAST || axis == 0) return axis;
  return axis == 1 ? rank - 1 : axis - 1;
}

const char *layout_name(uint32_t layout) {
  static const char *const names[] = {"row-major", "blocks of 8 channels", "blocks of 16 channels", "channels last"};
  return layout < sizeof names / sizeof *names ? names[layout] : "unknown layout";
}
