/* list.c — command buffers: what is encoded into them, handing them over, waiting for them. */
#include <sched.h>
#include <string.h>

#include "backend/metal/metal.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

enum { /* Metal's values */
       DISPATCH_CONCURRENT = 1,
       BARRIER_BUFFERS = 1,
       USAGE_READ_WRITE = 3,
       STATUS_COMMITTED = 2,
       STATUS_COMPLETED = 4,
       STATUS_ERROR = 5,
       ERROR_DEVICE_REMOVED = 11
};
enum { SPIN_NS = 50000, BLOCK_MS = 20 };

static metal_device *device_of(gpu_device *head) { return (metal_device *)head; }

/* ---- encoders ----------------------------------------------------------------------------- */

static void close_label(gpu_list *l) {
  if (l->labelled) send_void(l->compute, MESSAGE_POP_GROUP);
  l->labelled = false;
}

static void close_encoders(gpu_list *l) {
  close_label(l);
  objc_id open = l->compute ? l->compute : l->blit;
  send_void(open, MESSAGE_END);
  objc_release(open);
  l->compute = l->blit = NULL;
}

static rlx_status compute(gpu_list *l) {
  if (l->compute) return RLX_OK;
  close_encoders(l);
  l->compute = objc_retain(send_id_word(l->commands, MESSAGE_COMPUTE, DISPATCH_CONCURRENT));
  return l->compute ? RLX_OK : RLX_FAIL(DEVICE, "Metal: no compute encoder");
}

rlx_status metal_list_begin(gpu_device *head, gpu_list **list) {
  metal_device *d = device_of(head);
  gpu_list *l = *list ? *list : mem_zalloc(sizeof *l);
  if (!l) return status_no_memory(sizeof *l);
  l->device = d;
  *list = l;
  objc_id pool = objc_pool_open();
  objc_release(l->commands);
  l->commands = objc_retain(send_id(d->queue, MESSAGE_COMMAND_BUFFER));
  pthread_mutex_lock(&d->lock);
  uint64_t last = d->tickets;
  pthread_mutex_unlock(&d->lock);
  if (last) send_void_id_word(l->commands, MESSAGE_WAIT_EVENT, d->event, last);
  objc_pool_close(pool);
  return l->commands ? RLX_OK : RLX_FAIL(DEVICE, "Metal: no command buffer");
}

rlx_status metal_list_end(gpu_list *l) {
  close_encoders(l);
  return RLX_OK;
}

void metal_list_destroy(gpu_list *l) {
  close_encoders(l);
  objc_release(l->commands);
  mem_free(l);
}

void metal_label(gpu_list *l, const char *text) {
  if (!l->device->debug) return;
  objc_id pool = objc_pool_open();
  if (compute(l) == RLX_OK) {
    close_label(l);
    send_void_id(l->compute, MESSAGE_PUSH_GROUP, objc_string(text));
    l->labelled = true;
  }
  objc_pool_close(pool);
}

void metal_barrier(gpu_list *l) {
  if (l->compute)
    send_void_word(l->compute, MESSAGE_BARRIER, BARRIER_BUFFERS); /* encoders wait for each other anyway */
}

/* Kernels reach buffers by address: Metal must be told which. */
static void use(gpu_list *l, const gpu_span *s) {
  if (s->buffer) send_void_id_word(l->compute, MESSAGE_USE_RESOURCE, s->buffer->native, USAGE_READ_WRITE);
}

static void use_operands(gpu_list *l, const gpu_operands *o) {
  for (int i = 0; i < o->input_count + o->output_count; i++) use(l, &o->spans[i]);
  use(l, &o->workspace);
}

rlx_status metal_launch(gpu_list *l, const gpu_launch *launch) {
  const metal_kernel *k = launch->kernel;
  objc_id pool = objc_pool_open();
  rlx_status status = compute(l);
  if (status == RLX_OK) {
    use_operands(l, launch->operands);
    send_void_id(l->compute, MESSAGE_SET_PIPELINE, k->state);
    send_void_id_words(l->compute, MESSAGE_SET_BUFFER, launch->block_buffer->native,
                       (unsigned long)launch->block_offset, 0);
    objc_size groups = {launch->groups[0], launch->groups[1], launch->groups[2]};
    ((void (*)(objc_id, objc_sel, objc_size, objc_size))objc_method(l->compute, MESSAGE_DISPATCH))(
        l->compute, objc_selector(MESSAGE_DISPATCH), groups, k->threads);
  }
  objc_pool_close(pool);
  return status;
}

typedef void (*copy_call)(objc_id, objc_sel, objc_id, unsigned long, objc_id, unsigned long, unsigned long);

void metal_copy(gpu_list *l, const gpu_span *from, const gpu_span *to) {
  if (!from->bytes) return;
  objc_id pool = objc_pool_open();
  if (!l->blit) {
    close_encoders(l);
    l->blit = objc_retain(send_id(l->commands, MESSAGE_BLIT));
  }
  if (l->blit)
    ((copy_call)objc_method(l->blit, MESSAGE_COPY))(l->blit, objc_selector(MESSAGE_COPY), from->buffer->native,
                                                    (unsigned long)from->offset, to->buffer->native,
                                                    (unsigned long)to->offset, (unsigned long)from->bytes);
  objc_pool_close(pool);
}

/* ---- raw kernels -------------------------------------------------------------------------- */

static rlx_metal_operand operand(const gpu_span *s, const rlx_operand *described) {
  return (rlx_metal_operand){.buffer = s->buffer ? s->buffer->native : NULL,
                             .offset = (uint64_t)s->offset,
                             .bytes = (uint64_t)s->bytes,
                             .address = gpu_span_address(s),
                             .dtype = described ? described->dtype : RLX_UNDEFINED,
                             .rank = described ? described->rank : 0,
                             .dims = described ? described->dims : NULL};
}

static rlx_status guarded(gpu_list *l, const rlx_metal_kernel *k, rlx_metal_dispatch *dispatch) {
  metal_guard guard;
  RLX_TRY(metal_guard_set(&guard, l->compute, l->commands));
  rlx_status status = k->encode(dispatch);
  const char *forbidden = metal_guard_lift(&guard);
  if (forbidden) return RLX_FAIL(KERNEL, "encode called %s: a raw kernel may only encode", forbidden);
  return status;
}

static rlx_status call_encode(gpu_list *l, const gpu_raw *raw, rlx_metal_operand *operands) {
  const gpu_operands *o = raw->operands;
  const rlx_metal_kernel *k = raw->record;
  for (int i = 0; i < o->input_count + o->output_count; i++) operands[i] = operand(&o->spans[i], &o->described[i]);
  rlx_metal_dispatch dispatch = {.struct_size = sizeof dispatch,
                                 .input_count = o->input_count,
                                 .output_count = o->output_count,
                                 .inputs = operands,
                                 .outputs = operands + o->input_count,
                                 .workspace = operand(&o->workspace, NULL),
                                 .params = o->params,
                                 .state = o->state,
                                 .node = o->node,
                                 .encoder = l->compute,
                                 .command_buffer = l->commands,
                                 .queue = l->device->queue,
                                 .device = l->device->device,
                                 .executor = l};
  rlx_status status = raw->guard ? guarded(l, k, &dispatch) : k->encode(&dispatch);
  if (send_word(l->commands, MESSAGE_STATUS) >= STATUS_COMMITTED) {
    objc_release(l->commands); /* gone already: nothing more can be encoded */
    l->commands = NULL;
    return RLX_FAIL(KERNEL, "encode committed the command buffer: a raw kernel may only encode");
  }
  return status;
}

rlx_status metal_encode(gpu_list *l, const gpu_raw *raw) {
  const gpu_operands *o = raw->operands;
  rlx_metal_operand *operands = mem_array((size_t)(o->input_count + o->output_count), sizeof *operands);
  if (!operands) return status_no_memory(sizeof *operands);
  objc_id pool = objc_pool_open();
  rlx_status status = compute(l);
  if (status == RLX_OK) {
    use_operands(l, o);
    status = call_encode(l, raw, operands);
  }
  objc_pool_close(pool);
  mem_free(operands);
  return status;
}

rlx_status rlx_metal_pipeline(rlx_metal_dispatch *d, const char *source, const char *function, void **pipeline) {
  if (!d || !source || !function || !pipeline || !d->executor)
    return RLX_FAIL(INVALID, "rlx_metal_pipeline: an argument is NULL");
  return metal_pipeline_get(((gpu_list *)d->executor)->device, source, function, pipeline);
}

void rlx_metal_barrier(rlx_metal_dispatch *d) {
  if (d && d->executor) metal_barrier(d->executor);
}

/* ---- submitting and waiting --------------------------------------------------------------- */

static rlx_status submit_one(metal_device *d, gpu_list *l, uint64_t ticket) {
  if (!l->commands) return RLX_FAIL(DEVICE, "Metal: a command buffer was handed over twice");
  if (!vector_push(&d->pending, (metal_pending){l->commands, ticket})) return status_no_memory(sizeof(metal_pending));
  send_void_id_word(l->commands, MESSAGE_SIGNAL_EVENT, d->event, ticket);
  send_void(l->commands, MESSAGE_COMMIT);
  l->commands = NULL; /* its reference is the pending entry's */
  d->tickets = ticket;
  return RLX_OK;
}

rlx_status metal_submit(gpu_device *head, gpu_list *const *lists, int count, uint64_t *ticket) {
  metal_device *d = device_of(head);
  objc_id pool = objc_pool_open();
  pthread_mutex_lock(&d->lock);
  rlx_status status = RLX_OK;
  for (int i = 0; i < count && status == RLX_OK; i++) status = submit_one(d, lists[i], d->tickets + 1);
  if (status == RLX_OK) *ticket = d->tickets;
  pthread_mutex_unlock(&d->lock);
  objc_pool_close(pool);
  return status;
}

/* Has everything up to ticket ended, well or not? A command buffer that fails need not signal the event. */
static bool ended(metal_device *d, uint64_t ticket) {
  bool all = true;
  pthread_mutex_lock(&d->lock);
  for (size_t i = 0; i < d->pending.count && d->pending.data[i].ticket <= ticket && all; i++)
    all = send_word(d->pending.data[i].commands, MESSAGE_STATUS) >= STATUS_COMPLETED;
  pthread_mutex_unlock(&d->lock);
  return all;
}

static rlx_status failure_of(metal_device *d, objc_id commands) {
  objc_id error = send_id(commands, MESSAGE_ERROR);
  const char *why = send_text(send_id(error, MESSAGE_DESCRIPTION), MESSAGE_UTF8);
  if (send_word(error, MESSAGE_CODE) == ERROR_DEVICE_REMOVED) __atomic_store_n(&d->head.lost, 1, __ATOMIC_RELAXED);
  return RLX_FAIL(DEVICE, "Metal: %s", why ? why : "the command buffer failed");
}

/* What a failed submission did not signal: later ones wait for it. */
static void signal_for(metal_device *d, uint64_t ticket) {
  if (send_word(d->event, MESSAGE_SIGNALED) < ticket) send_void_word(d->event, MESSAGE_SET_SIGNALED, ticket);
}

/* Lets go of every submission up to ticket, all of which have ended; the first failure is told. */
static rlx_status settle(metal_device *d, uint64_t ticket) {
  rlx_status status = RLX_OK;
  size_t done = 0;
  pthread_mutex_lock(&d->lock);
  for (; done < d->pending.count && d->pending.data[done].ticket <= ticket; done++) {
    objc_id commands = d->pending.data[done].commands;
    bool failed = send_word(commands, MESSAGE_STATUS) == STATUS_ERROR;
    if (failed && status == RLX_OK) status = failure_of(d, commands);
    if (failed) signal_for(d, d->pending.data[done].ticket);
    objc_release(commands);
  }
  memmove(d->pending.data, d->pending.data + done, (d->pending.count - done) * sizeof *d->pending.data);
  d->pending.count -= done;
  pthread_mutex_unlock(&d->lock);
  return status;
}

typedef signed char (*wait_call)(objc_id, objc_sel, uint64_t, uint64_t);

static void wait_for_event(metal_device *d, uint64_t ticket) {
  int64_t until = clock_ns() + SPIN_NS;
  bool reached = false;
  while (!(reached = send_word(d->event, MESSAGE_SIGNALED) >= ticket) && clock_ns() < until) continue;
  while (!reached && !ended(d, ticket))
    reached = ((wait_call)objc_method(d->event, MESSAGE_WAIT_SIGNALED))(d->event, objc_selector(MESSAGE_WAIT_SIGNALED),
                                                                        ticket, BLOCK_MS) != 0;
}

rlx_status metal_wait(gpu_device *head, uint64_t ticket) {
  metal_device *d = device_of(head);
  objc_id pool = objc_pool_open();
  wait_for_event(d, ticket);
  while (!ended(d, ticket)) (void)sched_yield(); /* the event comes from inside the command buffer, a moment before */
  rlx_status status = settle(d, ticket);
  objc_pool_close(pool);
  return status;
}
