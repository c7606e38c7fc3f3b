/* device.c — devices opened once for all sessions that use them. */
#include "backend/gpu/device.h"

#include <string.h>

#include "base/clock.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static VECTOR(gpu_shared *) devices; /* open ones; a lost one leaves the list */

rlx_status gpu_shared_check(const gpu_shared *s) {
  if (!__atomic_load_n(&s->device->lost, __ATOMIC_RELAXED)) return RLX_OK;
  return RLX_FAIL(DEVICE, "%s '%s' was lost, and what this session keeps on it with it: make a new session",
                  s->api->name, s->device->name);
}

static bool same(const gpu_shared *s, const gpu_api *api, int index, const gpu_open_options *o) {
  return s->api == api && s->index == index && s->options.debug == o->debug && s->options.discrete == o->discrete &&
         !__atomic_load_n(&s->device->lost, __ATOMIC_RELAXED);
}

/* What an empty submission and the wait for it take: the best of a few. */
static rlx_status measure(gpu_shared *s) {
  gpu_list *list = NULL;
  rlx_status status = RLX_OK;
  for (int i = 0; i < 4 && status == RLX_OK; i++) {
    uint64_t ticket = 0;
    if (i == 0 || !s->api->replays) {
      status = s->api->list_begin(s->device, &list);
      if (status == RLX_OK) status = s->api->list_end(list);
      if (status != RLX_OK) break;
    }
    int64_t begin = clock_ns();
    status = s->api->submit(s->device, &list, 1, &ticket);
    if (status == RLX_OK) status = s->api->wait(s->device, ticket);
    double us = (double)(clock_ns() - begin) / 1000;
    if (i == 0 || us < s->trip_us) s->trip_us = us;
  }
  if (list) s->api->list_destroy(list);
  return status;
}

static void destroy(gpu_shared *s) {
  for (size_t i = 0; i < s->blocks.count; i++) {
    s->api->buffer_destroy(s->device, &s->blocks.data[i]->buffer);
    planner_finish(&s->blocks.data[i]->holes);
    mem_free(s->blocks.data[i]);
  }
  vector_finish(&s->blocks);
  if (s->device) s->api->close(s->device);
  pthread_mutex_destroy(&s->lock);
  mem_free(s);
}

static rlx_status open_device(const gpu_api *api, int index, const gpu_open_options *options, gpu_shared **out) {
  gpu_shared *s = mem_zalloc(sizeof *s);
  if (!s) return status_no_memory(sizeof *s);
  s->api = api;
  s->index = index;
  s->options = *options;
  s->refs = 1;
  pthread_mutex_init(&s->lock, NULL);
  rlx_status status = api->open(index, options, &s->device);
  if (status == RLX_OK) status = measure(s);
  if (status == RLX_OK && !vector_push(&devices, s)) status = status_no_memory(sizeof s);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    destroy(s);
    status_restore(kept);
    return status;
  }
  *out = s;
  return RLX_OK;
}

rlx_status gpu_shared_acquire(const gpu_api *api, int index, const gpu_open_options *options, gpu_shared **out) {
  pthread_mutex_lock(&devices_lock);
  rlx_status status = RLX_OK;
  size_t i = 0;
  while (i < devices.count && !same(devices.data[i], api, index, options)) i++;
  if (i < devices.count) {
    *out = devices.data[i];
    (*out)->refs++;
  } else {
    status = open_device(api, index, options, out);
  }
  pthread_mutex_unlock(&devices_lock);
  return status;
}

gpu_shared *gpu_shared_retain(gpu_shared *s) {
  pthread_mutex_lock(&devices_lock);
  s->refs++;
  pthread_mutex_unlock(&devices_lock);
  return s;
}

void gpu_shared_release(gpu_shared *s) {
  if (!s) return;
  pthread_mutex_lock(&devices_lock);
  bool last = --s->refs == 0;
  for (size_t i = 0; last && i < devices.count; i++)
    if (devices.data[i] == s) devices.data[i--] = devices.data[--devices.count];
  if (!devices.count) vector_finish(&devices);
  if (last) destroy(s);
  pthread_mutex_unlock(&devices_lock);
}
