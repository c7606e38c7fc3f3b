/* deform_isa.h — sampling and products for one instruction set. Included by one file each, which defines
 *   VEC, LANES, LOAD(p), STORE(p, v), SET(x), FMA(a, b, c)   vectors of LANES floats
 *   ISA                                                      the name of the table
 * A panel of DEFORM_PANEL columns is a whole number of pairs of vectors. */

/* Adds a point's four neighbours, weighted, to `out`. */
static void add_point(const deform_head *h, const float *const corner[4], const float weight[4], float *out) {
  const float *a = corner[0], *b = corner[1], *c = corner[2], *d = corner[3];
  VEC wa = SET(weight[0]), wb = SET(weight[1]), wc = SET(weight[2]), wd = SET(weight[3]);
  int64_t i = 0;
  for (; i + LANES <= h->width; i += LANES) {
    VEC sum = FMA(wa, LOAD(a + i), LOAD(out + i));
    sum = FMA(wb, LOAD(b + i), sum);
    sum = FMA(wc, LOAD(c + i), sum);
    STORE(out + i, FMA(wd, LOAD(d + i), sum));
  }
  for (; i < h->width; i++) out[i] += weight[0] * a[i] + weight[1] * b[i] + weight[2] * c[i] + weight[3] * d[i];
}

static void sample(const deform_levels *levels, const deform_head *h, float *out) {
  for (int64_t i = 0; i < h->width; i++) out[i] = 0;
  for (int64_t l = 0; l < levels->count; l++) {
    const deform_level *map = &levels->of[l];
    for (int64_t p = 0; p < h->points; p++) {
      int64_t at = l * h->points + p;
      float x = h->places[2 * at] * (float)map->width - 0.5F, y = h->places[2 * at + 1] * (float)map->height - 0.5F;
      /* Also false for NaN. */
      if (!(x > -1 && y > -1 && x < (float)map->width && y < (float)map->height)) continue;
      int64_t left = (int64_t)(x + 1) - 1, top = (int64_t)(y + 1) - 1;
      float fx = x - (float)left, fy = y - (float)top, w = h->weights[at];
      const float weight[4] = {w * (1 - fy) * (1 - fx), w * (1 - fy) * fx, w * fy * (1 - fx), w * fy * fx};
      const float *corner[4];
      for (int k = 0; k < 4; k++) {
        int64_t row = top + k / 2, column = left + k % 2;
        bool inside = row >= 0 && row < map->height && column >= 0 && column < map->width;
        corner[k] = inside ? h->value + (map->start + row * map->width + column) * h->stride : h->zeros;
      }
      add_point(h, corner, weight, out);
    }
  }
}

/* Four rows (fewer: the last ones repeat) by two vectors of columns. */
static void tile(const deform_product *p, const float *const x[4], const float *w, const float *bias, float *out) {
  VEC l0 = LOAD(bias), h0 = LOAD(bias + LANES), l1 = l0, h1 = h0, l2 = l0, h2 = h0, l3 = l0, h3 = h0;
  for (int64_t i = 0; i < p->k; i++, w += DEFORM_PANEL) {
    VEC low = LOAD(w), high = LOAD(w + LANES), v = SET(x[0][i]);
    l0 = FMA(v, low, l0), h0 = FMA(v, high, h0), v = SET(x[1][i]);
    l1 = FMA(v, low, l1), h1 = FMA(v, high, h1), v = SET(x[2][i]);
    l2 = FMA(v, low, l2), h2 = FMA(v, high, h2), v = SET(x[3][i]);
    l3 = FMA(v, low, l3), h3 = FMA(v, high, h3);
  }
  STORE(out, l0), STORE(out + LANES, h0), out += DEFORM_PANEL;
  STORE(out, l1), STORE(out + LANES, h1), out += DEFORM_PANEL;
  STORE(out, l2), STORE(out + LANES, h2), out += DEFORM_PANEL;
  STORE(out, l3), STORE(out + LANES, h3);
}

static void product(const deform_product *p) {
  float out[4 * DEFORM_PANEL];
  for (int64_t c = 0; c < p->columns; c += DEFORM_PANEL) {
    const float *w = p->weights + c * p->k;
    int64_t columns = p->columns - c < DEFORM_PANEL ? p->columns - c : DEFORM_PANEL;
    for (int64_t r = 0; r < p->rows; r += 4) {
      int64_t rows = p->rows - r < 4 ? p->rows - r : 4;
      const float *x[4];
      for (int64_t i = 0; i < 4; i++) x[i] = p->x + (r + (i < rows ? i : rows - 1)) * p->x_stride;
      for (int64_t v = 0; v < DEFORM_PANEL; v += 2 * LANES) tile(p, x, w + v, p->bias + c + v, out + v);
      for (int64_t i = 0; i < rows; i++)
        memcpy(p->y + (r + i) * p->y_stride + c, out + i * DEFORM_PANEL, (size_t)columns * sizeof *out);
    }
  }
}

const deform_isa ISA = {sample, product};
