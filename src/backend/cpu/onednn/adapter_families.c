/* adapter_families.c — how each family of primitives is described to oneDNN, 2.x and 3.x. */
#include "backend/cpu/onednn/adapter_private.h"

/* ---- families ----------------------------------------------------------------------------- */

typedef struct window_dims {
  dnnl_dims_t kernel, strides, dilates, before, after;
} window_dims;

/* oneDNN counts the gaps of a dilation: 0 is dense. */
static window_dims window_of(const onednn_window *w) {
  window_dims d = {{0}, {0}, {0}, {0}, {0}};
  for (int i = 0; i < 3; i++) {
    d.kernel[i] = w->kernel[i];
    d.strides[i] = w->strides[i];
    d.dilates[i] = w->dilations[i] - 1;
    d.before[i] = w->before[i];
    d.after[i] = w->after[i];
  }
  return d;
}

static dnnl_status_t describe_convolution_by(const onednn_convolution_desc *c, request *r, dnnl_primitive_attr_t attr,
                                             dnnl_alg_kind_t kind, dnnl_primitive_desc_t *out) {
  window_dims w = window_of(&c->window);
#if DNNL_VERSION_MAJOR >= 3
  return CREATE(convolution_forward, out, attr, dnnl_forward_inference, kind, MD_POINTER(&r->src),
                MD_POINTER(&r->weights), MD_POINTER(&r->bias), MD_POINTER(&r->dst), w.strides, w.dilates, w.before,
                w.after);
#else
  dnnl_convolution_desc_t d;
  dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(
      &d, dnnl_forward_inference, kind, MD_POINTER(&r->src), MD_POINTER(&r->weights), MD_POINTER(&r->bias),
      MD_POINTER(&r->dst), w.strides, w.dilates, w.before, w.after);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, onednn_engine, NULL) : s;
#endif
}

static dnnl_status_t describe_convolution(const void *desc, request *r, dnnl_primitive_attr_t attr,
                                          dnnl_primitive_desc_t *out) {
  const onednn_convolution_desc *c = desc;
  if (c->winograd) {
    dnnl_status_t s = describe_convolution_by(c, r, attr, dnnl_convolution_winograd, out);
    if (s != dnnl_unimplemented) return s;
  }
  return describe_convolution_by(c, r, attr, dnnl_convolution_direct, out);
}

rlx_status onednn_make_convolution(const void *ctx, int threads, const onednn_convolution_desc *d,
                                   onednn_primitive **out) {
  family f = {"convolution", describe_convolution, &d->src, &d->weights, &d->bias, &d->dst, &d->post, true, false};
  return onednn_create(ctx, threads, &f, d, out);
}

static dnnl_status_t describe_pooling(const void *desc, request *r, dnnl_primitive_attr_t attr,
                                      dnnl_primitive_desc_t *out) {
  static const dnnl_alg_kind_t kinds[] = {[ONEDNN_POOL_MAX] = dnnl_pooling_max,
                                          [ONEDNN_POOL_AVERAGE] = dnnl_pooling_avg_exclude_padding,
                                          [ONEDNN_POOL_AVERAGE_PADDED] = dnnl_pooling_avg_include_padding};
  const onednn_pooling_desc *p = desc;
  window_dims w = window_of(&p->window);
#if DNNL_VERSION_MAJOR >= 3
  return CREATE(pooling_forward, out, attr, dnnl_forward_inference, kinds[p->kind], MD_POINTER(&r->src),
                MD_POINTER(&r->dst), w.strides, w.kernel, w.dilates, w.before, w.after);
#else
  dnnl_pooling_v2_desc_t d;
  dnnl_status_t s =
      dnnl_pooling_v2_forward_desc_init(&d, dnnl_forward_inference, kinds[p->kind], MD_POINTER(&r->src),
                                        MD_POINTER(&r->dst), w.strides, w.kernel, w.dilates, w.before, w.after);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, onednn_engine, NULL) : s;
#endif
}

rlx_status onednn_make_pooling(const void *ctx, int threads, const onednn_pooling_desc *d, onednn_primitive **out) {
  family f = {"pooling", describe_pooling, &d->src, NULL, NULL, &d->dst, NULL, false, false};
  return onednn_create(ctx, threads, &f, d, out);
}

static dnnl_status_t describe_lrn(const void *desc, request *r, dnnl_primitive_attr_t attr,
                                  dnnl_primitive_desc_t *out) {
  const onednn_lrn_desc *l = desc;
#if DNNL_VERSION_MAJOR >= 3
  return CREATE(lrn_forward, out, attr, dnnl_forward_inference, dnnl_lrn_across_channels, MD_POINTER(&r->src),
                MD_POINTER(&r->dst), l->size, l->alpha, l->beta, l->bias);
#else
  dnnl_lrn_desc_t d;
  dnnl_status_t s = dnnl_lrn_forward_desc_init(&d, dnnl_forward_inference, dnnl_lrn_across_channels,
                                               MD_POINTER(&r->src), l->size, l->alpha, l->beta, l->bias);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, onednn_engine, NULL) : s;
#endif
}

rlx_status onednn_make_lrn(const void *ctx, int threads, const onednn_lrn_desc *d, onednn_primitive **out) {
  family f = {"lrn", describe_lrn, &d->src, NULL, NULL, &d->src, NULL, false, false};
  return onednn_create(ctx, threads, &f, d, out);
}

static dnnl_status_t describe_matmul(const void *desc, request *r, dnnl_primitive_attr_t attr,
                                     dnnl_primitive_desc_t *out) {
  (void)desc;
#if DNNL_VERSION_MAJOR >= 3
  return CREATE(matmul, out, attr, MD_POINTER(&r->src), MD_POINTER(&r->weights), MD_POINTER(&r->bias),
                MD_POINTER(&r->dst));
#else
  dnnl_matmul_desc_t d;
  dnnl_status_t s = dnnl_matmul_desc_init(&d, MD_POINTER(&r->src), MD_POINTER(&r->weights), MD_POINTER(&r->bias),
                                          MD_POINTER(&r->dst));
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, onednn_engine, NULL) : s;
#endif
}

rlx_status onednn_make_matmul(const void *ctx, int threads, const onednn_matmul_desc *d, onednn_primitive **out) {
  family f = {"matmul", describe_matmul, &d->src, &d->weights, &d->bias, &d->dst, &d->post, d->pack, false};
  return onednn_create(ctx, threads, &f, d, out);
}

/* The statistics of a row stay inside: their descriptor is only for oneDNN to have one. */
static dnnl_status_t describe_layernorm(const void *desc, request *r, dnnl_primitive_attr_t attr,
                                        dnnl_primitive_desc_t *out) {
  const onednn_layernorm_desc *l = desc;
  unsigned flags = (unsigned)dnnl_use_scale | (l->shift.format == ONEDNN_ABSENT ? 0u : (unsigned)dnnl_use_shift);
  dnnl_dims_t rows = {l->src.dims[0]}, strides = {1};
#if DNNL_VERSION_MAJOR >= 3
  dnnl_memory_desc_t statistics;
  dnnl_status_t s = dnnl_memory_desc_create_with_strides(&statistics, 1, rows, dnnl_f32, strides);
  if (s != dnnl_success) return s;
  s = CREATE(layer_normalization_forward, out, attr, dnnl_forward_inference, MD_POINTER(&r->src), MD_POINTER(&r->dst),
             statistics, l->epsilon, flags);
  dnnl_memory_desc_destroy(statistics);
  return s;
#else
  dnnl_memory_desc_t statistics;
  dnnl_layer_normalization_desc_t d;
  dnnl_status_t s = dnnl_memory_desc_init_by_strides(&statistics, 1, rows, dnnl_f32, strides);
  if (s == dnnl_success) {
    s = dnnl_layer_normalization_forward_desc_init(&d, dnnl_forward_inference, MD_POINTER(&r->src), &statistics,
                                                   l->epsilon, flags);
  }
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, onednn_engine, NULL) : s;
#endif
}

rlx_status onednn_make_layernorm(const void *ctx, int threads, const onednn_layernorm_desc *d, onednn_primitive **out) {
  family f = {"layer normalisation", describe_layernorm, &d->src, &d->scale, &d->shift, &d->src, NULL, false, true};
  return onednn_create(ctx, threads, &f, d, out);
}
