/* adapter.h — the one door to oneDNN: primitives described in plain numbers, for 2.x and 3.x alike.
 *
 * A primitive is immutable and shared by all threads; a run is the mutable part, one per concurrent run.
 * Executing allocates nothing. `ctx` is the rlx_bound or rlx_ctx that failures are recorded in. */
#ifndef ONEDNN_ADAPTER_H
#define ONEDNN_ADAPTER_H

#include <rlx/extend.h>

#define ONEDNN_RANK 6      /* most dims of an operand: grouped 3-D weights */
#define ONEDNN_POST_OPS 4

typedef enum onednn_format {
  ONEDNN_ABSENT = 0,
  ONEDNN_DENSE,         /* row-major, or its last two dims swapped */
  ONEDNN_DENSE_SWAPPED,
  ONEDNN_BLOCK8,        /* channels (dim 1) in blocks of 8 */
  ONEDNN_BLOCK16,
  ONEDNN_CHANNELS_LAST
} onednn_format;

typedef struct onednn_tensor {
  onednn_format format;
  int rank;
  int64_t dims[ONEDNN_RANK];
} onednn_tensor;

typedef enum onednn_post_kind {
  ONEDNN_SUM,        /* + alpha * what the output held before */
  ONEDNN_LINEAR,     /* alpha * x + beta */
  ONEDNN_RELU,       /* x < 0 ? alpha * x : x */
  ONEDNN_CLIP,       /* to [alpha, beta] */
  ONEDNN_SIGMOID,
  ONEDNN_TANH,
  ONEDNN_ELU,        /* x < 0 ? alpha * (exp(x) - 1) : x */
  ONEDNN_SWISH,      /* x * sigmoid(alpha * x) */
  ONEDNN_HARD_SWISH, /* x * clip(x / 6 + 1 / 2, 0, 1) */
  ONEDNN_GELU,       /* with erf */
  ONEDNN_GELU_TANH
} onednn_post_kind;

typedef struct onednn_post_op {
  onednn_post_kind kind;
  float alpha, beta;
} onednn_post_op;

/* Applied to the result in order. */
typedef struct onednn_post {
  int count;
  onednn_post_op ops[ONEDNN_POST_OPS];
} onednn_post;

/* A sliding window over up to three spatial dims. */
typedef struct onednn_window {
  int64_t kernel[3], strides[3], dilations[3]; /* dilation 1: dense */
  int64_t before[3], after[3];                 /* padding */
} onednn_window;

typedef enum onednn_pool_kind {
  ONEDNN_POOL_MAX,
  ONEDNN_POOL_AVERAGE,       /* over the points inside the input */
  ONEDNN_POOL_AVERAGE_PADDED /* over the whole window */
} onednn_pool_kind;

typedef struct onednn_convolution_desc {
  onednn_tensor src, weights, bias, dst; /* weights [M, C, k…], or [g, M / g, C / g, k…] */
  onednn_window window;
  onednn_post post;
  bool winograd; /* may be used where oneDNN has it */
} onednn_convolution_desc;

typedef struct onednn_pooling_desc {
  onednn_tensor src, dst;
  onednn_window window;
  onednn_pool_kind kind;
} onednn_pooling_desc;

typedef struct onednn_lrn_desc {
  onednn_tensor src; /* and dst */
  int64_t size;
  float alpha, beta, bias;
} onednn_lrn_desc;

typedef struct onednn_layernorm_desc {
  onednn_tensor src, scale, shift; /* [rows, columns], [columns], [columns] or absent; dst is like src */
  float epsilon;
} onednn_layernorm_desc;

typedef struct onednn_matmul_desc {
  onednn_tensor src, weights, bias, dst; /* all of one rank; batch dims of 1 broadcast */
  onednn_post post;
  bool pack; /* the weights may be packed; else they are used as they are */
} onednn_matmul_desc;

typedef struct onednn_primitive onednn_primitive;
typedef struct onednn_run onednn_run;

rlx_status onednn_make_convolution(const void *ctx, int threads, const onednn_convolution_desc *d, onednn_primitive **out);
rlx_status onednn_make_pooling(const void *ctx, int threads, const onednn_pooling_desc *d, onednn_primitive **out);
rlx_status onednn_make_lrn(const void *ctx, int threads, const onednn_lrn_desc *d, onednn_primitive **out);
rlx_status onednn_make_matmul(const void *ctx, int threads, const onednn_matmul_desc *d, onednn_primitive **out);
rlx_status onednn_make_layernorm(const void *ctx, int threads, const onednn_layernorm_desc *d, onednn_primitive **out);
void onednn_destroy(onednn_primitive *p);
/* oneDNN's name of what runs it: "jit:avx512_core", … */
const char *onednn_implementation(const onednn_primitive *p);

/* Scratch bytes of one run; more if it has to pack the weights itself. */
int64_t onednn_workspace(const onednn_primitive *p, bool packed);
/* The packed form of the weights; bytes 0 if they are used as they are. */
void onednn_packing(const onednn_primitive *p, rlx_packing *out);
/* Packs dense weights. */
rlx_status onednn_pack(const void *ctx, const onednn_primitive *p, const void *from, void *to);

typedef struct onednn_args {
  const void *src, *weights, *bias;
  void *dst, *workspace;
  bool packed; /* weights are packed; else they are packed into the workspace if need be */
} onednn_args;

rlx_status onednn_run_create(const onednn_primitive *p, onednn_run **out);
void onednn_run_destroy(onednn_run *r);
rlx_status onednn_execute(const void *ctx, const onednn_primitive *p, onednn_run *r, const onednn_args *args);

/* Channels of a block that suits the vectors of this machine: 16, 8, or 0: row-major is best. */
int onednn_channel_block(void);
/* Whether convolutions can be left to it: those of 2.6 for x86 before AVX2 read out of bounds. */
bool onednn_convolves(void);

#endif
