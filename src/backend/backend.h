/* backend.h — what a device is to the rest: a name, the kernels it takes, whether it is here. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <rlx/rlx.h>

/* A kind of device. One constant a backend; listed in backend.c. */
typedef struct backend {
  const char *name;                                 /* "cpu" */
  const char *const *kernels;                       /* backends whose kernels it runs, NULL-ended */
  const struct gpu_api *gpu;                        /* backend/gpu/gpu.h; NULL: the CPU */
  int (*device_count)(void);                        /* 0: none here */
  void (*describe)(int i, char *text, size_t size); /* device i, or with i < 0 why there is none */
  int (*preferred)(void); /* the device that "auto" means, -1: none is faster than the CPU; NULL: the first */
} backend;

extern const backend cpu_backend, metal_backend, record_backend, vulkan_backend; /* each in its own folder */

extern const backend *const backend_table[]; /* ends with NULL */

/* "cuda:1" → backend and index; "vulkan:llvmpipe": the first whose description has that word; "auto": the first that is
 * present. DEVICE with the reason when absent, NOT_FOUND for a name that is no device. */
rlx_status backend_find(const char *device, const backend **out, int *index);

#endif
