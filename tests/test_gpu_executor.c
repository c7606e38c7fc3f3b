/* test_gpu_executor.c — the rules of the executor, as text, on every GPU backend that is here. */
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/record/record.h"
#include "base/memory.h"
#include "ir/parse.h"
#include "support/gpu_ops.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

/* ---- what the executor says it does ------------------------------------------------------- */

static char said[1 << 16];
static bool copies_too; /* else transfers, which only a discrete device makes, and their barriers are left out */
static bool barrier_held, after_upload, recording; /* … unless they are needed without transfers as well */

/* Nodes without a name are called node_0, node_1 …; the texts of this file say what they make instead. */
static char made[32][8];

static void read_names(const char *source) {
  int count = 0;
  for (const char *at = source; (at = strstr(at, " = test.")) && count < 32; at++) {
    const char *begin = at;
    while (begin > source && (unsigned char)begin[-1] > ' ') begin--;
    snprintf(made[count++], sizeof *made, "%.*s", (int)(at - begin), begin);
  }
}

static void add_line(const char *text) {
  const char *node = strstr(text, "node_");
  size_t used = strlen(said);
  if (node && atoi(node + 5) < 32)
    snprintf(said + used, sizeof said - used, "%.*s%s; ", (int)(node - text), text, made[atoi(node + 5)]);
  else
    snprintf(said + used, sizeof said - used, "%s; ", text);
}

static void listen(void *user, int level, const char *line) {
  (void)user;
  (void)level;
  const char *text = strstr(line, "stream: ");
  if (!text) return;
  text += 8;
  bool up = strncmp(text, "upload", 6) == 0, down = strncmp(text, "download", 8) == 0;
  bool wait = strcmp(text, "barrier") == 0;
  if (copies_too) {
    add_line(text);
    return;
  }
  if (barrier_held && !down) add_line("barrier");
  barrier_held = wait && (!after_upload || recording);
  after_upload = up;
  if (strncmp(text, "record", 6) == 0) recording = true;
  if (wait || strncmp(text, "submit", 6) == 0) recording = false;
  if (!up && !down && !wait) add_line(text);
}

/* ---- running ------------------------------------------------------------------------------ */

typedef struct setup {
  rlx_session *session;
  rlx_binding *binding;
} setup;

static rlx_graph *parsed(const char *source) {
  rlx_graph *g = NULL;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  return g;
}

static setup set_up(const char *source, const gpu_place_row *on) {
  setup s = {0};
  rlx_graph *g = parsed(source);
  read_names(source);
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.device = on ? on->device : "cpu";
  o.debug = on ? on->debug : "";
  o.threads = 1;
  OK(rlx_session_create(g, &o, &s.session));
  rlx_graph_destroy(g);
  OK(rlx_binding_create(s.session, &s.binding));
  return s;
}

static void tear_down(setup *s) {
  rlx_binding_destroy(s->binding);
  rlx_session_destroy(s->session);
}

static rlx_tensor *floats(int64_t n, float first) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &t));
  for (int64_t i = 0; i < n; i++) ((float *)rlx_tensor_data(t))[i] = first + (float)(i * i % 17);
  return t;
}

static void bind_all(setup *s, int64_t n, float first) {
  for (int i = 0; i < rlx_session_input_count(s->session); i++) {
    rlx_port_info info;
    OK(rlx_session_input(s->session, i, &info));
    rlx_tensor *t = floats(n, first + (float)i);
    OK(rlx_binding_input(s->binding, info.name, t, 0));
    rlx_tensor_destroy(t);
  }
}

static void run(setup *s) {
  said[0] = 0;
  OK(rlx_run(s->binding, NULL));
}

static rlx_session_stats stats_of(const setup *s) {
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s->session, &stats);
  return stats;
}

/* Bit for bit what the CPU gives. */
static void compare(setup *a, setup *b, const char *what) {
  for (int i = 0; i < rlx_session_output_count(a->session); i++) {
    rlx_port_info info;
    rlx_tensor *x = NULL, *y = NULL;
    OK(rlx_session_output(a->session, i, &info));
    OK(rlx_binding_get(a->binding, info.name, &x));
    OK(rlx_binding_get(b->binding, info.name, &y));
    assert_int_equal(rlx_tensor_bytes(x), rlx_tensor_bytes(y));
    if (memcmp(rlx_tensor_data(x), rlx_tensor_data(y), rlx_tensor_bytes(x)) != 0)
      fail_msg("output %s differs from the CPU's; did: %s\n%s", info.name, said, what);
    rlx_tensor_destroy(x);
    rlx_tensor_destroy(y);
  }
}

/* Runs on every device twice; the first run says `first`, the second `again` (NULL: the same), with `trips` in both. */
static void check(const char *source, const char *first, const char *again, int64_t trips) {
  const gpu_place_row *on;
  setup cpu = set_up(source, NULL);
  bind_all(&cpu, 8, 1);
  run(&cpu);
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(source, on);
    bind_all(&s, 8, 1);
    run(&s);
    if (strcmp(said, first) != 0) fail_msg("%s (%s) did:\n%s\nnot:\n%s", on->device, on->debug, said, first);
    compare(&cpu, &s, source);
    run(&s);
    if (again && strcmp(said, again) != 0) fail_msg("%s then did:\n%s\nnot:\n%s", on->device, said, again);
    compare(&cpu, &s, source);
    assert_int_equal(stats_of(&s).trips, 2 * trips);
    tear_down(&s);
  }
  tear_down(&cpu);
}

/* ---- the rules ---------------------------------------------------------------------------- */

static void submits_once(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.turn(a)\n y = test.turn(b) }",
        "record a; barrier; record b; barrier; record y; submit 0; done; ", "replay 0; submit 0; done; ", 0);
}

static void host_only_costs_nothing(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.host(x)\n y = test.host(a) }", "", "", 0);
}

static void leading_host_step(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.host(x)\n y = test.turn(a) }",
        "host a; record y; submit 0; done; ", "host a; replay 0; submit 0; done; ", 0);
}

static void host_step_on_host_inputs(void **state) {
  (void)state; /* b needs nothing of the device: it runs first, whatever the order of nodes */
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.host(x)\n y = test.mix(a, b) }",
        "host b; record a; barrier; record y; submit 0; done; ", NULL, 0);
}

static void trailing_host_step(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n y = test.host(a) }",
        "record a; submit 0; wait 0; host y; done; ", NULL, 1);
}

static void adjacent_host_steps(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.turn(a)\n c = test.host(a)\n"
             " d = test.host(b)\n e = test.both(c, d)\n y = test.turn(e) }",
        "record a; barrier; record b; submit 0; wait 0; host c; host d; host e; record y; submit 1; done; ", NULL, 1);
}

static void beside_a_host_step(void **state) {
  (void)state; /* the host waits for a alone; b and c are under way meanwhile */
  check(HEAD "g (float[8] x) => (float[8] y) { b = test.turn(x)\n c = test.turn(b)\n a = test.turn(x)\n"
             " h = test.host(a)\n y = test.mix(h, c) }",
        "record a; submit 0; record b; barrier; record c; submit 1; wait 0; host h; record y; submit 2; done; ",
        "replay 0; submit 0; replay 1; submit 1; wait 0; host h; replay 2; submit 2; done; ", 1);
}

static void ten_in_three_groups(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) {\n"
             " a = test.turn(x)\n h1 = test.host(a)\n h2 = test.host(h1)\n h3 = test.both(a, h2)\n"
             " b = test.turn(h3)\n c = test.turn(b)\n h4 = test.host(b)\n h5 = test.host(c)\n h6 = test.both(h4, h5)\n"
             " h7 = test.host(h6)\n d = test.mix(h7, c)\n h8 = test.host(d)\n h9 = test.host(h8)\n"
             " h10 = test.both(h9, d)\n y = test.turn(h10) }",
        "record a; submit 0; wait 0; host h1; host h2; host h3; record b; barrier; record c; submit 1; wait 1; "
        "host h4; host h5; host h6; host h7; record d; submit 2; wait 2; host h8; host h9; host h10; "
        "record y; submit 3; done; ",
        NULL, 3);
}

static void no_barrier_without_overlap(void **state) {
  (void)state; /* a, b and c touch nothing of each other; y reads two of them */
  check(HEAD "g (float[8] x, float[8] z) => (float[8] y, float[8] c) { a = test.turn(x)\n b = test.turn(z)\n"
             " c = test.mix(x, z)\n y = test.mix(a, b) }",
        "record a; record b; record c; barrier; record y; submit 0; done; ", NULL, 0);
}

static void barrier_for_memory_used_again(void **state) {
  (void)state; /* c lies where a was: b, which reads a, must be done */
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.turn(a)\n c = test.turn(x)\n"
             " d = test.mix(b, c)\n y = test.turn(d) }",
        "record a; barrier; record b; barrier; record c; barrier; record d; barrier; record y; submit 0; done; ", NULL,
        0);
}

static void not_replayable(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[8] y) { a = test.once(x)\n h = test.host(a)\n y = test.turn(h) }",
        "record a; submit 0; wait 0; host h; record y; submit 1; done; ",
        "record a; submit 0; wait 0; host h; replay 1; submit 1; done; ", 1);
}

static void data_dependent_sizes(void **state) {
  (void)state;
  check(HEAD "g (float[8] x) => (float[N] y, float[8] z) { a = test.turn(x)\n p = test.positive(a)\n q = test.turn(p)\n"
             " y = test.turn(q)\n z = test.turn(a) }",
        "record a; submit 0; record z; submit 1; wait 0; host p; done; record q; barrier; record y; submit 0; done; ",
        NULL, 1);
}

static void transfers(void **state) {
  (void)state; /* what the host reads comes down with the steps that made it; what it wrote goes up before it is read */
  static const gpu_place_row discrete = {"record", "stream,discrete"};
  setup s = set_up(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.turn(a)\n h = test.host(a)\n"
                        " y = test.mix(h, b) }",
                   &discrete);
  bind_all(&s, 8, 1);
  copies_too = true;
  run(&s);
  copies_too = false;
  assert_string_equal(said, "upload 32 bytes; record a; barrier; download 32 bytes; submit 0; record b; submit 1; "
                            "wait 0; host h; upload 32 bytes; barrier; record y; submit 2; download 32 bytes; done; ");
  assert_int_equal(stats_of(&s).staged, 4 * 32);
  tear_down(&s);
}

/* ---- what is not text ---------------------------------------------------------------------- */

static void side_effects_keep_their_order(void **state) {
  (void)state;
  static const char source[] = HEAD "g (float[8] x) => (float[8] y) {\n a = test.turn(x)\n b = test.note(a)\n"
                                    " c = test.note(x)\n d = test.turn(a)\n e = test.note(d)\n"
                                    " f = test.both(b, c)\n y = test.both(f, e) }";
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(source, on);
    bind_all(&s, 8, 1);
    gpu_ops_note_count = 0;
    run(&s);
    assert_int_equal(gpu_ops_note_count, 3);
    assert_true(gpu_ops_notes[0] == 2 && gpu_ops_notes[1] == 1 && gpu_ops_notes[2] == 5);
    tear_down(&s);
  }
}

static void fails_in_the_middle(void **state) {
  (void)state;
  static const char source[] = HEAD "g (float[8] x) => (float[8] y) {\n a = test.turn(x)\n b = test.stop(a)\n"
                                    " c = test.bad(b)\n y = test.turn(c) }";
  const gpu_place_row *on;
  setup cpu = set_up(source, NULL);
  bind_all(&cpu, 8, 1);
  run(&cpu);
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(source, on);
    bind_all(&s, 8, 1);
    gpu_ops_fail = true; /* in the host step; then, once recorded lists are gone, while encoding */
    assert_int_equal(rlx_run(s.binding, NULL), RLX_INVALID);
    assert_string_equal(rlx_error_message(), "node 'node_1' (test.stop), kernel reference: told to fail");
    gpu_ops_fail = false;
    run(&s);
    compare(&cpu, &s, source);
    tear_down(&s);
  }
  static const char encoding[] = HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n y = test.bad(a) }";
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(encoding, on);
    bind_all(&s, 8, 1);
    gpu_ops_fail = true;
    assert_int_equal(rlx_run(s.binding, NULL), RLX_INVALID);
    assert_string_equal(rlx_error_message(), "node 'node_1' (test.bad), kernel test: told to fail");
    gpu_ops_fail = false;
    run(&s);
    assert_string_equal(said, "record a; barrier; record y; submit 0; done; ");
    tear_down(&s);
  }
  tear_down(&cpu);
}

static void misuse_is_found(void **state) {
  (void)state;
  static const char source[] = HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n y = test.rude(a) }";
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    if (strcmp(on->device, "vulkan") != 0) continue;
    setup s = set_up(source, on);
    bind_all(&s, 8, 1);
    for (int again = 0; again < 2; again++) { /* the session survives */
      assert_int_equal(rlx_run(s.binding, NULL), RLX_INVALID);
      assert_string_equal(rlx_error_message(), "node 'node_1' (test.rude), kernel test: encode called "
                                               "vkEndCommandBuffer, which a raw kernel may not");
    }
    tear_down(&s);
  }
}

static void new_binding_is_followed(void **state) {
  (void)state;
  static const char source[] = HEAD "g (float[N] x) => (float[N] y) { a = test.turn(x)\n h = test.host(a)\n"
                                    " y = test.turn(h) }";
  const gpu_place_row *on;
  setup cpu = set_up(source, NULL);
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(source, on);
    for (int round = 0; round < 12; round++) {
      int64_t n = round % 3 ? 8 : 300; /* two stages, and run memory that grows */
      bind_all(&s, n, (float)round);
      bind_all(&cpu, n, (float)round);
      run(&cpu);
      run(&s);
      compare(&cpu, &s, source);
    }
    tear_down(&s);
  }
  tear_down(&cpu);
}

static void replay_allocates_nothing(void **state) {
  (void)state;
  static const char source[] = HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.turn(a)\n"
                                    " h = test.host(b)\n y = test.turn(h) }";
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(source, on);
    bind_all(&s, 8, 1);
    for (int warm = 0; warm < 3; warm++) run(&s);
    (void)mem_inject(0, 0);
    run(&s);
    run(&s);
    assert_int_equal(mem_inject(0, 0), 0);
    rlx_session_stats stats = stats_of(&s);
    assert_int_equal(stats.recorded, 2);
    assert_int_equal(stats.replayed, 8);
    tear_down(&s);
  }
}

static void a_thousand_in_one_submission(void **state) {
  (void)state;
  char *source = malloc(1 << 16);
  size_t used = (size_t)sprintf(source, HEAD "g (float[8] x) => (float[8] v999) { v0 = test.turn(x)\n");
  for (int i = 1; i < 1000; i++) used += (size_t)sprintf(source + used, "v%d = test.turn(v%d)\n", i, i - 1);
  sprintf(source + used, "}");
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    setup s = set_up(source, on);
    bind_all(&s, 8, 1);
    run(&s);
    run(&s);
    rlx_session_stats stats = stats_of(&s);
    assert_int_equal(stats.recorded, 1);
    assert_int_equal(stats.trips, 0);
    assert_true(stats.submits <= 2 * 2); /* a discrete device's output comes back in one of its own */
    tear_down(&s);
  }
  free(source);
}

/* ---- random graphs ------------------------------------------------------------------------ */

static uint32_t draw(uint32_t *seed, uint32_t below) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % below;
}

/* Host and device steps at random, with values used again long after. */
static void random_graph(uint32_t seed, char *source) {
  static const char *const unary[] = {"turn", "host", "turn", "host", "turn", "once"};
  uint32_t r = seed;
  int count = 3 + (int)draw(&r, 30);
  int used = sprintf(source, HEAD "g (float[N] v0, float[N] v1) => (float[N] v%d, float[N] v%d) {\n", count + 1, count);
  for (int i = 2; i < count + 2; i++) {
    int near = i - 1 - (int)draw(&r, i < 4 ? 1 : 3), far = (int)draw(&r, (uint32_t)i);
    if (draw(&r, 3))
      used += sprintf(source + used, "v%d = test.%s(v%d)\n", i, unary[draw(&r, 6)], near);
    else
      used += sprintf(source + used, "v%d = test.%s(v%d, v%d)\n", i, draw(&r, 2) ? "mix" : "both", near, far);
  }
  sprintf(source + used, "}");
}

static void random_graphs_are_right(void **state) {
  (void)state;
  char source[8192];
  const gpu_place_row *on;
  for (uint32_t seed = 1; seed <= 120; seed++) {
    random_graph(seed, source);
    setup cpu = set_up(source, NULL);
    for (int i = 0; (on = gpu_ops_device(i)); i++) {
      if (seed > 10 && strcmp(on->device, "record") != 0) continue; /* drivers are slow to open, and run in order */
      record_set_options(&(record_options){.seed = seed});
      setup s = set_up(source, on);
      for (int round = 0; round < 4; round++) {
        bind_all(&s, 64 + 64 * (round / 2), (float)round);
        bind_all(&cpu, 64 + 64 * (round / 2), (float)round);
        run(&cpu);
        run(&s);
        compare(&cpu, &s, source);
      }
      tear_down(&s);
    }
    tear_down(&cpu);
  }
  record_set_options(&(record_options){0});
}

int main(void) {
  rlx_set_log(listen, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(submits_once),
      cmocka_unit_test(host_only_costs_nothing),
      cmocka_unit_test(leading_host_step),
      cmocka_unit_test(host_step_on_host_inputs),
      cmocka_unit_test(trailing_host_step),
      cmocka_unit_test(adjacent_host_steps),
      cmocka_unit_test(beside_a_host_step),
      cmocka_unit_test(ten_in_three_groups),
      cmocka_unit_test(no_barrier_without_overlap),
      cmocka_unit_test(barrier_for_memory_used_again),
      cmocka_unit_test(not_replayable),
      cmocka_unit_test(data_dependent_sizes),
      cmocka_unit_test(transfers),
      cmocka_unit_test(side_effects_keep_their_order),
      cmocka_unit_test(fails_in_the_middle),
      cmocka_unit_test(misuse_is_found),
      cmocka_unit_test(new_binding_is_followed),
      cmocka_unit_test(replay_allocates_nothing),
      cmocka_unit_test(a_thousand_in_one_submission),
      cmocka_unit_test(random_graphs_are_right),
  };
  return cmocka_run_group_tests(tests, gpu_ops_register, NULL);
}
