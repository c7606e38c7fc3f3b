/* deform.h — multi-scale deformable attention: what its ops and kernels share. */
#ifndef VISION_DEFORM_H
#define VISION_DEFORM_H

#include <rlx/extend.h>

enum { DEFORM_LEVELS = 64, DEFORM_PANEL = 32 };

/* A feature map: rows start … start + height * width of the source. */
typedef struct deform_level {
  int64_t height, width, start;
} deform_level;

typedef struct deform_levels {
  int64_t count, total; /* total: rows of all */
  deform_level of[DEFORM_LEVELS];
} deform_levels;

/* From (height, width) pairs. NULL, or what is wrong, in the buffer of rlx_reason. */
const char *deform_levels_from(const int64_t *shapes, int64_t count, deform_levels *levels);

/* ---- sampling, for each instruction set ------------------------------------------------------------------------- */

/* One head of one query. */
typedef struct deform_head {
  const float *value;  /* of the head: rows `stride` apart, `width` channels each */
  const float *places; /* level, point, (x, y): parts of the map */
  const float *weights;
  const float *zeros; /* `width` of them: what lies outside a map */
  int64_t stride, width, points;
} deform_head;

/* rows of x (k elements each, x_stride apart) times packed weights plus bias: `columns` elements of each row of y. */
typedef struct deform_product {
  const float *x, *weights, *bias; /* weights: see deform_pack; bias: as many as the panels have columns */
  float *y;
  int64_t rows, k, columns, x_stride, y_stride;
} deform_product;

typedef struct deform_isa {
  void (*sample)(const deform_levels *levels, const deform_head *h, float *out); /* out: `width` sums */
  void (*product)(const deform_product *p);
} deform_isa;

extern const deform_isa deform_isa_base;
#if defined(__x86_64__)
extern const deform_isa deform_isa_avx2;
extern const deform_isa deform_isa_avx512;
#endif
const deform_isa *deform_isa_best(void);

/* Floats that packed weights of out × k take, and their bias. */
int64_t deform_packed(int64_t out, int64_t k);
int64_t deform_packed_bias(int64_t out);
/* [out, k] to panels of DEFORM_PANEL columns, k rows each; what is past the last column is zero. */
void deform_pack(const float *weights, const float *bias, int64_t out, int64_t k, float *packed, float *packed_bias);

/* ---- operands as doubles, for the references -------------------------------------------------------------------- */

/* The elements of an operand (float, double, float16) as doubles, to be freed; NULL without memory. */
double *deform_load(const rlx_operand *o);
void deform_store(const rlx_operand *o, const double *from);

/* ---- in double -------------------------------------------------------------------------------------------------- */

/* As deform_isa.sample; out is added to. */
typedef struct deform_head_f64 {
  const double *value, *places, *weights;
  int64_t stride, width, points;
} deform_head_f64;
void deform_sample_f64(const deform_levels *levels, const deform_head_f64 *h, double *out);

/* ---- sampling by itself ----------------------------------------------------------------------------------------- */

/* The sizes of a node whose dims are known. */
typedef struct sample_shape {
  deform_levels levels;
  int64_t batch, queries, heads, points, width, rows; /* width: of one head */
} sample_shape;
/* operands: value, shapes, locations, weights; grad: of the result, or NULL. NULL, or what does not fit. */
const char *sample_resolve(const rlx_operand *const operands[], const rlx_operand *grad, sample_shape *s);

/* ---- records ---------------------------------------------------------------------------------------------------- */

extern const rlx_op vision_ms_deform_sample, vision_ms_deform_sample_grad, vision_ms_deform_attn;
extern const rlx_cpu_kernel vision_sample_kernel, vision_sample_grad_kernel, vision_attn_kernel;

/* Params of gdino.ms_deform_attn. */
typedef struct attn_params {
  uint64_t given;
  int64_t heads, points;
  rlx_ints shapes;
} attn_params;

enum {
  ATTN_QUERY,
  ATTN_SOURCE,
  ATTN_REFERENCE,
  ATTN_VALUE_WEIGHT,
  ATTN_VALUE_BIAS,
  ATTN_OFFSET_WEIGHT,
  ATTN_OFFSET_BIAS,
  ATTN_SCORE_WEIGHT,
  ATTN_SCORE_BIAS,
  ATTN_OUTPUT_WEIGHT,
  ATTN_OUTPUT_BIAS,
  ATTN_INPUTS
};

/* The sizes of a node whose dims are known. */
typedef struct attn_shape {
  deform_levels levels;
  int64_t batch, queries, query_width, source_width, heads, points, width, out_width; /* width: of all heads */
  int64_t reference;                                                                  /* 2 or 4 */
} attn_shape;
/* NULL, or what is wrong. */
const char *attn_resolve(const attn_params *p, const rlx_type *const *inputs, attn_shape *s);
const char *attn_resolve_run(const rlx_ctx *ctx, attn_shape *s);

rlx_status attn_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads);
rlx_status attn_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs);

#endif
