/* device_steps.c — a stage with steps on a device: what the executor of GPUs asks of a run. */
#include "runtime/session.h"

static rlx_status relocated(void *user) { return frame_patch(user); }

static rlx_status host_step(void *user, int t) { return step_run(user, t); }

static rlx_status check(void *user, int t) {
  run_frame *f = user;
  const step *s = &f->stage->steps[t];
  rlx_status status = step_check(f, t);
  if (status == RLX_OK) return RLX_OK;
  return status_prefix(status, "node '%s' (%s), kernel %s", s->from->node->name, s->from->node->op_name,
                       candidate_name(s->chosen));
}

static bool cancelled(void *user) {
  const run_state *rs = ((const run_frame *)user)->rs;
  return rs->cancel && __atomic_load_n(rs->cancel, __ATOMIC_RELAXED);
}

rlx_status device_steps_run(run_frame *f) {
  run_state *rs = f->rs;
  int64_t before = rs->steps_done;
  gpu_run run = {.arena = f->arena,
                 .slots = f->slots,
                 .places = f->places,
                 .relocated = relocated,
                 .host_step = host_step,
                 .check = check,
                 .cancelled = cancelled,
                 .user = f};
  RLX_TRY(gpu_frame_run(f->gpu, &run));
  rs->steps_done = before + f->stage->step_count;
  if (rs->options && rs->options->progress)
    rs->options->progress(rs->options->progress_user, rs->steps_done, rs->steps_total);
  return RLX_OK;
}
