/* adapter_winograd.c — 3×3 weights into oneDNN's forms for Winograd convolutions, several times as fast as its own
 * reorder.
 *
 * A filter g becomes G g Gᵀ (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015): a number for
 * each position of the transformed tile, by position then channels. */
#include <string.h>

#include "backend/cpu/onednn/adapter_private.h"
#include "base/parallel.h"

#if DNNL_VERSION_MAJOR < 3

enum { LANES = 16, LARGEST_TILE = 6 };

typedef struct packer {
  const dnnl_wino_desc_t *form;
  const float (*g)[3]; /* G */
  const char *from;    /* floats at any address */
  float *to;
} packer;

/* F(2, 3), from the points 0, ±1; F(4, 3), from 0, ±5/8, ±3/2: a row (1, p, p²) over the product of p's distances. */
static const float g4[4][3] = {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}};
static const float g6[6][3] = {{1.13777777777778f, 0, 0},
                               {-0.688403361344538f, -0.430252100840336f, -0.26890756302521f},
                               {-0.688403361344538f, 0.430252100840336f, -0.26890756302521f},
                               {0.119514472455649f, 0.179271708683473f, 0.26890756302521f},
                               {0.119514472455649f, -0.179271708683473f, 0.26890756302521f},
                               {0, 0, 1}};

/* Where the 16 output channels of block `ob` lie for input channel ib * 16 + i and position (u, v). */
static int64_t place(const dnnl_wino_desc_t *f, int64_t ob, int64_t ib, int64_t i, int64_t u, int64_t v) {
  int64_t outs = f->oc / f->oc_block, ins = f->ic / f->ic_block, position = u * f->alpha + v;
  int64_t chunk = ob / f->oc2_block, in_chunk = ob % f->oc2_block;
  switch (f->wino_format) {
    case dnnl_wino_wei_aaOio: return (((position * outs + ob) * ins + ib) * f->ic_block + i) * f->oc_block;
    case dnnl_wino_wei_aaOBiOo:
      return ((((position * (outs / f->oc2_block) + chunk) * ins + ib) * f->ic_block + i) * f->oc2_block + in_chunk) *
             f->oc_block;
    default: /* dnnl_wino_wei_OBaaIBOIio */
      position += chunk * f->alpha * f->alpha;
      position = (position * (ins / f->ic2_block) + ib / f->ic2_block) * f->oc2_block + in_chunk;
      return ((position * f->ic2_block + ib % f->ic2_block) * f->ic_block + i) * f->oc_block;
  }
}

/* The filters of 16 output channels for one input channel. */
static void transform(const packer *p, int64_t ob, int64_t ib, int64_t i) {
  const dnnl_wino_desc_t *f = p->form;
  float g[9][LANES], half[LARGEST_TILE][3][LANES];
  for (int64_t o = 0; o < LANES; o++) {
    float filter[9];
    memcpy(filter, p->from + ((ob * LANES + o) * f->ic + ib * LANES + i) * (int64_t)sizeof filter, sizeof filter);
    for (int k = 0; k < 9; k++) g[k][o] = filter[k];
  }
  for (int u = 0; u < f->alpha; u++) {
    for (int j = 0; j < 3; j++) {
      for (int o = 0; o < LANES; o++)
        half[u][j][o] = p->g[u][0] * g[j][o] + p->g[u][1] * g[3 + j][o] + p->g[u][2] * g[6 + j][o];
    }
  }
  for (int u = 0; u < f->alpha; u++) {
    for (int v = 0; v < f->alpha; v++) {
      float *to = p->to + place(f, ob, ib, i, u, v);
      for (int o = 0; o < LANES; o++)
        to[o] = p->g[v][0] * half[u][0][o] + p->g[v][1] * half[u][1][o] + p->g[v][2] * half[u][2][o];
    }
  }
}

/* Pairs [begin, end) of a block of output and a block of input channels. */
static void transform_range(void *arg, int64_t begin, int64_t end) {
  const packer *p = arg;
  int64_t ins = p->form->ic / LANES;
  for (int64_t k = begin; k < end; k++) {
    for (int64_t i = 0; i < LANES; i++) transform(p, k / ins, k % ins, i);
  }
}

static bool serves(md_pointer from, md_pointer to) {
  if (to->format_kind != dnnl_format_kind_wino || to->data_type != dnnl_f32) return false;
  const dnnl_wino_desc_t *f = &to->format_desc.wino_desc;
  bool known = f->wino_format == dnnl_wino_wei_aaOio || f->wino_format == dnnl_wino_wei_aaOBiOo ||
               f->wino_format == dnnl_wino_wei_OBaaIBOIio;
  if (!known || f->r != 3 || (f->alpha != 4 && f->alpha != 6) || f->adj_scale != 1) return false;
  if (f->ic_block != LANES || f->oc_block != LANES || f->oc2_block < 1 || f->ic2_block < 1) return false;
  if (f->ic % (LANES * f->ic2_block) != 0 || f->oc % (LANES * f->oc2_block) != 0) return false;
  int64_t count = (int64_t)f->ic * f->oc;
  if (f->size != (size_t)(count * f->alpha * f->alpha) * sizeof(float)) return false;
  /* Dense [oc, ic, 3, 3], without a dim of groups. */
  const dnnl_dim_t *strides = from->format_desc.blocking.strides;
  return from->ndims == 4 && from->format_kind == dnnl_blocked && from->format_desc.blocking.inner_nblks == 0 &&
         from->offset0 == 0 && from->dims[0] == f->oc && from->dims[1] == f->ic && from->dims[2] == 3 &&
         from->dims[3] == 3 && strides[0] == 9 * from->dims[1] && strides[1] == 9 && strides[2] == 3 && strides[3] == 1;
}

bool onednn_pack_winograd(md_pointer from, md_pointer to, const void *data, void *packed, int threads) {
  if (!serves(from, to)) return false;
  const dnnl_wino_desc_t *f = &to->format_desc.wino_desc;
  packer p = {.form = f, .g = f->alpha == 4 ? g4 : g6, .from = data, .to = packed};
  parallel_for(threads, (int64_t)f->oc / LANES * (f->ic / LANES), 1, transform_range, &p);
  return true;
}

#else

bool onednn_pack_winograd(md_pointer from, md_pointer to, const void *data, void *packed, int threads) {
  (void)from, (void)to, (void)data, (void)packed, (void)threads; /* 3.x has no Winograd convolutions */
  return false;
}

#endif
