/* sample_grad.h — the derivative of sampling. Included once for each REAL, with NAME(name) for its functions. */

/* Gradients start as zeros. A head writes its own part of each: heads may run at once. */
typedef struct NAME(grad) {
  const sample_shape *s;
  const REAL *value, *locations, *weights, *grad;
  REAL *value_grad, *locations_grad, *weights_grad;
} NAME(grad);

/* One point at sample `at`; value and grad of its batch and head. */
static void NAME(grad_point)(const NAME(grad) * g, const deform_level *map, int64_t at, int64_t value,
                             const REAL *grad) {
  const REAL half = (REAL)0.5, width = (REAL)map->width, height = (REAL)map->height;
  REAL x = g->locations[2 * at] * width - half, y = g->locations[2 * at + 1] * height - half;
  if (!(x > -1 && y > -1 && x < width && y < height)) return;
  int64_t left = (int64_t)(x + 1) - 1, top = (int64_t)(y + 1) - 1, stride = g->s->heads * g->s->width;
  REAL fx = x - (REAL)left, fy = y - (REAL)top, weight = g->weights[at], dot[4] = {0};
  const REAL part[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  for (int k = 0; k < 4; k++) {
    int64_t row = top + k / 2, column = left + k % 2;
    if (row < 0 || row >= map->height || column < 0 || column >= map->width) continue;
    int64_t from = value + (map->start + row * map->width + column) * stride;
    for (int64_t c = 0; c < g->s->width; c++) {
      dot[k] += grad[c] * g->value[from + c];
      g->value_grad[from + c] += weight * part[k] * grad[c];
    }
  }
  g->weights_grad[at] = part[0] * dot[0] + part[1] * dot[1] + part[2] * dot[2] + part[3] * dot[3];
  g->locations_grad[2 * at] = weight * width * ((1 - fy) * (dot[1] - dot[0]) + fy * (dot[3] - dot[2]));
  g->locations_grad[2 * at + 1] = weight * height * ((1 - fx) * (dot[2] - dot[0]) + fx * (dot[3] - dot[1]));
}

/* Head i, counted through batches. */
static void NAME(grad_head)(const NAME(grad) * g, int64_t i) {
  const sample_shape *s = g->s;
  int64_t b = i / s->heads, head = i % s->heads, samples = s->levels.count * s->points;
  int64_t value = (b * s->rows * s->heads + head) * s->width;
  for (int64_t q = b * s->queries; q < (b + 1) * s->queries; q++) {
    const REAL *grad = g->grad + (q * s->heads + head) * s->width;
    for (int64_t k = 0; k < samples; k++)
      NAME(grad_point)(g, &s->levels.of[k / s->points], (q * s->heads + head) * samples + k, value, grad);
  }
}
