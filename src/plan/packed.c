/* packed.c — packed forms of constants, by constant and key. */
#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "ir/tensor.h"
#include "plan/program.h"

/* Freed when the last stage that uses it goes. */
struct packed {
  packed_set *owner;
  int refs; /* under the owner's lock */
  void *data;
  int64_t bytes;
  rlx_tensor *constant; /* keeps its address, which is part of the key, from being used again */
  struct packed_key {
    const rlx_tensor *constant;
    char form[sizeof((rlx_packing *)0)->key];
  } key;
};

struct packed_set {
  pthread_mutex_t lock; /* held while packing: one constant is packed once */
  map entries;
  int64_t bytes;
};

rlx_status packed_set_create(packed_set **out) {
  packed_set *s = mem_zalloc(sizeof *s);
  if (!s) return status_no_memory(sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  *out = s;
  return RLX_OK;
}

void packed_set_destroy(packed_set *s) {
  if (!s) return;
  map_finish(&s->entries);
  pthread_mutex_destroy(&s->lock);
  mem_free(s);
}

/* A kernel that takes any address packs an unaligned weight right out of its file. */
static rlx_status call_pack(packed *p, const candidate *c, rlx_bound *b, const void *state, int input) {
  const rlx_kernel *head = &c->kernel->head;
  rlx_operand from = tensor_operand_pinned(p->constant);
  if (head->min_align == 1) {
    from.data = (void *)(uintptr_t)tensor_raw(p->constant);
    return head->pack(b, state, input, &from, p->data);
  }
  from.data = (void *)(uintptr_t)tensor_pin(p->constant);
  if (!from.data) return status_no_memory(p->constant->bytes);
  rlx_status status = head->pack(b, state, input, &from, p->data);
  tensor_unpin(p->constant);
  return status;
}

static rlx_status make(packed_set *s, packed *p, const rlx_packing *form, const candidate *c, rlx_bound *b,
                       const void *state, int input) {
  size_t align = form->align > 64 ? (size_t)form->align : 64;
  if (form->align & (form->align - 1) || form->bytes < 0) return RLX_FAIL(INVALID, "packing: bad align or size");
  p->data = mem_aligned(align, (size_t)form->bytes);
  if (!p->data) return status_no_memory((size_t)form->bytes);
  RLX_TRY(call_pack(p, c, b, state, input));
  if (!map_put_bytes(&s->entries, &p->key, sizeof p->key, p)) return status_no_memory(sizeof *p);
  p->bytes = form->bytes;
  s->bytes += form->bytes;
  /* The plain pages of a mapped weight are read again from the file if anything ever needs them. */
  if (p->constant->file) mapped_file_drop_pages(p->constant->file, tensor_raw(p->constant), p->constant->bytes);
  return RLX_OK;
}

rlx_status packed_get(packed_set *s, const rlx_tensor *constant, const rlx_packing *form, const candidate *c,
                      rlx_bound *b, const void *state, int input, packed **out) {
  packed *p = mem_zalloc(sizeof *p);
  if (!p) return status_no_memory(sizeof *p);
  p->owner = s;
  p->refs = 1;
  p->key.constant = constant;
  memcpy(p->key.form, form->key, sizeof p->key.form);
  p->constant = rlx_tensor_retain((rlx_tensor *)(uintptr_t)constant);
  pthread_mutex_lock(&s->lock);
  packed *old = map_get_bytes(&s->entries, &p->key, sizeof p->key);
  if (old) old->refs++;
  rlx_status status = old ? RLX_OK : make(s, p, form, c, b, state, input);
  pthread_mutex_unlock(&s->lock);
  if (old || status != RLX_OK) {
    mem_free(p->data);
    rlx_tensor_destroy(p->constant);
    mem_free(p);
    p = old;
  }
  if (status == RLX_OK) *out = p;
  return status;
}

void *packed_data(const packed *p) { return p->data; }

void packed_release(packed *p) {
  if (!p) return;
  packed_set *s = p->owner;
  pthread_mutex_lock(&s->lock);
  bool last = --p->refs == 0;
  if (last) {
    map_remove_bytes(&s->entries, &p->key, sizeof p->key);
    s->bytes -= p->bytes;
  }
  pthread_mutex_unlock(&s->lock);
  if (!last) return;
  mem_free(p->data);
  rlx_tensor_destroy(p->constant);
  mem_free(p);
}

int64_t packed_set_bytes(packed_set *s) {
  pthread_mutex_lock(&s->lock);
  int64_t bytes = s->bytes;
  pthread_mutex_unlock(&s->lock);
  return bytes;
}
