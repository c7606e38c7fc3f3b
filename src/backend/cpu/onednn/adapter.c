/* adapter.c — oneDNN primitives behind plain numbers: creating, packing, executing. */
#include "backend/cpu/onednn/adapter.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backend/cpu/onednn/adapter_private.h"
#include "base/memory.h"
#include "base/status.h"

enum { ROLE_SRC, ROLE_WEIGHTS, ROLE_BIAS, ROLE_DST, ROLE_SCRATCH, ROLE_COUNT };
static const int role_args[ROLE_COUNT] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                          DNNL_ARG_SCRATCHPAD};
static const int affine_args[ROLE_COUNT] = {DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_DST,
                                            DNNL_ARG_SCRATCHPAD};

/* `pack` reorders dense weights (`dense`) to those of the primitive; NULL if they are the same. */
struct onednn_primitive {
  dnnl_primitive_t primitive, pack;
  const int *args; /* oneDNN's name of each role */
  md roles[ROLE_COUNT];
  md dense, pack_scratch;
  char key[60];
  int threads;
};

/* One argument of a primitive and the memory that it stands on now. */
typedef struct slot {
  dnnl_memory_t memory;
  const void *data;
} slot;

struct onednn_run {
  dnnl_stream_t stream;
  slot roles[ROLE_COUNT];
  slot pack_from, pack_scratch;
};

dnnl_engine_t onednn_engine;
static dnnl_status_t engine_status;
static void make_engine(void) { engine_status = dnnl_engine_create(&onednn_engine, dnnl_cpu, 0); }

static dnnl_status_t start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_engine);
  return engine_status;
}

static rlx_status status_of(dnnl_status_t s) {
  if (s == dnnl_success) return RLX_OK;
  if (s == dnnl_out_of_memory) return RLX_OUT_OF_MEMORY;
  return s == dnnl_unimplemented ? RLX_UNSUPPORTED : RLX_KERNEL;
}

static rlx_status fail(const void *ctx, const char *what, dnnl_status_t s) {
  return rlx_fail(ctx, status_of(s), "oneDNN: %s: %s", what,
                  s == dnnl_out_of_memory   ? "out of memory"
                  : s == dnnl_unimplemented ? "not implemented"
                                            : "refused");
}

/* oneDNN sizes its work by OpenMP's setting of the calling thread. Returns what to restore. */
static int use_threads(int threads) {
  int before = omp_get_max_threads();
  if (threads > 0 && threads != before) omp_set_num_threads(threads);
  return before;
}

static void restore_threads(int before) {
  if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

/* ---- memory descriptors ------------------------------------------------------------------- */

static void md_finish(md *m) {
#if DNNL_VERSION_MAJOR >= 3
  if (m->set) dnnl_memory_desc_destroy(m->desc);
#endif
  m->set = false;
}

static dnnl_status_t md_by_tag(md *m, int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
#if DNNL_VERSION_MAJOR >= 3
  dnnl_status_t s = dnnl_memory_desc_create_with_tag(&m->desc, rank, dims, dnnl_f32, tag);
#else
  dnnl_status_t s = dnnl_memory_desc_init_by_tag(&m->desc, rank, dims, dnnl_f32, tag);
#endif
  m->set = s == dnnl_success;
  return s;
}

static dnnl_status_t md_by_strides(md *m, int rank, const dnnl_dims_t dims, const dnnl_dims_t strides) {
#if DNNL_VERSION_MAJOR >= 3
  dnnl_status_t s = dnnl_memory_desc_create_with_strides(&m->desc, rank, dims, dnnl_f32, strides);
#else
  dnnl_status_t s = dnnl_memory_desc_init_by_strides(&m->desc, rank, dims, dnnl_f32, strides);
#endif
  m->set = s == dnnl_success;
  return s;
}

static dnnl_status_t md_copy(md *m, md_pointer from) {
  if (!from || dnnl_memory_desc_get_size(from) == 0) return dnnl_success;
#if DNNL_VERSION_MAJOR >= 3
  dnnl_status_t s = dnnl_memory_desc_clone(&m->desc, from);
  m->set = s == dnnl_success;
  return s;
#else
  m->desc = *from;
  m->set = true;
  return dnnl_success;
#endif
}

static dnnl_status_t md_dense(md *m, int rank, const int64_t *dims, bool swapped) {
  dnnl_dims_t d, strides;
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    d[i] = dims[i];
    strides[i] = stride;
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
  if (swapped) {
    strides[rank - 1] = dims[rank - 2];
    strides[rank - 2] = 1;
  }
  return md_by_strides(m, rank, d, strides);
}

static dnnl_status_t md_make(md *m, const onednn_tensor *t) {
  static const dnnl_format_tag_t tags[3][3] = {{dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b},
                                               {dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b},
                                               {dnnl_acb, dnnl_acdb, dnnl_acdeb}};
  if (t->format == ONEDNN_ABSENT) return dnnl_success;
  if (t->format == ONEDNN_DENSE) return md_dense(m, t->rank, t->dims, false);
  if (t->format == ONEDNN_DENSE_SWAPPED) return md_dense(m, t->rank, t->dims, true);
  dnnl_dims_t dims;
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
  if (t->rank < 3 || t->rank > 5) return dnnl_invalid_arguments;
  return md_by_tag(m, t->rank, dims, tags[t->format - ONEDNN_BLOCK8][t->rank - 3]);
}

/* Whatever the primitive likes best. */
static dnnl_status_t md_any(md *m, const onednn_tensor *t) {
  dnnl_dims_t dims;
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
  return md_by_tag(m, t->rank, dims, dnnl_format_tag_any);
}

static int64_t md_bytes(const md *m) { return m->set ? (int64_t)dnnl_memory_desc_get_size(MD_POINTER(m)) : 0; }

/* A name of the exact memory format; of 3.0 to 3.2, which do not show it, one of its own each time. */
static dnnl_status_t md_key(const md *m, char key[60]) {
  XXH128_hash_t h = {0, 0};
#if DNNL_VERSION_MAJOR < 3
  h = XXH3_128bits(&m->desc, sizeof m->desc);
#elif DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR < 3
  static uint64_t counter;
  h.low64 = __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
  (void)m;
#else
  size_t size = 0;
  dnnl_status_t s = dnnl_memory_desc_get_blob(NULL, &size, m->desc);
  if (s != dnnl_success) return s;
  uint8_t *blob = mem_alloc(size);
  if (!blob) return dnnl_out_of_memory;
  s = dnnl_memory_desc_get_blob(blob, &size, m->desc);
  if (s == dnnl_success) h = XXH3_128bits(blob, size);
  mem_free(blob);
  if (s != dnnl_success) return s;
#endif
  snprintf(key, 60, "onednn.%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
  return dnnl_success;
}

/* ---- attributes --------------------------------------------------------------------------- */

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl_post_ops_append_sum(ops, scale, 0, dnnl_f32);
#else
  return dnnl_post_ops_append_sum(ops, scale);
#endif
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha, float beta) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl_post_ops_append_eltwise(ops, kind, alpha, beta);
#else
  return dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, beta);
#endif
}

static dnnl_status_t append_post(dnnl_post_ops_t ops, const onednn_post_op *p) {
  static const dnnl_alg_kind_t kinds[] = {
      [ONEDNN_LINEAR] = dnnl_eltwise_linear, [ONEDNN_RELU] = dnnl_eltwise_relu,
      [ONEDNN_CLIP] = dnnl_eltwise_clip,     [ONEDNN_SIGMOID] = dnnl_eltwise_logistic,
      [ONEDNN_TANH] = dnnl_eltwise_tanh,     [ONEDNN_ELU] = dnnl_eltwise_elu,
      [ONEDNN_SWISH] = dnnl_eltwise_swish,   [ONEDNN_HARD_SWISH] = dnnl_eltwise_hardswish,
      [ONEDNN_GELU] = dnnl_eltwise_gelu_erf, [ONEDNN_GELU_TANH] = dnnl_eltwise_gelu_tanh,
  };
  if (p->kind == ONEDNN_SUM) return append_sum(ops, p->alpha);
  /* 2.x takes hard swish's slope and offset for granted; 3.x wants them. */
  if (p->kind == ONEDNN_HARD_SWISH) return append_eltwise(ops, dnnl_eltwise_hardswish, 1.0f / 6, 0.5f);
  return append_eltwise(ops, kinds[p->kind], p->alpha, p->beta);
}

/* Scratch memory comes from the caller; post-ops as given. */
static dnnl_status_t attr_make(const onednn_post *post, dnnl_primitive_attr_t *out) {
  dnnl_primitive_attr_t attr;
  dnnl_post_ops_t ops;
  dnnl_status_t s = dnnl_primitive_attr_create(&attr);
  if (s != dnnl_success) return s;
  s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  if (s == dnnl_success && post && post->count) {
    s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success) {
      for (int i = 0; i < post->count && s == dnnl_success; i++) s = append_post(ops, &post->ops[i]);
      if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, ops);
      dnnl_post_ops_destroy(ops);
    }
  }
  if (s != dnnl_success) {
    dnnl_primitive_attr_destroy(attr);
    return s;
  }
  *out = attr;
  return s;
}

/* ---- creating ----------------------------------------------------------------------------- */

static void request_finish(request *r) {
  md_finish(&r->src);
  md_finish(&r->weights);
  md_finish(&r->bias);
  md_finish(&r->dst);
}

static dnnl_status_t query(dnnl_primitive_desc_t pd, dnnl_query_t what, int index, md *out) {
  return md_copy(out, dnnl_primitive_desc_query_md(pd, what, index));
}

/* The reorder that packs weights, if the primitive's differ from dense ones. */
static dnnl_status_t make_pack(onednn_primitive *p, const onednn_tensor *weights) {
  dnnl_status_t s = md_dense(&p->dense, weights->rank, weights->dims, weights->format == ONEDNN_DENSE_SWAPPED);
  if (s != dnnl_success) return s;
  const md *to = &p->roles[ROLE_WEIGHTS];
  if (!to->set || dnnl_memory_desc_equal(MD_POINTER(&p->dense), MD_POINTER(to))) return dnnl_success;
  s = md_key(to, p->key);
  if (s != dnnl_success) return s;
  dnnl_primitive_attr_t attr;
  s = attr_make(NULL, &attr);
  if (s != dnnl_success) return s;
  dnnl_primitive_desc_t pd;
  s = dnnl_reorder_primitive_desc_create(&pd, MD_POINTER(&p->dense), onednn_engine, MD_POINTER(to), onednn_engine,
                                         attr);
  if (s == dnnl_success) {
    s = query(pd, dnnl_query_scratchpad_md, 0, &p->pack_scratch);
    if (s == dnnl_success) s = dnnl_primitive_create(&p->pack, pd);
    dnnl_primitive_desc_destroy(pd);
  }
  dnnl_primitive_attr_destroy(attr);
  return s;
}

/* Weights and bias as the primitive wants them; scale and shift are as they are. */
static dnnl_status_t query_weights(onednn_primitive *p, dnnl_primitive_desc_t pd, const family *f, const request *r) {
  p->args = f->affine ? affine_args : role_args;
  if (f->affine) {
    dnnl_status_t s = r->weights.set ? md_copy(&p->roles[ROLE_WEIGHTS], MD_POINTER(&r->weights)) : dnnl_success;
    return s == dnnl_success && r->bias.set ? md_copy(&p->roles[ROLE_BIAS], MD_POINTER(&r->bias)) : s;
  }
  dnnl_status_t s = f->weights ? query(pd, dnnl_query_weights_md, 0, &p->roles[ROLE_WEIGHTS]) : dnnl_success;
  return s == dnnl_success && r->bias.set ? query(pd, dnnl_query_weights_md, 1, &p->roles[ROLE_BIAS]) : s;
}

/* Takes the description over. */
static dnnl_status_t finish_primitive(onednn_primitive *p, dnnl_primitive_desc_t pd, const family *f,
                                      const request *r) {
  dnnl_status_t s = query(pd, dnnl_query_src_md, 0, &p->roles[ROLE_SRC]);
  if (s == dnnl_success) s = query(pd, dnnl_query_dst_md, 0, &p->roles[ROLE_DST]);
  if (s == dnnl_success) s = query_weights(p, pd, f, r);
  if (s == dnnl_success) s = query(pd, dnnl_query_scratchpad_md, 0, &p->roles[ROLE_SCRATCH]);
  if (s == dnnl_success) s = dnnl_primitive_create(&p->primitive, pd);
  dnnl_primitive_desc_destroy(pd);
  if (s == dnnl_success && f->weights && !f->affine) s = make_pack(p, f->weights);
  return s;
}

void onednn_destroy(onednn_primitive *p) {
  if (!p) return;
  if (p->primitive) dnnl_primitive_destroy(p->primitive);
  if (p->pack) dnnl_primitive_destroy(p->pack);
  for (int i = 0; i < ROLE_COUNT; i++) md_finish(&p->roles[i]);
  md_finish(&p->dense);
  md_finish(&p->pack_scratch);
  mem_free(p);
}

static dnnl_status_t build(const family *f, const void *desc, onednn_primitive *p) {
  request r = {0};
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t pd;
  dnnl_status_t s = attr_make(f->post, &attr);
  if (s != dnnl_success) return s;
  s = md_make(&r.src, f->src);
  if (s == dnnl_success && f->weights) s = f->pack ? md_any(&r.weights, f->weights) : md_make(&r.weights, f->weights);
  if (s == dnnl_success && f->bias) s = md_make(&r.bias, f->bias);
  if (s == dnnl_success) s = md_make(&r.dst, f->dst);
  if (s == dnnl_success) s = f->describe(desc, &r, attr, &pd);
  if (s == dnnl_success) s = finish_primitive(p, pd, f, &r);
  request_finish(&r);
  dnnl_primitive_attr_destroy(attr);
  return s;
}

rlx_status onednn_create(const void *ctx, int threads, const family *f, const void *desc, onednn_primitive **out) {
  dnnl_status_t s = start();
  if (s != dnnl_success) return fail(ctx, "engine", s);
  onednn_primitive *p = mem_zalloc(sizeof *p);
  if (!p) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "oneDNN: %s: out of memory", f->name);
  p->threads = threads;
  int before = use_threads(threads);
  s = build(f, desc, p);
  restore_threads(before);
  if (s != dnnl_success) {
    onednn_destroy(p);
    return fail(ctx, f->name, s);
  }
  *out = p;
  return RLX_OK;
}

const char *onednn_implementation(const onednn_primitive *p) {
  const_dnnl_primitive_desc_t pd;
  const char *name = "";
  if (dnnl_primitive_get_primitive_desc(p->primitive, &pd) != dnnl_success) return "";
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success ? name : "";
}

/* ---- executing ---------------------------------------------------------------------------- */

static int64_t padded(int64_t bytes) { return (bytes + 63) & ~INT64_C(63); }

/* The workspace holds the larger scratchpad, then weights packed for one run. */
static int64_t scratch_bytes(const onednn_primitive *p) {
  int64_t a = padded(md_bytes(&p->roles[ROLE_SCRATCH])), b = padded(md_bytes(&p->pack_scratch));
  return a > b ? a : b;
}

int64_t onednn_workspace(const onednn_primitive *p, bool packed) {
  return scratch_bytes(p) + (p->pack && !packed ? padded(md_bytes(&p->roles[ROLE_WEIGHTS])) : 0);
}

void onednn_packing(const onednn_primitive *p, rlx_packing *out) {
  if (!p->pack) return;
  out->bytes = md_bytes(&p->roles[ROLE_WEIGHTS]);
  memcpy(out->key, p->key, sizeof out->key);
}

static dnnl_status_t slot_make(slot *s, const md *m) {
  return m->set ? dnnl_memory_create(&s->memory, MD_POINTER(m), onednn_engine, DNNL_MEMORY_NONE) : dnnl_success;
}

/* Setting a handle clears the padding of blocked memory, so it is done only when it changes. */
static dnnl_status_t slot_set(slot *s, const void *data) {
  if (!s->memory || s->data == data) return dnnl_success;
  union {
    const void *from;
    void *to;
  } cast = {data};
  dnnl_status_t status = dnnl_memory_set_data_handle(s->memory, cast.to);
  if (status == dnnl_success) s->data = data;
  return status;
}

static void slot_finish(slot *s) {
  if (s->memory) dnnl_memory_destroy(s->memory);
}

void onednn_run_destroy(onednn_run *r) {
  if (!r) return;
  for (int i = 0; i < ROLE_COUNT; i++) slot_finish(&r->roles[i]);
  slot_finish(&r->pack_from);
  slot_finish(&r->pack_scratch);
  if (r->stream) dnnl_stream_destroy(r->stream);
  mem_free(r);
}

rlx_status onednn_run_create(const onednn_primitive *p, onednn_run **out) {
  onednn_run *r = mem_zalloc(sizeof *r);
  if (!r) return status_no_memory(sizeof *r);
  dnnl_status_t s = dnnl_stream_create(&r->stream, onednn_engine, dnnl_stream_default_flags);
  for (int i = 0; i < ROLE_COUNT && s == dnnl_success; i++) s = slot_make(&r->roles[i], &p->roles[i]);
  if (s == dnnl_success && p->pack) s = slot_make(&r->pack_from, &p->dense);
  if (s == dnnl_success && p->pack) s = slot_make(&r->pack_scratch, &p->pack_scratch);
  if (s != dnnl_success) {
    onednn_run_destroy(r);
    return status_fail(status_of(s), "oneDNN: the state of a run could not be made");
  }
  *out = r;
  return RLX_OK;
}

static int add_argument(dnnl_exec_arg_t *list, int count, int arg, const slot *s) {
  if (!s->memory) return count;
  list[count] = (dnnl_exec_arg_t){arg, s->memory};
  return count + 1;
}

/* Weights are packed into roles[ROLE_WEIGHTS]. */
static dnnl_status_t execute_pack(const onednn_primitive *p, onednn_run *r, const void *from, void *scratch) {
  dnnl_exec_arg_t list[3];
  dnnl_status_t s = slot_set(&r->pack_from, from);
  if (s == dnnl_success) s = slot_set(&r->pack_scratch, scratch);
  if (s != dnnl_success) return s;
  int count = add_argument(list, 0, DNNL_ARG_FROM, &r->pack_from);
  count = add_argument(list, count, DNNL_ARG_TO, &r->roles[ROLE_WEIGHTS]);
  count = add_argument(list, count, DNNL_ARG_SCRATCHPAD, &r->pack_scratch);
  return dnnl_primitive_execute(p->pack, r->stream, count, list);
}

/* Small weights are packed by the calling thread alone: loading packs many of them, the other threads are asleep, and
 * on a busy machine waking one for each costs more than the packing. */
static int pack_threads(const onednn_primitive *p) {
  return md_bytes(&p->roles[ROLE_WEIGHTS]) < INT64_C(4) << 20 ? 1 : p->threads;
}

rlx_status onednn_pack(const void *ctx, const onednn_primitive *p, const void *from, void *to) {
  md_pointer dense = MD_POINTER(&p->dense), wanted = MD_POINTER(&p->roles[ROLE_WEIGHTS]);
  int threads = pack_threads(p);
  if (onednn_pack_blocked(dense, wanted, from, to, threads)) return RLX_OK;
  if (onednn_pack_winograd(dense, wanted, from, to, threads)) return RLX_OK;
  onednn_run *r = NULL;
  if (onednn_run_create(p, &r) != RLX_OK) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "oneDNN: packing: out of memory");
  int64_t bytes = padded(md_bytes(&p->pack_scratch));
  void *scratch = bytes ? mem_aligned(64, (size_t)bytes) : NULL;
  dnnl_status_t s = bytes && !scratch ? dnnl_out_of_memory : slot_set(&r->roles[ROLE_WEIGHTS], to);
  int before = use_threads(threads);
  if (s == dnnl_success) s = execute_pack(p, r, from, scratch);
  restore_threads(before);
  mem_free(scratch);
  onednn_run_destroy(r);
  return s == dnnl_success ? RLX_OK : fail(ctx, "packing", s);
}

static dnnl_status_t execute(const onednn_primitive *p, onednn_run *r, const onednn_args *a) {
  bool pack = p->pack && !a->packed;
  const void *weights = pack ? (char *)a->workspace + scratch_bytes(p) : a->weights;
  const void *data[ROLE_COUNT] = {a->src, weights, a->bias, a->dst, a->workspace};
  dnnl_exec_arg_t list[ROLE_COUNT];
  dnnl_status_t s = dnnl_success;
  int count = 0;
  for (int i = 0; i < ROLE_COUNT && s == dnnl_success; i++) {
    s = slot_set(&r->roles[i], data[i]);
    count = add_argument(list, count, p->args[i], &r->roles[i]);
  }
  if (s == dnnl_success && pack) s = execute_pack(p, r, a->weights, a->workspace);
  return s == dnnl_success ? dnnl_primitive_execute(p->primitive, r->stream, count, list) : s;
}

rlx_status onednn_execute(const void *ctx, const onednn_primitive *p, onednn_run *r, const onednn_args *args) {
  int before = use_threads(p->threads);
  dnnl_status_t s = execute(p, r, args);
  restore_threads(before);
  return s == dnnl_success ? RLX_OK : fail(ctx, "execute", s);
}

#if defined(__x86_64__)
static bool has_isa(dnnl_cpu_isa_t wanted) { return (dnnl_get_effective_cpu_isa() & wanted) == wanted; }
int onednn_channel_block(void) { return has_isa(dnnl_cpu_isa_avx512_core) ? 16 : has_isa(dnnl_cpu_isa_avx2) ? 8 : 0; }
bool onednn_convolves(void) { return has_isa(dnnl_cpu_isa_avx2); }
#else
int onednn_channel_block(void) { return 0; }
bool onednn_convolves(void) { return true; }
#endif
