/* guard.c — memory with a page behind it that traps and bytes before it that must stay. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/check.h"

enum { CANARY = 0xc9 };

rlx_status guarded_make(size_t bytes, guarded *out) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes / page + 2) * page;
  if (bytes > SIZE_MAX / 4) return status_no_memory(bytes);
  char *pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return status_no_memory(room);
  if (mprotect(pages + room, page, PROT_NONE) != 0) {
    munmap(pages, room + page);
    return status_no_memory(page);
  }
  memset(pages, CANARY, room);
  *out = (guarded){pages, room + page, room - bytes, pages + (room - bytes), bytes};
  return RLX_OK;
}

bool guarded_intact(const guarded *g) {
  for (size_t i = 0; i < g->slack; i++)
    if ((unsigned char)g->map[i] != CANARY) return false;
  return true;
}

void guarded_free(guarded *g) {
  if (g->map) munmap(g->map, g->mapped);
  *g = (guarded){0};
}
