/* memory.c — the offset allocator. */
#include "plan/memory.h"

#include <string.h>

static int64_t rounded(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX - PLAN_ALIGN) return -1;
  if (bytes == 0) bytes = 1;
  return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static void erase(planner *p, size_t i) {
  memmove(&p->holes.data[i], &p->holes.data[i + 1], (p->holes.count - i - 1) * sizeof(hole));
  p->holes.count--;
}

int64_t planner_take(planner *p, int64_t bytes) {
  int64_t want = rounded(bytes);
  if (want < 0) return -1;
  size_t best = p->holes.count;
  for (size_t i = 0; i < p->holes.count; i++) {
    const hole *h = &p->holes.data[i];
    if (h->bytes >= want && (best == p->holes.count || h->bytes < p->holes.data[best].bytes)) best = i;
  }
  if (best < p->holes.count) {
    hole *h = &p->holes.data[best];
    int64_t offset = h->offset;
    h->offset += want;
    h->bytes -= want;
    if (!h->bytes) erase(p, best);
    return offset;
  }
  /* A hole that reaches the end is stretched instead of left behind. */
  size_t last = p->holes.count;
  if (last && p->holes.data[last - 1].offset + p->holes.data[last - 1].bytes == p->end) {
    int64_t offset = p->holes.data[last - 1].offset;
    if (want > INT64_MAX - offset) return -1;
    p->holes.count--;
    p->end = offset + want;
    return offset;
  }
  int64_t offset = p->end;
  if (want > INT64_MAX - offset) return -1;
  p->end += want;
  return offset;
}

bool planner_give(planner *p, int64_t offset, int64_t bytes) {
  hole h = {offset, rounded(bytes)};
  size_t i = 0;
  while (i < p->holes.count && p->holes.data[i].offset < offset) i++;
  bool joins_before = i > 0 && p->holes.data[i - 1].offset + p->holes.data[i - 1].bytes == offset;
  bool joins_after = i < p->holes.count && h.offset + h.bytes == p->holes.data[i].offset;
  if (joins_before) {
    p->holes.data[i - 1].bytes += h.bytes;
    if (joins_after) {
      p->holes.data[i - 1].bytes += p->holes.data[i].bytes;
      erase(p, i);
    }
    return true;
  }
  if (joins_after) {
    p->holes.data[i].offset = h.offset;
    p->holes.data[i].bytes += h.bytes;
    return true;
  }
  if (!vector_push(&p->holes, h)) return false;
  memmove(&p->holes.data[i + 1], &p->holes.data[i], (p->holes.count - 1 - i) * sizeof h);
  p->holes.data[i] = h;
  return true;
}

void planner_finish(planner *p) { vector_finish(&p->holes); }
