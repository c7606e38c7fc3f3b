/* cache.c — the session cache. */
#include "base/cache.h"

#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"

/* One entry. Linked in order of last use while nobody holds it. */
struct rlx_cache_ref {
  cache *owner;
  void *key;
  size_t key_bytes;
  rlx_cache_entry entry;
  int holders;
  enum { MAKING, READY, FAILED } state;
  rlx_cache_ref *older, *newer;
};

struct cache {
  pthread_mutex_t lock;
  pthread_cond_t made;
  map entries; /* key → rlx_cache_ref */
  rlx_cache_ref *oldest, *newest;
  int64_t bytes, max_bytes;
};

rlx_status cache_create(int64_t max_bytes, cache **out) {
  cache *c = mem_zalloc(sizeof *c);
  if (!c) return status_no_memory(sizeof *c);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->made, NULL);
  c->max_bytes = max_bytes;
  *out = c;
  return RLX_OK;
}

static void unlink_idle(cache *c, rlx_cache_ref *r) {
  *(r->older ? &r->older->newer : &c->oldest) = r->newer;
  *(r->newer ? &r->newer->older : &c->newest) = r->older;
  r->older = r->newer = NULL;
}

static void link_idle(cache *c, rlx_cache_ref *r) {
  r->older = c->newest;
  r->newer = NULL;
  *(c->newest ? &c->newest->newer : &c->oldest) = r;
  c->newest = r;
}

static void free_ref(rlx_cache_ref *r) {
  if (r->state == READY && r->entry.destroy) r->entry.destroy(r->entry.data);
  mem_free(r->key);
  mem_free(r);
}

void cache_destroy(cache *c) {
  if (!c) return;
  size_t at = 0;
  for (rlx_cache_ref *r; (r = map_next(&c->entries, &at, NULL));) free_ref(r);
  map_finish(&c->entries);
  pthread_cond_destroy(&c->made);
  pthread_mutex_destroy(&c->lock);
  mem_free(c);
}

static void shrink(cache *c) {
  while (c->bytes > c->max_bytes && c->oldest) {
    rlx_cache_ref *r = c->oldest;
    unlink_idle(c, r);
    c->bytes -= r->entry.bytes;
    map_remove_bytes(&c->entries, r->key, r->key_bytes);
    free_ref(r);
  }
}

static rlx_cache_ref *new_ref(cache *c, const void *key, size_t key_bytes) {
  rlx_cache_ref *r = mem_zalloc(sizeof *r);
  void *copy = r ? mem_alloc(key_bytes) : NULL;
  if (!copy) {
    mem_free(r);
    return NULL;
  }
  if (key_bytes) memcpy(copy, key, key_bytes);
  *r = (rlx_cache_ref){.owner = c, .key = copy, .key_bytes = key_bytes, .holders = 1};
  if (map_put_bytes(&c->entries, key, key_bytes, r)) return r;
  mem_free(copy);
  mem_free(r);
  return NULL;
}

/* Under the lock: waits until the entry is made. True: it is ready and held. */
static bool wait_ready(cache *c, rlx_cache_ref *r) {
  if (r->holders++ == 0) unlink_idle(c, r);
  while (r->state == MAKING) pthread_cond_wait(&c->made, &c->lock);
  if (r->state == READY) return true;
  if (--r->holders == 0) free_ref(r);
  return false;
}

rlx_status cache_get(cache *c, const void *key, size_t key_bytes, rlx_status (*make)(void *arg, rlx_cache_entry *entry),
                     void *arg, rlx_cache_ref **ref, void **data) {
  pthread_mutex_lock(&c->lock);
  rlx_cache_ref *r;
  while ((r = map_get_bytes(&c->entries, key, key_bytes)) && !wait_ready(c, r)) continue;
  bool mine = !r;
  if (mine) r = new_ref(c, key, key_bytes);
  pthread_mutex_unlock(&c->lock);
  if (!r) return status_no_memory(key_bytes);
  if (mine) {
    rlx_status status = make(arg, &r->entry);
    pthread_mutex_lock(&c->lock);
    r->state = status == RLX_OK ? READY : FAILED;
    if (status == RLX_OK) {
      c->bytes += r->entry.bytes;
      shrink(c);
    } else {
      map_remove_bytes(&c->entries, key, key_bytes);
    }
    pthread_cond_broadcast(&c->made);
    bool last = status != RLX_OK && --r->holders == 0;
    pthread_mutex_unlock(&c->lock);
    if (last) free_ref(r);
    RLX_TRY(status);
  }
  *ref = r;
  if (data) *data = r->entry.data;
  return RLX_OK;
}

void cache_release(rlx_cache_ref *r) {
  if (!r) return;
  cache *c = r->owner;
  pthread_mutex_lock(&c->lock);
  if (--r->holders == 0) {
    link_idle(c, r);
    shrink(c);
  }
  pthread_mutex_unlock(&c->lock);
}

int64_t cache_bytes(cache *c) {
  pthread_mutex_lock(&c->lock);
  int64_t bytes = c->bytes;
  pthread_mutex_unlock(&c->lock);
  return bytes;
}
