/* program.c — from a compiled graph to what the binder walks; stages and sets of them. */
#include "plan/program.h"

#include <string.h>

uint32_t program_slot(const program *p, const rlx_value *v) {
  if (!v) return NO_SLOT;
  if (v->graph == p->graph) return v->id;
  for (size_t i = 0; i < p->captures.count; i++)
    if (p->captures.data[i] == v) return (uint32_t)(p->graph->values.count + i);
  return NO_SLOT;
}

static rlx_status add_children(program *p, program_node *n, value_list *hidden) {
  while (node_subgraph(n->node, n->child_count)) n->child_count++;
  n->children = arena_array(&p->memory, (size_t)n->child_count, sizeof *n->children);
  n->child_captures = arena_array(&p->memory, (size_t)n->child_count, sizeof *n->child_captures);
  if (!n->children || !n->child_captures) return status_no_memory(sizeof *n);
  for (int k = 0; k < n->child_count; k++) {
    RLX_TRY(program_create(node_subgraph(n->node, k), &n->children[k]));
    const value_list *captures = &n->children[k]->captures;
    n->child_captures[k] = arena_array(&p->memory, captures->count, sizeof **n->child_captures);
    if (!n->child_captures[k]) return status_no_memory(captures->count);
    for (size_t i = 0; i < captures->count; i++) {
      size_t at = 0;
      while (at < hidden->count && hidden->data[at] != captures->data[i]) at++;
      if (at == hidden->count && !vector_push(hidden, captures->data[i])) return status_no_memory(1);
      n->child_captures[k][i] = n->node->input_count + (int)at;
    }
  }
  return RLX_OK;
}

static rlx_status add_node(program *p, program_node *n, rlx_node *node) {
  n->node = node;
  n->input_count = node->input_count;
  value_list hidden = {0};
  rlx_status status = add_children(p, n, &hidden);
  n->hidden_count = (int)hidden.count;
  size_t inputs = (size_t)n->input_count + hidden.count;
  n->inputs = arena_array(&p->memory, inputs, sizeof *n->inputs);
  n->outputs = arena_array(&p->memory, (size_t)node->output_count, sizeof *n->outputs);
  if (status == RLX_OK && (!n->inputs || !n->outputs)) status = status_no_memory(inputs);
  if (status == RLX_OK) {
    for (int i = 0; i < n->input_count; i++) n->inputs[i] = program_slot(p, node->inputs[i]);
    for (size_t i = 0; i < hidden.count; i++) n->inputs[(size_t)n->input_count + i] = program_slot(p, hidden.data[i]);
    for (int i = 0; i < node->output_count; i++)
      n->outputs[i] = *node->outputs[i]->name ? program_slot(p, node->outputs[i]) : NO_SLOT;
  }
  vector_finish(&hidden);
  return status;
}

static rlx_status fill(program *p) {
  graph_number(p->graph);
  RLX_TRY(graph_captures(p->graph, &p->captures));
  p->slot_count = (uint32_t)(p->graph->values.count + p->captures.count);
  p->stages = mem_zalloc(sizeof *p->stages);
  p->nodes = arena_array(&p->memory, p->graph->nodes.count, sizeof *p->nodes);
  if (!p->nodes || !p->stages) return status_no_memory(p->graph->nodes.count * sizeof *p->nodes);
  for (size_t i = 0; i < p->graph->nodes.count; i++) {
    p->node_count = (int)i + 1;
    RLX_TRY(add_node(p, &p->nodes[i], p->graph->nodes.data[i]));
  }
  return RLX_OK;
}

rlx_status program_create(rlx_graph *g, program **out) {
  program *p = mem_zalloc(sizeof *p);
  if (!p) return status_no_memory(sizeof *p);
  p->graph = g;
  rlx_status status = fill(p);
  if (status != RLX_OK)
    program_destroy(p);
  else
    *out = p;
  return status;
}

void program_destroy(program *p) {
  if (!p) return;
  if (p->stages) stage_set_finish(p->stages);
  mem_free(p->stages);
  for (int i = 0; i < p->node_count; i++)
    for (int k = 0; p->nodes[i].children && k < p->nodes[i].child_count; k++) program_destroy(p->nodes[i].children[k]);
  vector_finish(&p->captures);
  arena_finish(&p->memory);
  mem_free(p);
}

/* ---- stages ------------------------------------------------------------------------------- */

stage *stage_retain(stage *s) {
  if (s) __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

void stage_release(stage *s) {
  if (!s || __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (int i = 0; i < s->frame_count; i++)
    if (s->frames[i]) frame_destroy(s->frames[i]);
  if (s->device) s->device_release(s->device);
  for (int i = 0; i < s->step_count; i++) {
    const step *st = &s->steps[i];
    if (st->state && st->chosen->kernel->head.release) st->chosen->kernel->head.release(st->state);
  }
  for (int i = 0; i < s->owned_count; i++) rlx_tensor_destroy(s->owned[i]);
  for (int i = 0; i < s->packed_count; i++) packed_release(s->packed[i]);
  for (int i = 0; i < s->pinned_count; i++) tensor_unpin(s->pinned[i]);
  if (s->next) stage_set_finish(s->next);
  mem_free(s->next);
  arena_finish(&s->memory);
  mem_free(s);
}

/* The contents of the inputs that the stage's binding read are as they were. */
static bool same_values(const stage *s, const program_input *inputs) {
  const uint8_t *at = s->key + s->dims_bytes;
  for (int i = 0; i < s->value_input_count; i++) {
    const rlx_operand *o = &inputs[s->value_inputs[i]].operand;
    if (o->bytes && memcmp(at, o->data, (size_t)o->bytes) != 0) return false;
    at += o->bytes;
  }
  return true;
}

static uint64_t tick(void) {
  static uint64_t now;
  return __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED);
}

stage *stage_set_find(stage_set *set, const void *dims, size_t dims_bytes, const program_input *inputs) {
  for (size_t i = 0; i < set->list.count; i++) {
    stage *s = set->list.data[i];
    if (s->dims_bytes != dims_bytes || (dims_bytes && memcmp(s->key, dims, dims_bytes) != 0)) continue;
    if (!same_values(s, inputs)) continue; /* equal dims, hence as many bytes as the key holds */
    __atomic_store_n(&s->last_used, tick(), __ATOMIC_RELAXED);
    return s;
  }
  return NULL;
}

/* Bindings that keep a stage touch it without the lock. */
static uint64_t last_used(const stage *s) { return __atomic_load_n(&s->last_used, __ATOMIC_RELAXED); }

rlx_status stage_set_add(stage_set *set, stage *s) {
  if (set->list.count < STAGES_KEPT) {
    if (!vector_push(&set->list, s)) return status_no_memory(sizeof s);
  } else {
    size_t oldest = 0;
    for (size_t i = 1; i < set->list.count; i++)
      if (last_used(set->list.data[i]) < last_used(set->list.data[oldest])) oldest = i;
    stage *dropped = set->list.data[oldest];
    set->list.data[oldest] = s;
    stage_release(dropped);
  }
  __atomic_store_n(&s->last_used, tick(), __ATOMIC_RELAXED);
  stage_retain(s);
  return RLX_OK;
}

void stage_set_finish(stage_set *set) {
  for (size_t i = 0; i < set->list.count; i++) stage_release(set->list.data[i]);
  vector_finish(&set->list);
}
