/* cache.h — compiled kernels and pipelines, in memory and on disk: found by what they were made from, made once. */
#ifndef BACKEND_GPU_CACHE_H
#define BACKEND_GPU_CACHE_H

#include <rlx/rlx.h>

/* What the code was made from. Every field may be NULL, which differs from "". */
typedef struct gpu_cache_key {
  const char *kind;     /* "spirv", "pipeline", "cubin", … */
  const char *source;   /* the text */
  const char *options;  /* compiler options */
  const char *compiler; /* name and version */
  const char *driver;   /* name and version; for what depends on it */
  const char *device;   /* likewise */
} gpu_cache_key;

/* A compiled thing: immutable, reference-counted. */
typedef struct gpu_blob gpu_blob;
const void *gpu_blob_data(const gpu_blob *b);
size_t gpu_blob_bytes(const gpu_blob *b);
void gpu_blob_release(gpu_blob *b); /* before its cache is closed */

typedef struct gpu_cache gpu_cache;

/* The process's cache: on disk under RLX_PIPELINE_CACHE, else $XDG_CACHE_HOME/rlx or ~/.cache/rlx; only in memory with
 * RLX_PIPELINE_CACHE=0 or where no folder can be made. The environment is read at each call; equal folders share one
 * cache. Never fails for the disk's sake. Released with gpu_cache_close. */
rlx_status gpu_cache_open(gpu_cache **out);
/* One on a folder of its own, NULL: in memory; at most max_bytes there (0: 256 MiB), oldest use dropped first. */
rlx_status gpu_cache_create(const char *folder, int64_t max_bytes, gpu_cache **out);
void gpu_cache_close(gpu_cache *c);

/* Finds or makes; concurrent callers of one key wait for the one that makes it. make's *data is from mem_alloc and
 * taken over. A failure of make is returned and not kept. */
rlx_status gpu_cache_get(gpu_cache *c, const gpu_cache_key *key,
                         rlx_status (*make)(void *arg, void **data, size_t *bytes), void *arg, gpu_blob **out);

typedef struct gpu_cache_stats {
  int64_t memory_hits, disk_hits, made;
} gpu_cache_stats;
gpu_cache_stats gpu_cache_count(gpu_cache *c);

#endif
