/* budget.c — how many bytes a loader may allocate, counted before they are. */
#include "onnx/budget.h"

#include <unistd.h>

budget budget_open(int64_t limit) {
  if (limit > 0) return (budget){.limit = limit, .stated = true};
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return (budget){.limit = pages > 0 && page > 0 ? pages / 4 * 3 * page : INT64_MAX};
}

rlx_status budget_take(budget *b, int64_t bytes) {
  if (bytes > b->limit - b->used) {
    return RLX_FAIL(OUT_OF_MEMORY, "%lld bytes more, with %lld in use, pass the %s of %lld", (long long)bytes,
                    (long long)b->used, b->stated ? "memory limit" : "machine's memory", (long long)b->limit);
  }
  b->used += bytes;
  return RLX_OK;
}
