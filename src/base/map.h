/* map.h — hash map from byte strings to pointers; insertion copies the key. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open addressing. Zero-initialised is empty. Owned: map_finish (values are the user's). */
typedef struct map {
  struct map_slot *slots;
  size_t count, capacity;
} map;

void map_finish(map *m);
void *map_get(const map *m, const char *key); /* NULL if absent */
void *map_get_bytes(const map *m, const void *key, size_t size);
/* Inserts or replaces; false when memory is short. value must not be NULL. */
bool map_put(map *m, const char *key, void *value);
bool map_put_bytes(map *m, const void *key, size_t size, void *value);
/* Removes; returns the value or NULL. */
void *map_remove(map *m, const char *key);
void *map_remove_bytes(map *m, const void *key, size_t size);
/* Walks in no particular order: start with *at = 0; NULL at the end. */
void *map_next(const map *m, size_t *at, const char **key);
uint64_t hash_bytes(const void *data, size_t size, uint64_t seed);

#endif
