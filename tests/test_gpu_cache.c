/* test_gpu_cache.c — compiled code in memory and on disk: found by all of what it was made from, whole or made anew. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/gpu/cache.h"
#include "base/memory.h"
#include "base/status.h"

static char folder[64];

static int fresh(void **unused) {
  (void)unused;
  snprintf(folder, sizeof folder, "/tmp/rlx-cache-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int drop(void **unused) {
  (void)unused;
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

typedef struct maker {
  const char *bytes;
  size_t size; /* 0: as long as the text */
  int calls;
  rlx_status status;
} maker;

static rlx_status make(void *arg, void **data, size_t *bytes) {
  maker *m = arg;
  __atomic_add_fetch(&m->calls, 1, __ATOMIC_RELAXED);
  if (m->status != RLX_OK) return RLX_FAIL(INVALID, "line 3: no");
  *bytes = m->size ? m->size : strlen(m->bytes);
  *data = mem_zalloc(*bytes);
  if (!*data) return status_no_memory(*bytes);
  memcpy(*data, m->bytes, strlen(m->bytes));
  return RLX_OK;
}

static const gpu_cache_key base = {"spirv", "source", "-O", "glslang 1", NULL, NULL};

static void get(gpu_cache *c, const gpu_cache_key *key, maker *m, const char *want) {
  gpu_blob *b;
  assert_int_equal(gpu_cache_get(c, key, make, m, &b), RLX_OK);
  assert_memory_equal(gpu_blob_data(b), want, strlen(want));
  gpu_blob_release(b);
}

static void found_again(void **unused) {
  (void)unused;
  gpu_cache *c;
  maker m = {.bytes = "words"};
  assert_int_equal(gpu_cache_create(folder, 0, &c), RLX_OK);
  get(c, &base, &m, "words");
  get(c, &base, &m, "words");
  assert_int_equal(m.calls, 1);
  gpu_cache_close(c);
  assert_int_equal(gpu_cache_create(folder, 0, &c), RLX_OK);
  get(c, &base, &m, "words");
  assert_int_equal(m.calls, 1);
  assert_int_equal(gpu_cache_count(c).disk_hits, 1);
  gpu_cache_close(c);
}

static void every_field_counts(void **unused) {
  (void)unused;
  gpu_cache *c;
  maker m = {.bytes = "x"};
  assert_int_equal(gpu_cache_create(NULL, 0, &c), RLX_OK);
  const gpu_cache_key keys[] = {
      base,
      {"pipeline", "source", "-O", "glslang 1", NULL, NULL},
      {"spirv", "other", "-O", "glslang 1", NULL, NULL},
      {"spirv", "source", "", "glslang 1", NULL, NULL},
      {"spirv", "source", NULL, "glslang 1", NULL, NULL},
      {"spirv", "source", "-O", "glslang 2", NULL, NULL},
      {"spirv", "source", "-O", "glslang 1", "driver", NULL},
      {"spirv", "source", "-O", "glslang 1", NULL, "driver"},
      {"spirv", "source-", "O", "glslang 1", NULL, NULL},
  };
  int count = (int)(sizeof keys / sizeof *keys);
  for (int turn = 0; turn < 2; turn++)
    for (int i = 0; i < count; i++) get(c, &keys[i], &m, "x");
  assert_int_equal(m.calls, count);
  gpu_cache_close(c);
}

/* Applies change to the one file of the folder. */
static void damage(void (*change)(FILE *file, long size)) {
  DIR *dir = opendir(folder);
  int files = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    char path[384];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    change(file, ftell(file));
    fclose(file);
    files++;
  }
  closedir(dir);
  assert_int_equal(files, 1);
}

static void cut(FILE *file, long size) { assert_int_equal(ftruncate(fileno(file), size - 1), 0); }
static void empty(FILE *file, long size) {
  (void)size;
  assert_int_equal(ftruncate(fileno(file), 0), 0);
}
static void flip_last(FILE *file, long size) {
  fseek(file, size - 1, SEEK_SET);
  fputc('?', file);
}
static void flip_first(FILE *file, long size) {
  (void)size;
  fseek(file, 0, SEEK_SET);
  fputc('?', file);
}

static void damaged_files(void **unused) {
  (void)unused;
  void (*const changes[])(FILE *, long) = {cut, empty, flip_last, flip_first};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    gpu_cache *c;
    maker m = {.bytes = "words"};
    assert_int_equal(gpu_cache_create(folder, 0, &c), RLX_OK);
    get(c, &base, &m, "words");
    gpu_cache_close(c);
    damage(changes[i]);
    m.calls = 0;
    assert_int_equal(gpu_cache_create(folder, 0, &c), RLX_OK);
    get(c, &base, &m, "words");
    assert_int_equal(m.calls, 1);
    gpu_cache_close(c);
  }
}

static void failures_are_not_kept(void **unused) {
  (void)unused;
  gpu_cache *c;
  gpu_blob *b = NULL;
  maker m = {.bytes = "words", .status = RLX_INVALID};
  assert_int_equal(gpu_cache_create(folder, 0, &c), RLX_OK);
  assert_int_equal(gpu_cache_get(c, &base, make, &m, &b), RLX_INVALID);
  assert_null(b);
  assert_non_null(strstr(rlx_error_message(), "line 3: no"));
  m.status = RLX_OK;
  get(c, &base, &m, "words");
  gpu_cache_close(c);
}

static long long folder_bytes(void) {
  char command[96];
  snprintf(command, sizeof command, "cat %s/*.rlx | wc -c", folder);
  FILE *p = popen(command, "r");
  long long bytes = -1;
  assert_int_equal(fscanf(p, "%lld", &bytes), 1);
  pclose(p);
  return bytes;
}

static void bounded(void **unused) {
  (void)unused;
  gpu_cache *c;
  maker m = {.bytes = "words", .size = 10000};
  assert_int_equal(gpu_cache_create(folder, 200000, &c), RLX_OK);
  for (int i = 0; i < 100; i++) {
    char source[16];
    snprintf(source, sizeof source, "%d", i);
    const gpu_cache_key key = {.kind = "spirv", .source = source};
    get(c, &key, &m, "words");
  }
  assert_int_equal(m.calls, 100);
  gpu_cache_close(c);
  assert_true(folder_bytes() <= 250000);
  assert_true(folder_bytes() >= 50000);
}

static void no_folder(void **unused) {
  (void)unused;
  gpu_cache *c, *d;
  maker m = {.bytes = "words"};
  char path[96];
  snprintf(path, sizeof path, "%s/file", folder);
  fclose(fopen(path, "w"));
  assert_int_equal(gpu_cache_create(path, 0, &c), RLX_OK);
  get(c, &base, &m, "words");
  get(c, &base, &m, "words");
  assert_int_equal(m.calls, 1);
  gpu_cache_close(c);
  setenv("RLX_PIPELINE_CACHE", "0", 1);
  assert_int_equal(gpu_cache_open(&c), RLX_OK);
  assert_int_equal(gpu_cache_open(&d), RLX_OK);
  assert_ptr_equal(c, d);
  gpu_cache_close(d);
  gpu_cache_close(c);
  snprintf(path, sizeof path, "%s/deep/er", folder);
  setenv("RLX_PIPELINE_CACHE", path, 1);
  assert_int_equal(gpu_cache_open(&c), RLX_OK);
  get(c, &base, &m, "words");
  gpu_cache_close(c);
  assert_int_equal(access(path, F_OK), 0);
  unsetenv("RLX_PIPELINE_CACHE");
}

static void *worker(void *arg) {
  maker *m = ((void **)arg)[1];
  for (int i = 0; i < 200; i++) {
    char source[16];
    snprintf(source, sizeof source, "%d", i % 20);
    const gpu_cache_key key = {.kind = "spirv", .source = source};
    get(((void **)arg)[0], &key, m, "words");
  }
  return NULL;
}

static void threads(void **unused) {
  (void)unused;
  gpu_cache *c;
  maker m = {.bytes = "words"};
  pthread_t ids[4];
  assert_int_equal(gpu_cache_create(folder, 0, &c), RLX_OK);
  void *arg[2] = {c, &m};
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&ids[i], NULL, worker, arg), 0);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
  assert_int_equal(m.calls, 20);
  gpu_cache_close(c);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, drop)
  const struct CMUnitTest tests[] = {CASE(found_again), CASE(every_field_counts),    CASE(damaged_files),
                                     CASE(bounded),     CASE(failures_are_not_kept), CASE(no_folder),
                                     CASE(threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
