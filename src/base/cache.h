/* cache.h — immutable entries found by content key, made once, reference-counted, bounded in bytes. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <rlx/extend.h>

typedef struct cache cache;

/* Entries nobody holds are dropped, oldest first, once all together pass max_bytes. */
rlx_status cache_create(int64_t max_bytes, cache **out);
void cache_destroy(cache *c); /* all references must be released */
/* Finds or makes; concurrent callers of one key wait for the one that makes it. */
rlx_status cache_get(cache *c, const void *key, size_t key_bytes, rlx_status (*make)(void *arg, rlx_cache_entry *entry),
                     void *arg, rlx_cache_ref **ref, void **data);
void cache_release(rlx_cache_ref *ref);
int64_t cache_bytes(cache *c);

#endif
