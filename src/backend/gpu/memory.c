/* memory.c — memory on a device: small pieces cut from large buffers, large ones by themselves, with their mirrors. */
#include <string.h>

#include "backend/gpu/device.h"

enum { BLOCK_BYTES = 32 << 20, CUT_BYTES = 4 << 20 }; /* pieces up to CUT_BYTES are cut from blocks */

static int64_t rounded(int64_t bytes) {
  return bytes < PLAN_ALIGN ? PLAN_ALIGN : (bytes + PLAN_ALIGN - 1) & -PLAN_ALIGN;
}

static bool fits(const planner *p, int64_t bytes) {
  for (size_t i = 0; i < p->holes.count; i++)
    if (p->holes.data[i].bytes >= bytes) return true;
  return false;
}

static rlx_status add_block(gpu_shared *s, gpu_block **out) {
  gpu_block *b = mem_zalloc(sizeof *b);
  if (!b) return status_no_memory(sizeof *b);
  rlx_status status = s->api->buffer_create(s->device, GPU_MEMORY_DEVICE, BLOCK_BYTES, &b->buffer);
  if (status == RLX_OK) {
    b->holes.end = BLOCK_BYTES;
    if (planner_give(&b->holes, 0, BLOCK_BYTES) && vector_push(&s->blocks, b)) {
      *out = b;
      return RLX_OK;
    }
    s->api->buffer_destroy(s->device, &b->buffer);
    status = status_no_memory(sizeof *b);
  }
  planner_finish(&b->holes);
  mem_free(b);
  return status;
}

static rlx_status cut(gpu_shared *s, int64_t bytes, gpu_memory *m) {
  pthread_mutex_lock(&s->lock);
  rlx_status status = RLX_OK;
  gpu_block *b = NULL;
  for (size_t i = 0; i < s->blocks.count && !b; i++)
    if (fits(&s->blocks.data[i]->holes, bytes)) b = s->blocks.data[i];
  if (!b) status = add_block(s, &b);
  if (status == RLX_OK) {
    m->block = b;
    m->span = (gpu_span){&b->buffer, planner_take(&b->holes, bytes), bytes};
    b->users++;
  }
  pthread_mutex_unlock(&s->lock);
  return status;
}

static void give_back(gpu_memory *m) {
  gpu_shared *s = m->shared;
  pthread_mutex_lock(&s->lock);
  (void)planner_give(&m->block->holes, m->span.offset, m->span.bytes); /* memory short: the piece is lost, not more */
  m->block->users--;
  pthread_mutex_unlock(&s->lock);
}

bool gpu_memory_hidden(const gpu_memory *m) { return m->adopted || !m->shared->device->unified; }

rlx_status gpu_memory_mirror(gpu_memory *m) {
  if (!gpu_memory_hidden(m) || m->mirror_bytes >= m->span.bytes) return RLX_OK;
  gpu_buffer larger = {0};
  RLX_TRY(m->shared->api->buffer_create(m->shared->device, GPU_MEMORY_STAGING, m->span.bytes, &larger));
  if (m->mirror.native) m->shared->api->buffer_destroy(m->shared->device, &m->mirror);
  m->mirror = larger;
  m->mirror_bytes = m->span.bytes;
  m->host = larger.host;
  return RLX_OK;
}

rlx_status gpu_memory_make(gpu_shared *s, int64_t bytes, int64_t host_bytes, gpu_memory **out) {
  gpu_memory *m = mem_zalloc(sizeof *m);
  if (!m) return status_no_memory(sizeof *m);
  int64_t want = rounded(bytes);
  m->refs = 1;
  m->shared = gpu_shared_retain(s);
  rlx_status status;
  if (want <= CUT_BYTES) {
    status = cut(s, want, m);
  } else {
    status = s->api->buffer_create(s->device, GPU_MEMORY_DEVICE, want, &m->own);
    if (status == RLX_OK) m->span = (gpu_span){&m->own, 0, want};
  }
  if (status == RLX_OK && s->device->unified) m->host = (char *)m->span.buffer->host + m->span.offset;
  if (status == RLX_OK && !s->device->unified && host_bytes > 0) {
    status = s->api->buffer_create(s->device, GPU_MEMORY_STAGING, rounded(host_bytes), &m->mirror);
    if (status == RLX_OK) m->mirror_bytes = rounded(host_bytes);
    m->host = m->mirror.host;
  }
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    gpu_memory_release(m);
    status_restore(kept);
    return status_prefix(status, "%lld bytes on %s", (long long)bytes, s->api->name);
  }
  *out = m;
  return RLX_OK;
}

rlx_status gpu_memory_adopt(gpu_session *session, void *native, int64_t offset, int64_t bytes, gpu_memory **out) {
  gpu_shared *s = gpu_session_shared(session);
  if (!s->api->buffer_adopt) return RLX_FAIL(UNSUPPORTED, "%s takes no memory of the application's", s->api->name);
  gpu_memory *m = mem_zalloc(sizeof *m);
  if (!m) return status_no_memory(sizeof *m);
  rlx_status status = s->api->buffer_adopt(s->device, native, offset + bytes, &m->own);
  if (status != RLX_OK) {
    mem_free(m);
    return status;
  }
  m->refs = 1;
  m->adopted = true;
  m->span = (gpu_span){&m->own, offset, bytes};
  m->shared = gpu_shared_retain(s);
  *out = m;
  return RLX_OK;
}

gpu_memory *gpu_memory_retain(gpu_memory *m) {
  if (m) __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
  return m;
}

void gpu_memory_release(gpu_memory *m) {
  if (!m || __atomic_fetch_sub(&m->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  gpu_shared *s = m->shared;
  if (m->block) give_back(m);
  if (m->own.native && !m->adopted) s->api->buffer_destroy(s->device, &m->own);
  if (m->mirror.native) s->api->buffer_destroy(s->device, &m->mirror);
  mem_free(m);
  gpu_shared_release(s);
}

void *gpu_memory_host(const gpu_memory *m) { return m->host; }
bool gpu_memory_is_unified(const gpu_memory *m) { return !gpu_memory_hidden(m); }
int64_t gpu_memory_bytes(const gpu_memory *m) { return m->span.bytes; }

gpu_span gpu_memory_span(const gpu_memory *m, int64_t offset, int64_t bytes) {
  return (gpu_span){m->span.buffer, m->span.offset + offset, bytes};
}

gpu_span gpu_memory_mirror_span(const gpu_memory *m, int64_t offset, int64_t bytes) {
  return (gpu_span){&m->mirror, offset, bytes};
}

/* ---- copies that are waited for ----------------------------------------------------------- */

static rlx_status copy_now(gpu_shared *s, const gpu_span *from, const gpu_span *to) {
  gpu_list *list = NULL;
  uint64_t ticket = 0;
  rlx_status status = s->api->list_begin(s->device, &list);
  if (status == RLX_OK) {
    s->api->copy(list, from, to);
    status = s->api->list_end(list);
  }
  if (status == RLX_OK) status = s->api->submit(s->device, &list, 1, &ticket);
  if (status == RLX_OK) status = s->api->wait(s->device, ticket);
  if (list) s->api->list_destroy(list);
  return status;
}

/* Through a pinned buffer of bounded size. */
static rlx_status move(gpu_memory *m, int64_t offset, void *host, int64_t bytes, bool to_device) {
  gpu_shared *s = m->shared;
  gpu_buffer pinned = {0};
  int64_t room = bytes < CUT_BYTES ? bytes : CUT_BYTES;
  RLX_TRY(s->api->buffer_create(s->device, GPU_MEMORY_STAGING, rounded(room), &pinned));
  rlx_status status = RLX_OK;
  for (int64_t at = 0; at < bytes && status == RLX_OK; at += room) {
    int64_t n = bytes - at < room ? bytes - at : room;
    gpu_span staged = {&pinned, 0, n}, device = gpu_memory_span(m, offset + at, n);
    if (to_device) memcpy(pinned.host, (char *)host + at, (size_t)n);
    status = to_device ? copy_now(s, &staged, &device) : copy_now(s, &device, &staged);
    if (!to_device && status == RLX_OK) memcpy((char *)host + at, pinned.host, (size_t)n);
  }
  s->api->buffer_destroy(s->device, &pinned);
  return status;
}

rlx_status gpu_memory_write(gpu_memory *m, int64_t offset, const void *from, int64_t bytes) {
  if (bytes <= 0) return RLX_OK;
  if (gpu_memory_hidden(m)) return move(m, offset, (void *)(uintptr_t)from, bytes, true);
  memcpy((char *)m->host + offset, from, (size_t)bytes);
  return RLX_OK;
}

rlx_status gpu_memory_read(gpu_memory *m, int64_t offset, void *to, int64_t bytes) {
  if (bytes <= 0) return RLX_OK;
  if (gpu_memory_hidden(m)) return move(m, offset, to, bytes, false);
  memcpy(to, (char *)m->host + offset, (size_t)bytes);
  return RLX_OK;
}
