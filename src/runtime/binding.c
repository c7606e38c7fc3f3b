/* binding.c — inputs and outputs of runs, and running. */
#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/parallel.h"
#include "ir/shape.h"
#include "runtime/session.h"

/* Used by one thread at a time. Holds references to its tensors and to the stage of its last run. */
struct rlx_binding {
  rlx_session *session;
  rlx_tensor **inputs; /* per graph input, then per default, or NULL */
  bool *donated;
  rlx_tensor **given; /* per graph output: the user's memory, or NULL */
  rlx_type *given_types;
  rlx_tensor **results; /* per graph output: the last run's, run-owned */
  program_input *run_inputs;
  program_output *run_outputs;
  int32_t *ranks;
  stage *memo;
  bool ran;         /* results are those of a successful run */
  pthread_t thread; /* rlx_submit */
  bool submitted;   /* the thread runs, and owns everything here until it is joined */
  const rlx_run_options *submit_options;
  rlx_run_options submit_copy;
  rlx_sync *syncs; /* of the submitted run: what it waits for, then what it signals */
  int wait_count, signal_count;
  rlx_status submit_status;
  char submit_error[STATUS_TEXT_BYTES];
};

void rlx_binding_destroy(rlx_binding *b) {
  if (!b) return;
  if (b->submitted) pthread_join(b->thread, NULL);
  for (size_t i = 0; b->inputs && i < session_port_count(b->session); i++) rlx_tensor_destroy(b->inputs[i]);
  for (int i = 0; i < rlx_session_output_count(b->session); i++) {
    if (b->given) rlx_tensor_destroy(b->given[i]);
    if (b->results) rlx_tensor_destroy(b->results[i]);
  }
  stage_release(b->memo);
  mem_free(b->inputs);
  mem_free(b->donated);
  mem_free(b->given);
  mem_free(b->given_types);
  mem_free(b->results);
  mem_free(b->run_inputs);
  mem_free(b->run_outputs);
  mem_free(b->ranks);
  mem_free(b->syncs);
  mem_free(b);
}

rlx_status rlx_binding_create(rlx_session *s, rlx_binding **out) {
  RLX_NEED(out);
  if (!s) return RLX_FAIL(INVALID, "binding: no session");
  rlx_binding *b = mem_zalloc(sizeof *b);
  if (!b) return status_no_memory(sizeof *b);
  size_t ins = session_port_count(s), outs = (size_t)rlx_session_output_count(s);
  b->session = s;
  b->inputs = mem_array(ins, sizeof *b->inputs);
  b->donated = mem_array(ins, sizeof *b->donated);
  b->given = mem_array(outs, sizeof *b->given);
  b->given_types = mem_array(outs, sizeof *b->given_types);
  b->results = mem_array(outs, sizeof *b->results);
  b->run_inputs = mem_array(ins, sizeof *b->run_inputs);
  b->run_outputs = mem_array(outs, sizeof *b->run_outputs);
  b->ranks = mem_array(ins, sizeof *b->ranks);
  if (!b->inputs || !b->donated || !b->given || !b->given_types || !b->results || !b->run_inputs || !b->run_outputs ||
      !b->ranks) {
    rlx_binding_destroy(b);
    return status_no_memory(ins + outs);
  }
  *out = b;
  return RLX_OK;
}

static const char *input_name(const rlx_graph *g, size_t i) {
  return i < g->inputs.count ? g->inputs.data[i]->name : g->defaults.data[i - g->inputs.count].value->name;
}

static const rlx_type *input_type(const rlx_graph *g, size_t i) {
  return i < g->inputs.count ? &g->inputs.data[i]->type : &g->defaults.data[i - g->inputs.count].type;
}

static rlx_status find_input(const rlx_binding *b, const char *name, int *out) {
  const rlx_graph *g = b->session->source;
  for (size_t i = 0; name && i < session_port_count(b->session); i++)
    if (strcmp(input_name(g, i), name) == 0) {
      *out = (int)i;
      return RLX_OK;
    }
  return RLX_FAIL(NOT_FOUND, "no input '%s'", name ? name : "");
}

static rlx_status find_output(const rlx_binding *b, const char *name, int *out) {
  const rlx_graph *g = b->session->source;
  for (size_t i = 0; name && i < g->outputs.count; i++)
    if (strcmp(g->outputs.data[i].name, name) == 0) {
      *out = (int)i;
      return RLX_OK;
    }
  return RLX_FAIL(NOT_FOUND, "no output '%s'", name ? name : "");
}

static rlx_status idle(const rlx_binding *b) {
  return b->submitted ? RLX_FAIL(BUSY, "the binding's submitted run has not been waited for") : RLX_OK;
}

static rlx_status check_input(const char *name, const rlx_type *want, const rlx_tensor *t) {
  char a[300], b[300];
  rlx_type is;
  rlx_tensor_type(t, &is);
  if (type_admits(want, &is)) return RLX_OK;
  return RLX_FAIL(INVALID, "input '%s' is %s, given %s", name, type_text(want, a, sizeof a),
                  type_text(&is, b, sizeof b));
}

rlx_status rlx_binding_input(rlx_binding *b, const char *name, rlx_tensor *t, uint32_t flags) {
  RLX_NEED(b);
  RLX_NEED(name);
  int i = 0;
  RLX_TRY(idle(b));
  RLX_TRY(find_input(b, name, &i));
  if (flags & ~(uint32_t)RLX_BIND_DONATE) return RLX_FAIL(INVALID, "input '%s': unknown flags 0x%x", name, flags);
  if (t) RLX_TRY(check_input(name, input_type(b->session->source, (size_t)i), t));
  if (t && t->file && (flags & RLX_BIND_DONATE))
    return RLX_FAIL(INVALID, "input '%s': memory of a mapped file cannot be donated", name);
  rlx_tensor_retain(t);
  rlx_tensor_destroy(b->inputs[i]);
  b->inputs[i] = t;
  b->donated[i] = flags & RLX_BIND_DONATE;
  return RLX_OK;
}

rlx_status rlx_binding_output(rlx_binding *b, const char *name, rlx_tensor *t) {
  RLX_NEED(b);
  RLX_NEED(name);
  int i = 0;
  RLX_TRY(idle(b));
  RLX_TRY(find_output(b, name, &i));
  rlx_dtype want = b->session->first.graph->outputs.data[i].value->type.dtype;
  if (t && t->kind != RLX_KIND_TENSOR)
    return RLX_FAIL(INVALID, "output '%s': memory can be given for tensors only", name);
  if (t && t->file) return RLX_FAIL(INVALID, "output '%s': memory of a mapped file cannot be written", name);
  if (t && t->dtype != want && want != RLX_UNDEFINED)
    return RLX_FAIL(INVALID, "output '%s' is %s, the memory given is for %s", name, rlx_dtype_name(want),
                    rlx_dtype_name(t->dtype));
  rlx_tensor_retain(t);
  rlx_tensor_destroy(b->given[i]);
  b->given[i] = t;
  if (t) rlx_tensor_type(t, &b->given_types[i]);
  return RLX_OK;
}

rlx_status rlx_binding_get(rlx_binding *b, const char *name, rlx_tensor **out) {
  RLX_NEED(b);
  RLX_NEED(name);
  RLX_NEED(out);
  int i = 0;
  RLX_TRY(idle(b));
  RLX_TRY(find_output(b, name, &i));
  rlx_tensor *t = b->given[i] ? b->given[i] : b->results[i];
  if (!b->ran || !t) return RLX_FAIL(INVALID, "output '%s': nothing has run", name);
  *out = rlx_tensor_retain(t);
  return RLX_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static bool overlap(const rlx_tensor *a, const rlx_tensor *b) {
  if (!a || !b || !a->bytes || !b->bytes || !a->data || !b->data) return false;
  const char *x = a->data, *y = b->data;
  return x < y + b->bytes && y < x + a->bytes;
}

/* Memory a run writes is nobody else's: outputs given, and inputs donated. */
static rlx_status check_overlaps(const rlx_binding *b) {
  const rlx_graph *g = b->session->source;
  size_t inputs = session_port_count(b->session);
  for (size_t o = 0; o < g->outputs.count; o++) {
    if (!b->given[o]) continue;
    for (size_t i = 0; i < inputs; i++)
      if (overlap(b->given[o], b->inputs[i]))
        return RLX_FAIL(INVALID, "output '%s' and input '%s' share memory", g->outputs.data[o].name, input_name(g, i));
    for (size_t p = 0; p < o; p++)
      if (overlap(b->given[o], b->given[p]))
        return RLX_FAIL(INVALID, "outputs '%s' and '%s' share memory", g->outputs.data[o].name,
                        g->outputs.data[p].name);
  }
  for (size_t i = 0; i < inputs; i++)
    for (size_t j = 0; j < inputs && b->donated[i]; j++)
      if (i != j && overlap(b->inputs[i], b->inputs[j]))
        return RLX_FAIL(INVALID, "inputs '%s', which is donated, and '%s' share memory", input_name(g, i),
                        input_name(g, j));
  return RLX_OK;
}

static rlx_status gather(rlx_binding *b) {
  const rlx_graph *g = b->session->source;
  size_t used = 0; /* inputs of the program: defaults that are not bound are constants in it */
  for (size_t i = 0; i < session_port_count(b->session); i++) {
    const rlx_tensor *t = b->inputs[i];
    if (!t && i < g->inputs.count) return RLX_FAIL(INVALID, "input '%s' is not bound", input_name(g, i));
    b->ranks[i] = t ? t->rank : NOT_OVERRIDDEN;
    if (!t) continue;
    program_input *in = &b->run_inputs[used++];
    bool here = gpu_memory_of(t->device, b->session->gpu);
    *in = (program_input){tensor_operand(t), b->donated[i], here ? t->device : NULL};
    if (!in->operand.data && t->device && !here)
      return RLX_FAIL(INVALID, "input '%s' lies in memory of another device", input_name(g, i));
    if (!in->operand.data && !t->device && t->bytes) return status_no_memory(t->bytes);
  }
  RLX_TRY(check_overlaps(b));
  for (size_t i = 0; i < g->outputs.count; i++)
    if (b->given[i] && b->given[i]->device && !b->given[i]->data &&
        !gpu_memory_of(b->given[i]->device, b->session->gpu))
      return RLX_FAIL(INVALID, "output '%s': the memory given is of another device", g->outputs.data[i].name);
  for (size_t i = 0; i < g->outputs.count; i++)
    b->run_outputs[i] = (program_output){.data = b->given[i] ? b->given[i]->data : NULL,
                                         .must = &b->given_types[i],
                                         .given = b->given[i],
                                         .tensor = &b->results[i]};
  return RLX_OK;
}

static rlx_status check_options(const rlx_run_options *o) {
  if (o && o->struct_size < sizeof *o) return RLX_FAIL(INVALID, "run options: struct_size is not set");
  return RLX_OK;
}

static rlx_status run_now(rlx_binding *b, const rlx_run_options *options) {
  rlx_session *s = b->session;
  build built;
  run_state *rs;
  RLX_TRY(gather(b));
  RLX_TRY(build_for(s, b->ranks, &built));
  RLX_TRY(run_state_claim(s, &rs));
  int before = parallel_enter(s->threads);
  failure_reset(&rs->failure);
  rs->options = options;
  rs->cancel = options && options->cancel ? &options->cancel->set : NULL;
  rs->level = rs->call_depth = 0;
  rs->steps_done = rs->steps_total = 0;
  b->ran = false;
  rlx_status status = program_run(rs, built.root, b->run_inputs, b->run_outputs, &b->memo);
  parallel_leave(before);
  run_state_return(rs);
  if (status == RLX_OK) __atomic_fetch_add(&s->runs, 1, __ATOMIC_RELAXED);
  b->ran = status == RLX_OK;
  return status;
}

rlx_status rlx_run(rlx_binding *b, const rlx_run_options *options) {
  RLX_NEED(b);
  RLX_TRY(idle(b));
  RLX_TRY(check_options(options));
  return run_now(b, options);
}

static void *run_submitted(void *arg) {
  rlx_binding *b = arg;
  gpu_session *gpu = b->session->gpu;
  rlx_status status = b->wait_count ? gpu_session_sync(gpu, b->syncs, b->wait_count, false) : RLX_OK;
  if (status == RLX_OK) status = run_now(b, b->submit_options);
  status_save(b->submit_error);
  b->submit_status = status;
  /* Also after a failure, which rlx_wait tells: others would wait for ever. */
  if (b->signal_count && gpu_session_sync(gpu, b->syncs + b->wait_count, b->signal_count, true) != RLX_OK &&
      status == RLX_OK) {
    b->submit_status = RLX_DEVICE;
    status_save(b->submit_error);
  }
  return NULL;
}

static rlx_status keep_syncs(rlx_binding *b, const rlx_sync *waits, int wait_count, const rlx_sync *signals,
                             int signal_count) {
  size_t waited = (size_t)wait_count * sizeof *waits, signalled = (size_t)signal_count * sizeof *signals;
  if (wait_count < 0 || signal_count < 0 || (wait_count && !waits) || (signal_count && !signals))
    return RLX_FAIL(INVALID, "submit: a count without its list");
  if ((wait_count || signal_count) && !b->session->gpu)
    return RLX_FAIL(UNSUPPORTED, "the cpu device has no objects to wait for or to signal");
  rlx_sync *kept = mem_realloc(b->syncs, waited + signalled + 1);
  if (!kept) return status_no_memory(waited + signalled);
  if (waited) memcpy(kept, waits, waited);
  if (signalled) memcpy(kept + wait_count, signals, signalled);
  b->syncs = kept;
  b->wait_count = wait_count;
  b->signal_count = signal_count;
  return RLX_OK;
}

rlx_status rlx_submit(rlx_binding *b, const rlx_run_options *options, const rlx_sync *waits, int wait_count,
                      const rlx_sync *signals, int signal_count) {
  RLX_NEED(b);
  RLX_TRY(idle(b));
  RLX_TRY(check_options(options));
  RLX_TRY(keep_syncs(b, waits, wait_count, signals, signal_count));
  if (options) b->submit_copy = *options;
  b->submit_options = options ? &b->submit_copy : NULL;
  int error = pthread_create(&b->thread, NULL, run_submitted, b);
  if (error) return RLX_FAIL(OUT_OF_MEMORY, "cannot start a thread: %s", strerror(error));
  b->submitted = true;
  return RLX_OK;
}

rlx_status rlx_wait(rlx_binding *b) {
  RLX_NEED(b);
  if (!b->submitted) return RLX_FAIL(INVALID, "nothing was submitted");
  pthread_join(b->thread, NULL);
  b->submitted = false;
  if (b->submit_status != RLX_OK) status_restore(b->submit_error);
  return b->submit_status;
}

/* ---- cancelling --------------------------------------------------------------------------- */

rlx_status rlx_cancel_create(rlx_cancel **out) {
  RLX_NEED(out);
  rlx_cancel *c = mem_zalloc(sizeof *c);
  if (!c) return status_no_memory(sizeof *c);
  *out = c;
  return RLX_OK;
}

void rlx_cancel_set(rlx_cancel *c, bool cancelled) {
  if (c) __atomic_store_n(&c->set, cancelled, __ATOMIC_RELAXED);
}

void rlx_cancel_destroy(rlx_cancel *c) { mem_free(c); }
