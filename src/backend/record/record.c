/* record.c — the device: memory, lists of commands, and a queue that is worked off in random pieces and orders. */
#include "backend/record/record.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/gpu/gpu.h"
#include "base/vector.h"
#include "ir/failure.h"
#include "ir/graph.h"
#include "ir/record.h"

typedef enum command_kind { CALL, COPY, BARRIER } command_kind;

/* One command; what it needs is copied, since the executor's arrays may change before it runs. */
typedef struct command {
  command_kind kind;
  rlx_status (*run)(rlx_ctx *ctx);
  const rlx_node *node;
  rlx_operand *operands; /* CALL: inputs, then outputs; owned */
  int input_count, output_count;
  const void *params, *state;
  void *workspace;
  int64_t workspace_bytes;
  void *to; /* COPY */
  const void *from;
  int64_t bytes;
} command;

typedef struct record_device record_device;

struct gpu_list {
  record_device *device;
  VECTOR(command) commands;
  bool failed; /* memory was short: told at the end of the recording */
};

typedef struct submission {
  gpu_list *list;
  uint64_t ticket;
} submission;

struct record_device {
  gpu_device head;
  pthread_mutex_t lock;
  VECTOR(submission) queue;
  uint64_t tickets, done;
  uint64_t random;
  record_options options;
  int submits, buffers;
  rlx_status failed; /* of a command: told at the next wait */
  char failure[sizeof((failure *)0)->text];
};

static record_options next_options;

void record_set_options(const record_options *o) { next_options = *o; }

static record_device *device_of(gpu_device *d) { return (record_device *)d; }

static uint32_t draw(record_device *d, uint32_t below) {
  d->random ^= d->random << 13;
  d->random ^= d->random >> 7;
  d->random ^= d->random << 17;
  return below ? (uint32_t)(d->random >> 33) % below : 0;
}

/* ---- opening ------------------------------------------------------------------------------ */

static rlx_status open_device(int index, const gpu_open_options *options, gpu_device **out);

static void close_device(gpu_device *head) {
  record_device *d = device_of(head);
  vector_finish(&d->queue);
  pthread_mutex_destroy(&d->lock);
  mem_free(d);
}

/* ---- memory ------------------------------------------------------------------------------- */

static rlx_status buffer_create(gpu_device *head, gpu_memory_kind kind, int64_t bytes, gpu_buffer *out) {
  record_device *d = device_of(head);
  int made = __atomic_add_fetch(&d->buffers, 1, __ATOMIC_RELAXED);
  if (d->options.no_memory_after && made >= d->options.no_memory_after)
    return RLX_FAIL(OUT_OF_MEMORY, "the device has no memory for %lld bytes", (long long)bytes);
  void *memory = mem_aligned(256, (size_t)bytes);
  if (!memory) return status_no_memory((size_t)bytes);
  memset(memory, 0xcd, (size_t)bytes); /* nobody may rely on what is in it */
  bool visible = kind != GPU_MEMORY_DEVICE || head->unified;
  *out = (gpu_buffer){memory, NULL, visible ? memory : NULL, (uint64_t)(uintptr_t)memory, bytes};
  return RLX_OK;
}

static void buffer_destroy(gpu_device *head, gpu_buffer *b) {
  (void)head;
  if (b->native) memset(b->native, 0xdd, (size_t)b->bytes);
  mem_free(b->native);
  *b = (gpu_buffer){0};
}

/* ---- kernels ------------------------------------------------------------------------------ */

/* A portable kernel's text is not run: the op's eval, which defines it, stands in. */
static rlx_status kernel_create(gpu_device *d, const gpu_source *source, void **kernel) {
  (void)d;
  if (!source->node->op || !source->node->op->op.eval)
    return RLX_FAIL(UNSUPPORTED, "the record device runs portable kernels by the op's eval, and it has none");
  *kernel = (void *)(uintptr_t)source->node;
  return RLX_OK;
}

static void kernel_destroy(gpu_device *d, void *kernel) {
  (void)d;
  (void)kernel;
}

/* ---- recording ---------------------------------------------------------------------------- */

static void empty(gpu_list *l) {
  for (size_t i = 0; i < l->commands.count; i++) mem_free(l->commands.data[i].operands);
  l->commands.count = 0;
}

static rlx_status list_begin(gpu_device *head, gpu_list **list) {
  if (*list) {
    (*list)->failed = false;
    empty(*list);
    return RLX_OK;
  }
  gpu_list *l = mem_zalloc(sizeof *l);
  if (!l) return status_no_memory(sizeof *l);
  l->device = device_of(head);
  *list = l;
  return RLX_OK;
}

static rlx_status list_end(gpu_list *l) { return l->failed ? status_no_memory(sizeof(command)) : RLX_OK; }

static void list_destroy(gpu_list *l) {
  empty(l);
  vector_finish(&l->commands);
  mem_free(l);
}

static void *at(const gpu_span *s) { return s->buffer ? (char *)s->buffer->native + s->offset : NULL; }

static rlx_status add_call(gpu_list *l, rlx_status (*run)(rlx_ctx *ctx), const gpu_operands *o) {
  int count = o->input_count + o->output_count;
  command c = {.kind = CALL,
               .run = run,
               .node = o->node,
               .operands = mem_array((size_t)count, sizeof *c.operands),
               .input_count = o->input_count,
               .output_count = o->output_count,
               .params = o->params,
               .state = o->state,
               .workspace = at(&o->workspace),
               .workspace_bytes = o->workspace.bytes};
  if (!c.operands) return status_no_memory((size_t)count * sizeof *c.operands);
  for (int i = 0; i < count; i++) {
    c.operands[i] = o->described[i];
    c.operands[i].data = at(&o->spans[i]);
  }
  if (vector_push(&l->commands, c)) return RLX_OK;
  mem_free(c.operands);
  return status_no_memory(sizeof c);
}

static rlx_status launch(gpu_list *l, const gpu_launch *launch) {
  const rlx_node *n = launch->kernel;
  return launch->index ? RLX_OK : add_call(l, n->op->op.eval, launch->operands);
}

static rlx_status encode(gpu_list *l, const gpu_raw *raw) {
  const record_kernel *k = raw->record;
  if (k->encode) RLX_TRY(k->encode(raw->operands->node));
  return add_call(l, k->run, raw->operands);
}

static void copy(gpu_list *l, const gpu_span *from, const gpu_span *to) {
  command c = {.kind = COPY, .from = at(from), .to = at(to), .bytes = from->bytes};
  l->failed |= !vector_push(&l->commands, c);
}

static void barrier(gpu_list *l) { l->failed |= !vector_push(&l->commands, (command){.kind = BARRIER}); }

/* ---- running ------------------------------------------------------------------------------ */

static void run_call(record_device *d, const command *c) {
  failure failed;
  failure_reset(&failed);
  executor_head head = {.failure = &failed, .threads = 1};
  rlx_ctx ctx = {.struct_size = sizeof ctx,
                 .input_count = c->input_count,
                 .output_count = c->output_count,
                 .inputs = c->operands,
                 .outputs = c->operands + c->input_count,
                 .params = c->params,
                 .state = c->state,
                 .workspace = c->workspace,
                 .workspace_bytes = c->workspace_bytes,
                 .node = c->node,
                 .executor = &head};
  rlx_status status = c->run(&ctx);
  if ((status == RLX_OK && !failed.taken) || d->failed != RLX_OK) return;
  d->failed = RLX_DEVICE;
  snprintf(d->failure, sizeof d->failure, "%.1000s", failed.taken ? failed.text : rlx_error_message());
}

static void run_command(record_device *d, const command *c) {
  if (c->kind == COPY) memcpy(c->to, c->from, (size_t)c->bytes);
  if (c->kind == CALL) run_call(d, c);
}

/* The commands between two barriers, in random order. */
static void run_stretch(record_device *d, command *commands, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t pick = d->options.seed ? i + draw(d, (uint32_t)(count - i)) : i;
    command c = commands[pick];
    commands[pick] = commands[i];
    commands[i] = c;
    run_command(d, &commands[i]);
  }
}

static void run_list(record_device *d, gpu_list *l) {
  size_t begin = 0;
  for (size_t i = 0; i <= l->commands.count; i++) {
    if (i < l->commands.count && l->commands.data[i].kind != BARRIER) continue;
    run_stretch(d, l->commands.data + begin, i - begin);
    begin = i + 1;
  }
}

/* Works off the queue up to a ticket. */
static void run_until(record_device *d, uint64_t ticket) {
  size_t i = 0;
  for (; i < d->queue.count && d->queue.data[i].ticket <= ticket; i++) {
    run_list(d, d->queue.data[i].list);
    d->done = d->queue.data[i].ticket;
  }
  memmove(d->queue.data, d->queue.data + i, (d->queue.count - i) * sizeof *d->queue.data);
  d->queue.count -= i;
}

static rlx_status lose(record_device *d) {
  __atomic_store_n(&d->head.lost, 1, __ATOMIC_RELAXED);
  d->queue.count = 0;
  return RLX_FAIL(DEVICE, "the device was lost");
}

static rlx_status submit(gpu_device *head, gpu_list *const *lists, int count, uint64_t *ticket) {
  record_device *d = device_of(head);
  pthread_mutex_lock(&d->lock);
  rlx_status status = RLX_OK;
  if (head->lost || (d->options.lose_after && ++d->submits >= d->options.lose_after)) status = lose(d);
  uint64_t next = d->tickets + 1;
  for (int i = 0; i < count && status == RLX_OK; i++)
    if (!vector_push(&d->queue, (submission){lists[i], next})) status = status_no_memory(sizeof(submission));
  if (status == RLX_OK) {
    *ticket = d->tickets = next;
    if (d->options.seed && draw(d, 2)) run_until(d, d->done + 1 + draw(d, (uint32_t)(next - d->done)));
  }
  pthread_mutex_unlock(&d->lock);
  return status;
}

static rlx_status wait_ticket(gpu_device *head, uint64_t ticket) {
  record_device *d = device_of(head);
  pthread_mutex_lock(&d->lock);
  rlx_status status = RLX_OK;
  if (head->lost) {
    status = lose(d);
  } else {
    run_until(d, ticket);
    if (d->failed != RLX_OK) status = RLX_FAIL(DEVICE, "a kernel failed on the device: %s", d->failure);
    d->failed = RLX_OK;
  }
  pthread_mutex_unlock(&d->lock);
  return status;
}

/* ---- the backend -------------------------------------------------------------------------- */

static const gpu_api api = {
    .name = "record",
    .replays = true,
    .records_operands = true,
    .open = open_device,
    .close = close_device,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .kernel_create = kernel_create,
    .kernel_destroy = kernel_destroy,
    .list_begin = list_begin,
    .list_end = list_end,
    .list_destroy = list_destroy,
    .launch = launch,
    .encode = encode,
    .copy = copy,
    .barrier = barrier,
    .submit = submit,
    .wait = wait_ticket,
};

static rlx_status open_device(int index, const gpu_open_options *options, gpu_device **out) {
  (void)index;
  record_device *d = mem_zalloc(sizeof *d);
  if (!d) return status_no_memory(sizeof *d);
  d->head = (gpu_device){.api = &api, .unified = !options->discrete, .name = "record"};
  d->options = next_options;
  d->random = UINT64_C(0x9e3779b97f4a7c15) ^ ((uint64_t)next_options.seed << 32 | next_options.seed);
  pthread_mutex_init(&d->lock, NULL);
  *out = &d->head;
  return RLX_OK;
}

static int one(void) { return 1; }

static void describe(int i, char *text, size_t size) {
  (void)i;
  snprintf(text, size, "no hardware: keeps the rules of a GPU, in any order they allow; for tests");
}

static const char *const kernels[] = {"record", "gpu", "cpu", NULL};
const backend record_backend = {"record", kernels, &api, one, describe, NULL};

rlx_status record_register_kernel(rlx_registry *r, const record_kernel *k, uint32_t flags, rlx_handle *handle) {
  kernel_source s = {KERNEL_RAW, "record", &k->head, NULL, k, k->struct_size, sizeof *k};
  return registry_add_kernel(r, &s, flags, handle);
}
