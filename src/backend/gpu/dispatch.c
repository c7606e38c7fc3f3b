/* dispatch.c — portable kernels while they are recorded: what encode asks and sets, argument blocks, launches. */
#include <string.h>

#include "backend/gpu/frame.h"
#include "backend/gpu/render.h"
#include "ir/bound.h"

enum { DISPATCH_MAGIC = 0x6d15b, BOUND_OPERANDS = 128 };

/* One call of encode. */
struct rlx_gpu_dispatch {
  uint32_t magic; /* tells rlx_fail that this is no rlx_ctx */
  gpu_frame *frame;
  gpu_list *list;
  int step;
  const rlx_gpu_kernel *record;
  const gpu_kernel_set *set;
  gpu_operands operands;
  gpu_scalars scalars;
  int launches;
  int32_t last_arguments; /* of the launch before; -1 */
};

static const step *step_of(const rlx_gpu_dispatch *d) { return &d->frame->stage->stage->steps[d->step]; }

/* ---- what encode asks --------------------------------------------------------------------- */

const rlx_node *rlx_gpu_node(const rlx_gpu_dispatch *d) { return d->operands.node; }
const void *rlx_gpu_params(const rlx_gpu_dispatch *d) { return d->operands.params; }
const void *rlx_gpu_state(const rlx_gpu_dispatch *d) { return d->operands.state; }
int rlx_gpu_input_count(const rlx_gpu_dispatch *d) { return d->operands.input_count; }
int rlx_gpu_output_count(const rlx_gpu_dispatch *d) { return d->operands.output_count; }

const rlx_operand *rlx_gpu_input(const rlx_gpu_dispatch *d, int i) {
  if (i < 0 || i >= d->operands.input_count || step_of(d)->from->inputs[i] == NO_SLOT) return NULL;
  return &d->operands.described[i];
}

const rlx_operand *rlx_gpu_output(const rlx_gpu_dispatch *d, int i) {
  if (i < 0 || i >= d->operands.output_count || step_of(d)->from->outputs[i] == NO_SLOT) return NULL;
  return &d->operands.described[d->operands.input_count + i];
}

void rlx_gpu_set_ints(rlx_gpu_dispatch *d, const char *arg, const int64_t *values, int count) {
  gpu_scalars_set_ints(&d->scalars, arg, values, count);
}

void rlx_gpu_set_floats(rlx_gpu_dispatch *d, const char *arg, const double *values, int count) {
  gpu_scalars_set_floats(&d->scalars, arg, values, count);
}

void rlx_gpu_set_int(rlx_gpu_dispatch *d, const char *arg, int64_t value) { rlx_gpu_set_ints(d, arg, &value, 1); }
void rlx_gpu_set_float(rlx_gpu_dispatch *d, const char *arg, double value) { rlx_gpu_set_floats(d, arg, &value, 1); }

/* ---- argument blocks ---------------------------------------------------------------------- */

static rlx_status cut_block(gpu_frame *f, int32_t bytes, gpu_arguments *out) {
  gpu_shared *s = f->session->shared;
  gpu_table *last = f->tables.count ? f->tables.data[f->tables.count - 1] : NULL;
  if (!last || last->buffer.bytes - last->used < bytes) {
    gpu_table *made = mem_zalloc(sizeof *made);
    if (!made) return status_no_memory(sizeof *made);
    int64_t want = bytes > GPU_TABLE_BYTES ? bytes : GPU_TABLE_BYTES;
    rlx_status status = s->api->buffer_create(s->device, GPU_MEMORY_TABLE, want, &made->buffer);
    if (status == RLX_OK && !vector_push(&f->tables, made)) {
      s->api->buffer_destroy(s->device, &made->buffer);
      status = status_no_memory(sizeof made);
    }
    if (status != RLX_OK) {
      mem_free(made);
      return status;
    }
    last = made;
  }
  *out = (gpu_arguments){&last->buffer, last->used, bytes, -1};
  last->used += bytes;
  return RLX_OK;
}

/* The operand that an argument stands for; NULL: none, whose address is 0. */
static const gpu_ref *argument_operand(const rlx_gpu_dispatch *d, const rlx_gpu_arg *arg) {
  const gpu_stage *g = d->frame->stage;
  const step *st = step_of(d);
  const program_node *n = st->from;
  const gpu_ref *first = &g->refs[st->first_operand];
  if (arg->flags & RLX_GPU_WORKSPACE) return &g->workspaces[d->step];
  if ((arg->flags & RLX_GPU_INPUT) && arg->index < n->input_count && n->inputs[arg->index] != NO_SLOT)
    return &first[arg->index];
  if ((arg->flags & RLX_GPU_OUTPUT) && arg->index < n->node->output_count && n->outputs[arg->index] != NO_SLOT)
    return &first[n->input_count + n->hidden_count + arg->index];
  return NULL;
}

static void write_cell(const gpu_frame *f, const gpu_cell *c) {
  gpu_span span = gpu_frame_span(f, c->operand);
  *c->word = span.buffer ? gpu_span_address(&span) + (uint64_t)c->offset : 0;
}

static rlx_status add_cells(rlx_gpu_dispatch *d, const gpu_layout *layout, uint8_t *block) {
  memset(block, 0, (size_t)layout->bytes);
  for (int i = 0; i < layout->count; i++) {
    const gpu_slot *slot = &layout->slots[i];
    const gpu_ref *operand = argument_operand(d, slot->arg);
    if (!operand || (slot->arg->flags & (RLX_GPU_SCALAR | RLX_GPU_COUNT))) continue;
    bool workspace = slot->arg->flags & RLX_GPU_WORKSPACE;
    gpu_cell c = {(uint64_t *)(void *)(block + slot->offset), operand, workspace ? slot->arg->index : 0};
    if (!vector_push(&d->frame->cells, c)) return status_no_memory(sizeof c);
    write_cell(d->frame, &c);
  }
  return RLX_OK;
}

/* The block of this launch: that of the recording before, if it has the size, else a new one. */
static rlx_status find_block(rlx_gpu_dispatch *d, const gpu_layout *layout, gpu_arguments *out) {
  gpu_frame *f = d->frame;
  int32_t at = d->last_arguments < 0 ? f->first_arguments[d->step] : f->arguments.data[d->last_arguments].next;
  if (at >= 0 && f->arguments.data[at].bytes == layout->bytes) {
    d->last_arguments = at;
    *out = f->arguments.data[at];
    return RLX_OK;
  }
  gpu_arguments made = {0};
  RLX_TRY(cut_block(f, layout->bytes, &made));
  if (!vector_push(&f->arguments, made)) return status_no_memory(sizeof made);
  at = (int32_t)f->arguments.count - 1;
  if (d->last_arguments < 0)
    f->first_arguments[d->step] = at;
  else
    f->arguments.data[d->last_arguments].next = at;
  d->last_arguments = at;
  *out = made;
  return add_cells(d, layout, (uint8_t *)made.buffer->host + made.offset);
}

void gpu_rewrite_arguments(gpu_frame *f) {
  for (size_t i = 0; i < f->cells.count; i++) write_cell(f, &f->cells.data[i]);
}

void gpu_arguments_finish(gpu_frame *f) {
  gpu_shared *s = f->session->shared;
  for (size_t i = 0; i < f->tables.count; i++) {
    s->api->buffer_destroy(s->device, &f->tables.data[i]->buffer);
    mem_free(f->tables.data[i]);
  }
  vector_finish(&f->tables);
  vector_finish(&f->arguments);
  vector_finish(&f->cells);
}

/* ---- launches ----------------------------------------------------------------------------- */

static rlx_status fill_scalars(rlx_gpu_dispatch *d, const gpu_layout *layout, void *block) {
  int64_t counts[GPU_MAX_ARGS] = {0};
  for (int i = 0; i < d->operands.output_count && i < GPU_MAX_ARGS; i++) {
    const rlx_operand *o = rlx_gpu_output(d, i);
    counts[i] = o ? o->count : 0;
  }
  return gpu_block_scalars(layout, &d->scalars, d->operands.node, counts, block);
}

rlx_status rlx_gpu_launch(rlx_gpu_dispatch *d, int function, const int64_t groups[3]) {
  const gpu_api *api = d->frame->session->shared->api;
  gpu_layout layout;
  gpu_arguments block = {0};
  if (function < 0 || function >= d->set->count) return RLX_FAIL(INVALID, "launch: no function %d", function);
  for (int i = 0; i < 3; i++) {
    if (groups[i] < 0 || groups[i] > GPU_MAX_GROUPS)
      return RLX_FAIL(INVALID, "launch: %lld workgroups are outside 0..%d", (long long)groups[i], GPU_MAX_GROUPS);
    if (groups[i] == 0) return RLX_OK;
  }
  RLX_TRY(gpu_layout_make(&d->record->functions[function], d->operands.node, &layout));
  RLX_TRY(find_block(d, &layout, &block));
  RLX_TRY(fill_scalars(d, &layout, (uint8_t *)block.buffer->host + block.offset));
  gpu_launch launch = {.kernel = d->set->kernels[function],
                       .block = block.buffer->address + (uint64_t)block.offset,
                       .block_buffer = block.buffer,
                       .block_offset = block.offset,
                       .groups = {(uint32_t)groups[0], (uint32_t)groups[1], (uint32_t)groups[2]},
                       .operands = &d->operands,
                       .index = d->launches};
  if (d->launches++) api->barrier(d->list);
  return api->launch(d->list, &launch);
}

/* The node with its extents, for a record that says its grid. */
static rlx_status ask_grid(rlx_gpu_dispatch *d, int64_t groups[3]) {
  const step *st = step_of(d);
  const stage *s = d->frame->stage->stage;
  const program_node *n = st->from;
  const rlx_type *types[BOUND_OPERANDS] = {0};
  const rlx_tensor *constants[BOUND_OPERANDS] = {0};
  int ins = n->input_count, outs = n->node->output_count;
  if (ins + outs > BOUND_OPERANDS) return RLX_FAIL(UNSUPPORTED, "more than %d operands", BOUND_OPERANDS);
  for (int i = 0; i < ins; i++) {
    if (n->inputs[i] == NO_SLOT) continue;
    types[i] = &s->facts[n->inputs[i]].type;
    constants[i] = n->node->inputs[i]->constant;
  }
  for (int i = 0; i < outs; i++)
    if (n->outputs[i] != NO_SLOT) types[ins + i] = &s->facts[n->outputs[i]].type;
  rlx_bound b = {BOUND_MAGIC, n->node, types, types + ins, constants, 1, NULL};
  return d->record->grid(&b, groups);
}

static rlx_status launch_alone(rlx_gpu_dispatch *d) {
  int64_t groups[3] = {1, 1, 1};
  if (d->record->grid) {
    RLX_TRY(ask_grid(d, groups));
  } else {
    const rlx_operand *o = rlx_gpu_output(d, 0);
    uint32_t size[3];
    gpu_workgroup(&d->record->functions[0], size);
    int64_t width = (int64_t)size[0] * size[1] * size[2], count = o ? o->count : 0;
    groups[0] = (count + width - 1) / width;
    if (groups[0] > GPU_MAX_GROUPS) groups[0] = GPU_MAX_GROUPS;
  }
  return rlx_gpu_launch(d, 0, groups);
}

rlx_status gpu_encode_portable(gpu_frame *f, gpu_list *list, int t) {
  const step *st = &f->stage->stage->steps[t];
  rlx_gpu_dispatch d = {.magic = DISPATCH_MAGIC,
                        .frame = f,
                        .list = list,
                        .step = t,
                        .record = st->chosen->kernel->record,
                        .set = f->stage->kernels[t],
                        .last_arguments = -1};
  gpu_frame_operands(f, t, &d.operands);
  status_clear();
  rlx_status status = d.record->encode ? d.record->encode(&d) : launch_alone(&d);
  if (status == RLX_OK && d.scalars.failed) status = status_no_memory(1);
  if (status != RLX_OK && !*rlx_error_message())
    status = status_fail(status, "encode returned '%s' without saying why", rlx_status_name(status));
  gpu_scalars_finish(&d.scalars);
  return status;
}
