/* cache.c — compiled kernels and pipelines, in memory and on disk: found by what they were made from, made once.
 *
 * A file holds a header (what it is, its key, size and checksum) and the bytes; its name is the key in hexadecimal. A
 * file that is not whole is made anew. Files are written under another name and renamed. */
#include "backend/gpu/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/cache.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"

enum { PATH_BYTES = 1024, FORMAT = 1 };
static const int64_t default_disk_bytes = INT64_C(256) << 20, memory_bytes = INT64_C(64) << 20;

typedef struct file_header {
  char magic[4]; /* "RLXK" */
  uint32_t format;
  uint8_t key[16];
  uint64_t bytes, checksum;
} file_header;

struct gpu_cache {
  int users;
  gpu_cache *next;         /* in the list of the process's caches */
  char folder[PATH_BYTES]; /* "": none */
  int64_t max_bytes;
  cache *memory;
  pthread_mutex_t lock; /* of what follows */
  int64_t unswept;      /* bytes written since the folder was measured; -1: never measured */
  gpu_cache_stats stats;
};

/* Owns its bytes while an entry of the memory cache, whose reference a user holds. */
struct gpu_blob {
  rlx_cache_ref *ref;
  void *data;
  size_t bytes;
};

const void *gpu_blob_data(const gpu_blob *b) { return b->data; }
size_t gpu_blob_bytes(const gpu_blob *b) { return b->bytes; }

void gpu_blob_release(gpu_blob *b) {
  if (b) rlx_cache_release(b->ref);
}

static void blob_destroy(void *data) {
  gpu_blob *b = data;
  mem_free(b->data);
  mem_free(b);
}

/* ---- opening ---- */

static struct {
  pthread_mutex_t lock;
  gpu_cache *first;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Makes a folder and those above it, for this user alone. */
static bool make_folder(const char *path) {
  char part[PATH_BYTES];
  size_t n = strlen(path);
  if (n >= sizeof part) return false;
  memcpy(part, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (part[i] != '/' && part[i] != 0) continue;
    char c = part[i];
    part[i] = 0;
    if (mkdir(part, 0700) != 0 && errno != EEXIST) return false;
    part[i] = c;
  }
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(path, W_OK | X_OK) == 0;
}

rlx_status gpu_cache_create(const char *folder, int64_t max_bytes, gpu_cache **out) {
  gpu_cache *c = mem_zalloc(sizeof *c);
  if (!c) return status_no_memory(sizeof *c);
  rlx_status status = cache_create(memory_bytes, &c->memory);
  if (status != RLX_OK) {
    mem_free(c);
    return status;
  }
  c->users = 1;
  c->unswept = -1;
  c->max_bytes = max_bytes ? max_bytes : default_disk_bytes;
  pthread_mutex_init(&c->lock, NULL);
  if (folder && make_folder(folder)) snprintf(c->folder, sizeof c->folder, "%s", folder);
  *out = c;
  return RLX_OK;
}

rlx_status gpu_cache_open(gpu_cache **out) {
  char folder[PATH_BYTES];
  if (!option_cache_folder(folder, sizeof folder) || !make_folder(folder)) folder[0] = 0;
  pthread_mutex_lock(&shared.lock);
  gpu_cache *c = shared.first;
  while (c && strcmp(c->folder, folder) != 0) c = c->next;
  rlx_status status = RLX_OK;
  if (c) {
    c->users++;
  } else {
    status = gpu_cache_create(folder[0] ? folder : NULL, 0, &c);
    if (status == RLX_OK) {
      c->next = shared.first;
      shared.first = c;
    }
  }
  pthread_mutex_unlock(&shared.lock);
  if (status == RLX_OK) *out = c;
  return status;
}

void gpu_cache_close(gpu_cache *c) {
  if (!c) return;
  pthread_mutex_lock(&shared.lock);
  bool last = --c->users == 0;
  for (gpu_cache **at = &shared.first; last && *at; at = &(*at)->next)
    if (*at == c) {
      *at = c->next;
      break;
    }
  pthread_mutex_unlock(&shared.lock);
  if (!last) return;
  cache_destroy(c->memory);
  pthread_mutex_destroy(&c->lock);
  mem_free(c);
}

gpu_cache_stats gpu_cache_count(gpu_cache *c) {
  pthread_mutex_lock(&c->lock);
  gpu_cache_stats s = c->stats;
  pthread_mutex_unlock(&c->lock);
  return s;
}

static void count(gpu_cache *c, int64_t *which) {
  pthread_mutex_lock(&c->lock);
  ++*which;
  pthread_mutex_unlock(&c->lock);
}

/* ---- disk ---- */

typedef struct disk_key {
  XXH128_canonical_t hash;
} disk_key;

static disk_key hash_key(const gpu_cache_key *k) {
  const char *fields[] = {k->kind, k->source, k->options, k->compiler, k->driver, k->device};
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    uint64_t length = fields[i] ? strlen(fields[i]) : UINT64_MAX;
    XXH3_128bits_update(&state, &length, sizeof length);
    if (fields[i]) XXH3_128bits_update(&state, fields[i], (size_t)length);
  }
  disk_key key;
  XXH128_canonicalFromHash(&key.hash, XXH3_128bits_digest(&state));
  return key;
}

static bool file_path(const gpu_cache *c, const disk_key *key, char path[PATH_BYTES + 48]) {
  if (!c->folder[0]) return false;
  int n = snprintf(path, PATH_BYTES + 48, "%s/", c->folder);
  for (int i = 0; i < 16; i++) n += snprintf(path + n, 3, "%02x", key->hash.digest[i]);
  snprintf(path + n, 5, ".rlx");
  return true;
}

/* True if the file is there and whole: *data is a copy. */
static bool read_file(const char *path, const disk_key *key, void **data, size_t *bytes) {
  mapped_file *f;
  if (mapped_file_open(path, &f) != RLX_OK) return false;
  file_header h = {0};
  bool whole = f->size >= sizeof h;
  if (whole) memcpy(&h, f->data, sizeof h);
  whole = whole && memcmp(h.magic, "RLXK", 4) == 0 && h.format == FORMAT && memcmp(h.key, &key->hash, 16) == 0 &&
          h.bytes == f->size - sizeof h && h.checksum == XXH3_64bits(f->data + sizeof h, (size_t)h.bytes);
  void *copy = whole ? mem_alloc((size_t)h.bytes) : NULL;
  if (copy) {
    memcpy(copy, f->data + sizeof h, (size_t)h.bytes);
    *data = copy;
    *bytes = (size_t)h.bytes;
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* used now */
  }
  mapped_file_release(f);
  return copy != NULL;
}

typedef struct found_file {
  struct timespec used;
  int64_t bytes;
  char name[64];
} found_file;

static int older(const void *a, const void *b) {
  const found_file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* The files of the folder with their sizes; *total gets the sum. NULL if there are none, or memory is short. */
static found_file *list_files(const gpu_cache *c, size_t *files, int64_t *total) {
  DIR *dir = opendir(c->folder);
  found_file *list = NULL;
  size_t n = 0, capacity = 0;
  *total = 0;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    struct stat st;
    size_t length = strlen(e->d_name);
    if (length < 5 || length >= sizeof list->name || strcmp(e->d_name + length - 4, ".rlx") != 0) continue;
    if (fstatat(dirfd(dir), e->d_name, &st, 0) != 0) continue;
    if (n == capacity) {
      found_file *more = mem_realloc(list, (capacity + 256) * sizeof *list);
      if (!more) break;
      list = more;
      capacity += 256;
    }
    list[n] = (found_file){st.st_mtim, st.st_size, ""};
    memcpy(list[n++].name, e->d_name, length + 1);
    *total += st.st_size;
  }
  if (dir) closedir(dir);
  *files = n;
  return list;
}

/* Drops the files used longest ago until three quarters of the bound are left. */
static void sweep(gpu_cache *c) {
  size_t files;
  int64_t total;
  found_file *list = list_files(c, &files, &total);
  if (list && total > c->max_bytes) {
    qsort(list, files, sizeof *list, older);
    for (size_t i = 0; i < files && total > c->max_bytes / 4 * 3; i++) {
      char path[PATH_BYTES + 64];
      snprintf(path, sizeof path, "%s/%s", c->folder, list[i].name);
      if (unlink(path) == 0) total -= list[i].bytes;
    }
  }
  mem_free(list);
}

static void write_file(gpu_cache *c, const char *path, const disk_key *key, const void *data, size_t bytes) {
  file_header h = {
      .magic = {'R', 'L', 'X', 'K'}, .format = FORMAT, .bytes = bytes, .checksum = XXH3_64bits(data, bytes)};
  memcpy(h.key, &key->hash, 16);
  file_part parts[] = {{&h, sizeof h}, {data, bytes}};
  if ((int64_t)bytes > c->max_bytes / 2 || file_write_parts(path, parts, 2) != RLX_OK) return;
  pthread_mutex_lock(&c->lock);
  bool measure = c->unswept < 0 || (c->unswept += (int64_t)bytes) > c->max_bytes / 8;
  if (measure) {
    c->unswept = 0;
    sweep(c);
  }
  pthread_mutex_unlock(&c->lock);
}

/* ---- finding or making ---- */

typedef struct request {
  gpu_cache *c;
  disk_key key;
  rlx_status (*make)(void *arg, void **data, size_t *bytes);
  void *arg;
  bool made;
} request;

static rlx_status load_or_make(void *arg, rlx_cache_entry *entry) {
  request *r = arg;
  char path[PATH_BYTES + 48];
  bool disk = file_path(r->c, &r->key, path);
  gpu_blob *b = mem_zalloc(sizeof *b);
  if (!b) return status_no_memory(sizeof *b);
  r->made = true;
  if (disk && read_file(path, &r->key, &b->data, &b->bytes)) {
    count(r->c, &r->c->stats.disk_hits);
  } else {
    rlx_status status = r->make(r->arg, &b->data, &b->bytes);
    if (status != RLX_OK) {
      mem_free(b);
      return status;
    }
    count(r->c, &r->c->stats.made);
    if (disk) write_file(r->c, path, &r->key, b->data, b->bytes);
  }
  *entry = (rlx_cache_entry){b, (int64_t)(b->bytes + sizeof *b), blob_destroy};
  return RLX_OK;
}

rlx_status gpu_cache_get(gpu_cache *c, const gpu_cache_key *key,
                         rlx_status (*make)(void *arg, void **data, size_t *bytes), void *arg, gpu_blob **out) {
  request r = {c, hash_key(key), make, arg, false};
  rlx_cache_ref *ref;
  void *data;
  RLX_TRY(cache_get(c->memory, &r.key, sizeof r.key, load_or_make, &r, &ref, &data));
  if (!r.made) count(c, &c->stats.memory_hits);
  gpu_blob *b = data;
  __atomic_store_n(&b->ref, ref, __ATOMIC_RELAXED); /* the same for everybody who holds it */
  *out = b;
  return RLX_OK;
}
