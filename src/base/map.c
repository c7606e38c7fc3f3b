/* map.c — open addressing with linear probing and backward-shift deletion. */
#include "base/map.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

struct map_slot {
  char *key; /* owned, NUL-terminated; NULL: empty */
  size_t size;
  uint64_t hash;
  void *value;
};

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

void map_finish(map *m) {
  for (size_t i = 0; i < m->capacity; i++) mem_free(m->slots[i].key);
  mem_free(m->slots);
  *m = (map){0};
}

/* The slot holding the key, or the empty one where it would go. Capacity must not be 0. */
static size_t probe(const map *m, const void *key, size_t size, uint64_t hash) {
  size_t i = hash & (m->capacity - 1);
  while (m->slots[i].key &&
         !(m->slots[i].hash == hash && m->slots[i].size == size && memcmp(m->slots[i].key, key, size) == 0))
    i = (i + 1) & (m->capacity - 1);
  return i;
}

void *map_get_bytes(const map *m, const void *key, size_t size) {
  if (!m->capacity) return NULL;
  return m->slots[probe(m, key, size, hash_bytes(key, size, 0))].value;
}

static bool grow(map *m) {
  size_t capacity = m->capacity ? m->capacity * 2 : 16;
  struct map_slot *slots = mem_array(capacity, sizeof *slots);
  if (!slots) return false;
  map bigger = {slots, m->count, capacity};
  for (size_t i = 0; i < m->capacity; i++) {
    const struct map_slot *s = &m->slots[i];
    if (s->key) slots[probe(&bigger, s->key, s->size, s->hash)] = *s;
  }
  mem_free(m->slots);
  *m = bigger;
  return true;
}

bool map_put_bytes(map *m, const void *key, size_t size, void *value) {
  if (m->count * 4 >= m->capacity * 3 && !grow(m)) return false;
  uint64_t hash = hash_bytes(key, size, 0);
  struct map_slot *s = &m->slots[probe(m, key, size, hash)];
  if (!s->key) {
    char *copy = mem_alloc(size + 1);
    if (!copy) return false;
    if (size) memcpy(copy, key, size);
    copy[size] = 0;
    *s = (struct map_slot){copy, size, hash, NULL};
    m->count++;
  }
  s->value = value;
  return true;
}

void *map_remove_bytes(map *m, const void *key, size_t size) {
  if (!m->capacity) return NULL;
  size_t mask = m->capacity - 1;
  size_t hole = probe(m, key, size, hash_bytes(key, size, 0));
  if (!m->slots[hole].key) return NULL;
  void *value = m->slots[hole].value;
  mem_free(m->slots[hole].key);
  m->count--;
  for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
    size_t home = m->slots[i].hash & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue; /* it may not move before its home */
    m->slots[hole] = m->slots[i];
    hole = i;
  }
  m->slots[hole] = (struct map_slot){0};
  return value;
}

void *map_get(const map *m, const char *key) { return map_get_bytes(m, key, strlen(key)); }
bool map_put(map *m, const char *key, void *value) { return map_put_bytes(m, key, strlen(key), value); }
void *map_remove(map *m, const char *key) { return map_remove_bytes(m, key, strlen(key)); }

void *map_next(const map *m, size_t *at, const char **key) {
  while (*at < m->capacity && !m->slots[*at].key) ++*at;
  if (*at >= m->capacity) return NULL;
  const struct map_slot *s = &m->slots[(*at)++];
  if (key) *key = s->key;
  return s->value;
}
