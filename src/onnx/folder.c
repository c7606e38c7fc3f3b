/* folder.c — the folder part of a path. */
#include "onnx/folder.h"

#include <string.h>

#include "base/memory.h"

char *path_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  size_t size = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
  char *folder = mem_alloc(size + 1);
  if (!folder) return NULL;
  memcpy(folder, slash ? path : ".", size);
  folder[size] = 0;
  return folder;
}
