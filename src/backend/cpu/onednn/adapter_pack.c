/* adapter_pack.c — dense weights into oneDNN's plain blocked forms, faster than its own reorder and from any address.
 */
#include <stdint.h>
#include <string.h>

#include "backend/cpu/onednn/adapter_private.h"
#include "base/parallel.h"

#if DNNL_VERSION_MAJOR < 3

enum { RANK = 6, LARGEST_BLOCK = 1024 };

/* How to write one block: where its elements are in the source, relative to the block's first. */
typedef struct packer {
  int rank;
  int64_t outer[RANK];     /* blocks along each dim */
  int64_t from_step[RANK]; /* source elements from one block to the next along each dim */
  int64_t to_step[RANK];
  int32_t offset[LARGEST_BLOCK];
  int64_t block; /* elements */
  const char *from;
  uint32_t *to;
} packer;

/* Source strides, if the source is plain. */
static bool plain(md_pointer m) {
  return m->format_kind == dnnl_blocked && m->data_type == dnnl_f32 && m->format_desc.blocking.inner_nblks == 0 &&
         m->offset0 == 0 && m->ndims <= RANK;
}

static bool fill_offsets(packer *p, md_pointer to, const int64_t *from_strides) {
  const dnnl_blocking_desc_t *b = &to->format_desc.blocking;
  p->block = 1;
  for (int j = 0; j < b->inner_nblks; j++) p->block *= b->inner_blks[j];
  if (p->block > LARGEST_BLOCK) return false;
  for (int64_t k = 0; k < p->block; k++) {
    int64_t rest = k, at = 0, scale[RANK] = {1, 1, 1, 1, 1, 1};
    for (int j = b->inner_nblks - 1; j >= 0; j--) { /* the last inner block varies fastest */
      int d = (int)b->inner_idxs[j];
      at += rest % b->inner_blks[j] * scale[d] * from_strides[d];
      scale[d] *= b->inner_blks[j];
      rest /= b->inner_blks[j];
    }
    if (at > INT32_MAX) return false;
    p->offset[k] = (int32_t)at;
  }
  return true;
}

/* False: a form this does not write (Winograd, padded, compensated). */
static bool plan(packer *p, md_pointer from, md_pointer to) {
  if (!plain(from) || to->format_kind != dnnl_blocked || to->data_type != dnnl_f32 || to->ndims != from->ndims)
    return false;
  if (to->offset0 != 0 || to->extra.flags != dnnl_memory_extra_flag_none) return false;
  const int64_t *from_strides = from->format_desc.blocking.strides;
  p->rank = to->ndims;
  for (int d = 0; d < p->rank; d++) {
    int64_t block = 1;
    for (int j = 0; j < to->format_desc.blocking.inner_nblks; j++)
      if (to->format_desc.blocking.inner_idxs[j] == d) block *= to->format_desc.blocking.inner_blks[j];
    if (to->padded_dims[d] != to->dims[d] || to->padded_offsets[d] != 0 || to->dims[d] % block != 0) return false;
    p->outer[d] = to->dims[d] / block;
    p->from_step[d] = block * from_strides[d];
    p->to_step[d] = to->format_desc.blocking.strides[d];
  }
  return fill_offsets(p, to, from_strides);
}

static void write_block(const packer *p, int64_t from, int64_t to) {
  const char *source = p->from + from * 4;
  uint32_t *target = p->to + to;
  for (int64_t k = 0; k < p->block; k++) memcpy(target + k, source + (int64_t)p->offset[k] * 4, 4);
}

/* All blocks whose place along dim 0 is in [begin, end): the last dims vary fastest, as they lie in the source. */
static void write_range(void *arg, int64_t begin, int64_t end) {
  const packer *p = arg;
  int64_t inner = 1;
  for (int d = 1; d < p->rank; d++) inner *= p->outer[d];
  for (int64_t i = begin * inner; i < end * inner; i++) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = p->rank - 1; d >= 0; d--) {
      int64_t at = rest % p->outer[d];
      rest /= p->outer[d];
      from += at * p->from_step[d];
      to += at * p->to_step[d];
    }
    write_block(p, from, to);
  }
}

bool onednn_pack_blocked(md_pointer from, md_pointer to, const void *data, void *packed, int threads) {
  packer p = {.from = data, .to = packed};
  if (!plan(&p, from, to)) return false;
  parallel_for(threads, p.outer[0], 1, write_range, &p);
  return true;
}

#else

bool onednn_pack_blocked(md_pointer from, md_pointer to, const void *data, void *packed, int threads) {
  (void)from, (void)to, (void)data, (void)packed, (void)threads; /* 3.x does not show its forms */
  return false;
}

#endif
