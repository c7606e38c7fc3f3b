/* all.c — the checks of an op: every row, and what could not be tested. */
#include <string.h>

#include "check/check.h"
#include "ir/registry.h"

static const struct {
  const char *name, *help;
} checks[] = {
    {"reference", "eval (without it lower, or a kernel) runs every row, and every dtype that the ports permit"},
    {"infer", "what inference says with dims, ranks or contents unknown holds in the run"},
    {"tier", "every kernel that takes a case, pinned, gives what eval gives, touches nothing around its operands and"
             " changes no input"},
    {"written", "every byte of the outputs is written, and the same run gives the same bits"},
    {"in place", "an output may lie on the input that the record says"},
    {"symbolic", "compiled without extents, the answer is the same"},
    {"unranked", "compiled without ranks, the answer is the same"},
    {"constant", "with inputs known when compiling, and packed, the answer is the same"},
    {"threads", "four threads at once get the same bits"},
    {"memory", "an allocation that fails is reported, and the next run is right"},
    {"contents", "NaN, infinities and extreme integers end in a status"},
};
enum { CHECKS = sizeof checks / sizeof *checks };

const char *rlx_check_name(int i, const char **help) {
  if (i < 0 || i >= CHECKS) return NULL;
  if (help) *help = checks[i].help;
  return checks[i].name;
}

static void say_untested(checker *c) {
  for (int i = 0; i < c->kernel_count; i++) {
    const kernel_entry *k = c->kernels[i];
    static const rlx_tier tiers[] = {RLX_TIER_CPU, RLX_TIER_HOST, RLX_TIER_PORTABLE, RLX_TIER_RAW};
    char *subject = arena_printf(&c->memory, "%s %s", rlx_tier_name(tiers[k->kind]), k->head.name);
    if (c->took[i] || !subject || !check_begin(c, "tier", subject, false)) continue;
    check_skipped(c, "it took no case: %s", c->why[i] ? c->why[i] : "none ran");
  }
  if (!c->op->op.eval && check_begin(c, "tier", "eval", false))
    check_skipped(c, "the op has no eval: what its %s gives is compared with itself",
                  c->op->op.lower ? "lower" : "kernel");
  if ((c->op->op.traits & RLX_RANDOM) && check_begin(c, "written", "", false))
    check_skipped(c, "the op is random: only types are compared");
  if ((c->op->op.traits & RLX_CONTROL_FLOW) && check_begin(c, "infer", "", false))
    check_skipped(c, "the op runs subgraphs: inference is seen through sessions only, contents are not made hostile");
  if ((c->flags & RLX_CHECK_IN_PROCESS) && check_begin(c, "memory", "", false))
    check_skipped(c, "allocations are made to fail only in a child process");
}

static rlx_status check_one(checker *c, const char *row) {
  rlx_status status = case_variants(c, row, check_case_all);
  if (status == RLX_OUT_OF_MEMORY) return status;
  check_case unread = {.row = row};
  c->current = &unread;
  if (status != RLX_OK && check_begin(c, "reference", "", false)) {
    c->current = NULL; /* it has no graph */
    check_failed(c, "the row cannot be read: %s", rlx_error_message());
  }
  c->current = NULL;
  return RLX_OK;
}

rlx_status check_all(checker *c, const char *sample) {
  RLX_TRY(registry_kernels(c->registry, c->op->op.name, c->op->op.version, c->backend->kernels, &c->kernels,
                           &c->kernel_count));
  c->took = arena_array(&c->memory, (size_t)c->kernel_count, sizeof *c->took);
  c->why = arena_array(&c->memory, (size_t)c->kernel_count, sizeof *c->why);
  rlx_status status = c->took && c->why ? RLX_OK : status_no_memory(1);
  const char *const *rows = c->op->op.samples, *one[] = {sample, NULL};
  if (sample) rows = one;
  if (!rows[0] && check_begin(c, "reference", "", false))
    check_skipped(c, "the record has no samples, and none was given");
  for (; status == RLX_OK && *rows; rows++) status = check_one(c, *rows);
  if (status == RLX_OK && (sample || c->op->op.samples[0])) say_untested(c);
  for (int i = 0; i < c->kernel_count; i++) kernel_entry_release(c->kernels[i]);
  mem_free(c->kernels);
  arena_finish(&c->memory);
  return status;
}
