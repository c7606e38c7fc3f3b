/* export_name.c — names of values in the file: unique over the whole model, for a subgraph sees the names of the
 * graphs around it. */
#include "onnx/export.h"

bool export_reserve(exporter *e, const char *name, const rlx_value *v, bool *failed) {
  static const char nobody;
  *failed = false;
  if (map_get(&e->used, name)) return false;
  const void *holder = v ? (const void *)v : &nobody;
  const char *copy = arena_strdup(&e->memory, name);
  *failed = !copy || !map_put(&e->used, name, (void *)(uintptr_t)holder) ||
            (v && !map_put_bytes(&e->names, &v, sizeof v, (void *)(uintptr_t)copy));
  return !*failed;
}

const char *export_name(exporter *e, const rlx_value *v) {
  if (!*v->name) return "";
  const char *name = map_get_bytes(&e->names, &v, sizeof v);
  bool failed = false;
  if (name) return name;
  name = v->name;
  while (name && !export_reserve(e, name, v, &failed)) {
    if (failed) return NULL;
    name = arena_printf(&e->memory, "%s_%llu", v->name, (unsigned long long)e->counter++);
  }
  return name;
}
