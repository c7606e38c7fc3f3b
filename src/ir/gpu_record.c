/* gpu_record.c — copying a portable kernel's record: functions, arguments, texts. */
#include "base/status.h"
#include "ir/record.h"

static rlx_status copy_string(arena *m, const char **s) {
  if (!*s) return RLX_OK;
  *s = arena_strdup(m, *s);
  return *s ? RLX_OK : status_no_memory(1);
}

/* Copies a list that ends with a NULL name, and the strings that `strings` does. */
#define COPY_LIST(T, list, strings)                                                                      \
  do {                                                                                                   \
    size_t n_ = 0;                                                                                       \
    while ((list) && (list)[n_].name) n_++;                                                              \
    T *copy_ = arena_array(m, n_ + 1, sizeof(T));                                                        \
    if (!copy_) return status_no_memory((n_ + 1) * sizeof(T));                                           \
    for (size_t i_ = 0; i_ < n_; i_++) {                                                                 \
      T *item = &copy_[i_];                                                                              \
      *item = (list)[i_];                                                                                \
      item->name = arena_strdup(m, item->name);                                                          \
      if (!item->name) return status_no_memory(sizeof(T));                                               \
      strings;                                                                                           \
    }                                                                                                    \
    (list) = copy_;                                                                                      \
  } while (0)

static rlx_status copy_function(arena *m, rlx_gpu_function *f) {
  COPY_LIST(rlx_gpu_arg, f->args, RLX_TRY(copy_string(m, &item->type)));
  COPY_LIST(rlx_gpu_shared, f->shared, RLX_TRY(copy_string(m, &item->type)));
  COPY_LIST(rlx_gpu_constant, f->constants, (void)0);
  const char **texts[] = {&f->body, &f->functions, &f->glsl, &f->cuda, &f->msl};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) RLX_TRY(copy_string(m, texts[i]));
  return RLX_OK;
}

rlx_status gpu_record_copy(arena *m, rlx_gpu_kernel *k) {
  COPY_LIST(rlx_gpu_function, k->functions, RLX_TRY(copy_function(m, item)));
  return RLX_OK;
}
