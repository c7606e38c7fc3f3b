/* guard.c — watches a raw kernel: its encoder and command buffer are, for the time of one encode, objects of subclasses
 * that note the calls it may not make. */
#include "backend/metal/metal.h"

#include "base/status.h"

static _Thread_local const char *forbidden; /* first such call of this thread's encode */

static void note(objc_message m) {
  if (!forbidden) forbidden = objc_selector_text(m);
}

static void end(objc_id self, objc_sel selector) {
  (void)self, (void)selector;
  note(MESSAGE_END);
}
static void commit(objc_id self, objc_sel selector) {
  (void)self, (void)selector;
  note(MESSAGE_COMMIT);
}
static void wait_completed(objc_id self, objc_sel selector) {
  (void)self, (void)selector;
  note(MESSAGE_WAIT_COMPLETED);
}
static objc_id another_encoder(objc_id self, objc_sel selector) {
  (void)self, (void)selector;
  note(MESSAGE_BLIT);
  return NULL;
}
static objc_id another_compute_encoder(objc_id self, objc_sel selector, unsigned long type) {
  (void)self, (void)selector, (void)type;
  note(MESSAGE_COMPUTE);
  return NULL;
}

/* A class of a guard is that of the object but for these; encodings: v void, @ id, : selector, Q unsigned long. */
rlx_status metal_guard_set(metal_guard *g, objc_id encoder, objc_id commands) {
  static const objc_override of_encoder[] = {{MESSAGE_END, (objc_imp)end, "v@:"}};
  static const objc_override of_commands[] = {{MESSAGE_COMMIT, (objc_imp)commit, "v@:"},
                                              {MESSAGE_WAIT_COMPLETED, (objc_imp)wait_completed, "v@:"},
                                              {MESSAGE_BLIT, (objc_imp)another_encoder, "@@:"},
                                              {MESSAGE_COMPUTE, (objc_imp)another_compute_encoder, "@@:Q"}};
  objc_id a = objc_subclass(encoder, "rlx", of_encoder, (int)(sizeof of_encoder / sizeof *of_encoder));
  objc_id b = objc_subclass(commands, "rlx", of_commands, (int)(sizeof of_commands / sizeof *of_commands));
  if (!a || !b) return status_no_memory(0);
  *g = (metal_guard){encoder, commands, objc_isa(encoder), objc_isa(commands)};
  forbidden = NULL;
  objc_set_isa(encoder, a);
  objc_set_isa(commands, b);
  return RLX_OK;
}

const char *metal_guard_lift(metal_guard *g) {
  objc_set_isa(g->encoder, g->encoder_class);
  objc_set_isa(g->commands, g->commands_class);
  return forbidden;
}
