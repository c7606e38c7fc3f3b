/* _recurrent_isa.h — the functions of _recurrent.h for one instruction set. Included by one file each, which defines
 *   #define ISA_TABLE recurrent_table_avx2  the name of the table
 *   #define MADD(a, b, c)                   a * b + c, fused where the instruction set can
 *   #define LANES 8                         floats of a vector
 *   #define VECTOR_MADD(a, b, c)            a * b + c of vectors
 *   #define TILE_ROWS 2                     rows of x whose sums fit into registers */
#include "backend/cpu/kernels/_vector_math.h"

enum { VECTORS = 4, WIDTH = VECTORS * LANES };

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static inline vector load(const float *p) {
  vector v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* `count` rows of x from the i-th on with one panel; count is a constant where this is inlined. */
__attribute__((always_inline)) static inline void tile(const recurrent_product *p, int64_t panel, int64_t i,
                                                       int count) {
  const float *w = p->packed + panel * p->depth * WIDTH, *x[TILE_ROWS];
  int64_t column = panel * WIDTH, n = p->columns - column < WIDTH ? p->columns - column : WIDTH;
  float edge[TILE_ROWS][WIDTH];
  vector sum[TILE_ROWS][VECTORS];
  for (int r = 0; r < count; r++) {
    const float *from = p->start ? p->start + column : p->y + (i + r) * p->y_stride + column;
    if (n < WIDTH) from = memcpy(edge[r], from, (size_t)n * sizeof *from);
    for (int64_t k = n; k < WIDTH; k++) edge[r][k] = 0;
    for (int v = 0; v < VECTORS; v++) sum[r][v] = load(from + v * LANES);
    x[r] = p->x[i + r];
  }
  for (int64_t k = 0; k < p->depth; k++, w += WIDTH) {
    for (int r = 0; r < count; r++) {
      vector scale = (vector){0} + x[r][k];
      for (int v = 0; v < VECTORS; v++) sum[r][v] = VECTOR_MADD(load(w + v * LANES), scale, sum[r][v]);
    }
  }
  for (int r = 0; r < count; r++) {
    float *to = p->y + (i + r) * p->y_stride + column;
    memcpy(n < WIDTH ? edge[r] : to, sum[r], sizeof sum[r]);
    if (n < WIDTH) memcpy(to, edge[r], (size_t)n * sizeof *to);
  }
}

static void product(const recurrent_product *p, int64_t panel_begin, int64_t panel_end) {
  for (int64_t panel = panel_begin; panel < panel_end; panel++) {
    int64_t i = 0;
    for (; i + TILE_ROWS <= p->rows; i += TILE_ROWS) tile(p, panel, i, TILE_ROWS);
    for (; i < p->rows; i++) tile(p, panel, i, 1);
  }
}

static void activate(const activation *f, float clip, float *x, int64_t n) {
  float alpha = (float)f->alpha, beta = (float)f->beta;
  if (clip > 0) {
    for (int64_t i = 0; i < n; i++) {
      float low = x[i] > -clip ? x[i] : -clip;
      x[i] = low < clip ? low : clip;
    }
  }
  switch (f->kind) {
    case ACTIVATION_TANH:
      for (int64_t i = 0; i < n; i++) x[i] = v_tanh(x[i]);
      break;
    case ACTIVATION_SIGMOID:
      for (int64_t i = 0; i < n; i++) x[i] = v_sigmoid(x[i]);
      break;
    case ACTIVATION_RELU:
      for (int64_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
      break;
    case ACTIVATION_HARD_SIGMOID:
      for (int64_t i = 0; i < n; i++) {
        float y = MADD(alpha, x[i], beta), low = y > 0 ? y : 0;
        x[i] = low < 1 ? low : 1;
      }
      break;
    default:
      for (int64_t i = 0; i < n; i++) x[i] = (float)activation_apply(f, (double)x[i]);
  }
}

const recurrent_table ISA_TABLE = {WIDTH, product, activate};
