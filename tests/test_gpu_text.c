/* test_gpu_text.c — portable kernels as text: rules, rendering, argument blocks, compilers of all three dialects. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/gpu/render.h"
#include "base/memory.h"
#include "ir/infer.h"
#include "ir/module.h"
#include "ir/parse.h"
#include "ir/record.h"
#include "ir/registry.h"

/* ---- the rules ---- */

static const rlx_gpu_arg args[] = {{"x", "f32", RLX_GPU_INPUT, 0, 0},     {"y", "f16", RLX_GPU_OUTPUT, 0, 0},
                                   {"n", "i64", RLX_GPU_COUNT, 0, 0},     {"slope", "f32", RLX_GPU_SCALAR, 0, 0},
                                   {"dims", "u32", RLX_GPU_SCALAR, 0, 4}, {0}};

static void breaks(const char *body, const char *rule) {
  const rlx_gpu_function f[] = {{.name = "text", .args = args, .body = body}, {0}};
  rlx_status status = gpu_functions_check(f);
  if (status == RLX_OK) fail_msg("no rule against: %s", body);
  char want[64];
  snprintf(want, sizeof want, "rule %s:", rule);
  if (!strstr(rlx_error_message(), want)) fail_msg("'%s' breaks %s: %s", body, rule, rlx_error_message());
  assert_non_null(strstr(rlx_error_message(), "kernel text 'text'"));
}

static void keeps(const char *body) {
  const rlx_gpu_function f[] = {{.name = "text", .args = args, .body = body}, {0}};
  if (gpu_functions_check(f) != RLX_OK) fail_msg("'%s': %s", body, rlx_error_message());
}

static void rules(void **unused) {
  (void)unused;
  breaks("y[0] = (f32)n;", "no-casts");
  breaks("y[0] = (f32)(n);", "no-casts");
  breaks("y[0] = float(n);", "portable-types");
  breaks("f32 *p = 0;", "no-pointers");
  breaks("y[0] = *a;", "no-pointers");
  breaks("f32 v = a->z;", "no-pointers");
  breaks("u32 v = sizeof(f32);", "no-sizeof");
  breaks("y[0] = 1.5;", "float-suffix");
  breaks("y[0] = 1e3;", "float-suffix");
  breaks("i64 a = 1L;", "integer-suffix");
  breaks("i32 a = 5; i32 b = a % 3;", "no-signed-modulo");
  breaks("i32 a = 5; i32 c = 2; i32 b = a % c;", "no-signed-modulo");
  breaks("f32 sample = 1.0f;", "reserved-name");
  breaks("f32 filter = 1.0f;", "reserved-name");
  breaks("f32 a__b = 1.0f;", "reserved-name");
  breaks("f32 gl_x = 1.0f;", "reserved-name");
  breaks("int a = 1;", "portable-types");
  breaks("f32 v = x;", "operand-index");
  breaks("y[0] += 1.0f;", "plain-store");
  breaks("x[0] = 1.0f;", "inputs-constant");
  breaks("slope = 1.0f;", "arguments-constant");
  breaks("f32 x = 1.0f;", "no-shadowing");
  breaks("f32 a[4]; i64 i = n; a[i] = 1.0f;", "local-index-32");
  breaks("#define A 1", "no-preprocessor");
  breaks("y[0] = 1.0f; }", "balanced");
  breaks("y[0] = (1.0f;", "balanced");
  breaks("y[0] = @;", "plain-text");
  keeps("for (i64 i = i64(GLOBAL_ID); i < n; i += i64(GLOBAL_SIZE)) y[i] = x[i] < 0.0f ? x[i] * slope : x[i];");
  keeps("u32 a = 5u; u32 b = a % 3u; u32 c = a % b; y[0] = f32(b + c * dims[1]);");
  keeps("f32 a[4]; i64 i = n; a[u32(i)] = -1.0f; y[i] = x[i - i64(1)] * -slope;");
}

static void records(void **unused) {
  (void)unused;
  static const struct {
    rlx_gpu_arg args[3];
    const char *rule;
  } bad[] = {{{{"x", "f33", RLX_GPU_WORKSPACE, 8, 0}}, "argument-kinds"},
             {{{"input", "f32", RLX_GPU_INPUT, 0, 0}}, "reserved-name"},
             {{{"x", "f32", RLX_GPU_INPUT, 0, 0}, {"x", "f32", RLX_GPU_INPUT, 1, 0}}, "names"},
             {{{"x y", "f32", RLX_GPU_INPUT, 0, 0}}, "names"},
             {{{"x", "f32", RLX_GPU_INPUT | RLX_GPU_OUTPUT, 0, 0}}, "argument-kinds"},
             {{{"n", NULL, RLX_GPU_SCALAR, 0, 0}}, "types"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const rlx_gpu_function f[] = {{.name = "text", .args = bad[i].args, .body = ""}, {0}};
    assert_int_not_equal(gpu_functions_check(f), RLX_OK);
    if (!strstr(rlx_error_message(), bad[i].rule)) fail_msg("%s: %s", bad[i].rule, rlx_error_message());
  }
  const rlx_gpu_function wide[] = {{.name = "text", .args = args, .workgroup = {2048, 1, 1}, .body = ""}, {0}};
  assert_int_not_equal(gpu_functions_check(wide), RLX_OK);
  const rlx_gpu_shared much[] = {{"tile", "f32", 9000}, {0}};
  const rlx_gpu_function full[] = {{.name = "text", .args = args, .shared = much, .body = ""}, {0}};
  assert_int_not_equal(gpu_functions_check(full), RLX_OK);
}

/* ---- argument blocks ---- */

static void blocks(void **unused) {
  (void)unused;
  const rlx_gpu_function f = {.name = "text", .args = args, .body = ""};
  gpu_layout l;
  assert_int_equal(gpu_layout_make(&f, NULL, &l), RLX_OK);
  const int offsets[] = {0, 8, 16, 24, 28};
  assert_int_equal(l.count, 5);
  for (int i = 0; i < 5; i++) assert_int_equal(l.slots[i].offset, offsets[i]);
  assert_int_equal(l.bytes, 48);
  unsigned char block[48] = {0};
  gpu_scalars s = {0};
  const int64_t counts[] = {77}, dims[] = {3, 4};
  assert_int_not_equal(gpu_block_scalars(&l, &s, NULL, counts, block), RLX_OK);
  assert_non_null(strstr(rlx_error_message(), "'slope' is not set"));
  const double slope = 0.25;
  gpu_scalars_set_floats(&s, "slope", &slope, 1);
  gpu_scalars_set_ints(&s, "dims", dims, 2);
  assert_int_equal(gpu_block_scalars(&l, &s, NULL, counts, block), RLX_OK);
  int64_t n;
  float v;
  uint32_t d[4];
  memcpy(&n, block + 16, 8);
  memcpy(&v, block + 24, 4);
  memcpy(d, block + 28, 16);
  assert_int_equal(n, 77);
  assert_true(v == 0.25f);
  assert_true(d[0] == 3 && d[1] == 4 && d[2] == 0 && d[3] == 0);
  const int64_t negative = -1;
  gpu_scalars_set_ints(&s, "dims", &negative, 1);
  assert_int_not_equal(gpu_block_scalars(&l, &s, NULL, counts, block), RLX_OK);
  assert_non_null(strstr(rlx_error_message(), "cannot hold -1"));
  gpu_scalars_finish(&s);
}

/* ---- golden texts ---- */

static const rlx_gpu_arg leaky_args[] = {{"x", "f32", RLX_GPU_INPUT, 0, 0},
                                         {"y", "f32", RLX_GPU_OUTPUT, 0, 0},
                                         {"n", "i64", RLX_GPU_COUNT, 0, 0},
                                         {"slope", "f32", RLX_GPU_SCALAR, 0, 0},
                                         {0}};
static const rlx_gpu_arg row_args[] = {{"x", "bf16", RLX_GPU_INPUT, 0, 0},
                                       {"more", "f16", RLX_GPU_INPUT, 1, 0},
                                       {"y", "f32", RLX_GPU_OUTPUT, 0, 0},
                                       {"columns", "u32", RLX_GPU_SCALAR, 0, 0},
                                       {0}};
static const rlx_gpu_arg tile_args[] = {
    {"x", "u8", RLX_GPU_INPUT, 0, 0}, {"y", "u8", RLX_GPU_OUTPUT, 0, 0}, {"dims", "u32", RLX_GPU_SCALAR, 0, 2}, {0}};
static const rlx_gpu_shared tile_shared[] = {{"tile", "u32", 272}, {0}};
static const rlx_gpu_constant tile_constants[] = {{"SIDE", 16}, {0}};
static const rlx_gpu_function golden[] = {
    {.name = "leaky",
     .args = leaky_args,
     .functions = RLX_GPU_TEXT(FN f32 leaky(f32 v, f32 a) { return v < 0.0f ? v * a : v; }),
     .body = RLX_GPU_TEXT(for (i64 i = i64(GLOBAL_ID); i < n; i += i64(GLOBAL_SIZE)) y[i] = leaky(x[i], slope);)},
    {.name = "row_sums",
     .args = row_args,
     .body = RLX_GPU_TEXT(f32 sum = 0.0f; for (u32 c = LOCAL_ID; c < columns; c += WG) {
       sum = sum + EXP(x[i64(GROUP_ID) * i64(columns) + i64(c)]);
       if (PRESENT(more)) sum = sum + more[c];
     } sum = GROUP_SUM(sum);
                          if (LOCAL_ID == 0u) y[GROUP_ID] = sum;)},
    {.name = "turn",
     .args = tile_args,
     .shared = tile_shared,
     .constants = tile_constants,
     .workgroup = {16, 16, 1},
     .body = RLX_GPU_TEXT(u32 a = LOCAL_ID % 16u; u32 b = LOCAL_ID / 16u;
                          tile[b * 17u + a] = x[(GROUP_ID_Y * u32(SIDE) + b) * dims[1] + GROUP_ID * u32(SIDE) + a];
                          BARRIER();
                          y[(GROUP_ID * u32(SIDE) + b) * dims[0] + GROUP_ID_Y * u32(SIDE) + a] = tile[a * 17u + b];)},
    {0}};
static const char *const endings[] = {"comp", "cu", "metal"};

/* RLX_WRITE_GOLDEN=1 writes the files instead of comparing. */
static void golden_texts(void **unused) {
  (void)unused;
  for (const rlx_gpu_function *f = golden; f->name; f++)
    for (int dialect = 0; dialect < 3; dialect++) {
      const gpu_target target = {(gpu_dialect)dialect, dialect == GPU_GLSL ? 0 : 32, dialect == GPU_GLSL};
      text t = {0};
      char path[128];
      assert_int_equal(gpu_render(f, NULL, &target, &t), RLX_OK);
      snprintf(path, sizeof path, "tests/gpu/%s.%s", f->name, endings[dialect]);
      if (getenv("RLX_WRITE_GOLDEN")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fwrite(t.data, 1, t.size, file);
        fclose(file);
      }
      FILE *file = fopen(path, "r");
      if (!file) fail_msg("%s is missing", path);
      char *want = calloc(1, t.size + 4096);
      size_t n = fread(want, 1, t.size + 4095, file);
      fclose(file);
      if (n != t.size || memcmp(want, t.data, n) != 0) fail_msg("%s differs; now it is:\n%s", path, t.data);
      free(want);
      text_finish(&t);
    }
}

/* ---- compilers ---- */

/* Calls visit for the functions of every built-in kernel, with a node made from the first sample its op has. */
typedef void visitor(void *user, const rlx_gpu_function *f, const rlx_node *n);
static int each_function(visitor *visit, void *user) {
  int count = 0;
  for (const rlx_module *const *m = rlx_builtin_modules; *m; m++)
    for (const rlx_gpu_kernel *const *k = (*m)->gpu_kernels; k && *k; k++) {
      static const char *const fused[] = {"float[2,3], float[3] {program = \"Add(%0, %1); Tanh(%2); Mul(%3, 0.5)\"}",
                                          NULL};
      op_entry *op =
          registry_find_op(NULL, (*k)->head.op, (*k)->head.version_max == INT32_MAX ? 0 : (*k)->head.version_max);
      assert_non_null(op);
      const char *const *row = strcmp((*k)->head.op, "rlx.fused") == 0 ? fused : op->op.samples;
      for (bool done = false; row && *row && !done; row++) {
        rlx_graph *g;
        if (sample_parse(*row, (*k)->head.op, NULL, &g) != RLX_OK) continue;
        if (infer_graph(g, false) == RLX_OK && g->nodes.count > 0) {
          const rlx_node *n = g->nodes.data[0];
          const char *why = (*k)->head.why_not ? (*k)->head.why_not(n) : NULL;
          for (const rlx_gpu_function *f = (*k)->functions; (!why || why == rlx_depends_on_extents) && f->name; f++) {
            visit(user, f, n);
            count++;
            done = true;
          }
        }
        rlx_graph_destroy(g);
      }
      op_entry_release(op);
    }
  return count;
}

/* Registering the built-in records stops at the first that breaks a rule. */
static void builtins(void **unused) {
  (void)unused;
  for (const rlx_module *const *m = rlx_builtin_modules; *m; m++)
    for (const rlx_gpu_kernel *const *k = (*m)->gpu_kernels; k && *k; k++) {
      rlx_registry *r;
      assert_int_equal(rlx_registry_create(&r), RLX_OK);
      if (rlx_register_gpu_kernel(r, *k, 0, NULL) != RLX_OK) fail_msg("%s: %s", (*k)->head.op, rlx_error_message());
      rlx_registry_destroy(r);
    }
}

static void compile_glsl(void *user, const rlx_gpu_function *f, const rlx_node *n) {
  const gpu_target *target = user;
  text t = {0};
  uint32_t *words;
  size_t bytes;
  if (gpu_render(f, n, target, &t) != RLX_OK) fail_msg("%s: %s", rlx_node_op(n), rlx_error_message());
  if (gpu_glsl_compile(f->name, t.data, &words, &bytes) != RLX_OK)
    fail_msg("%s: %s\n%s", rlx_node_op(n), rlx_error_message(), t.data);
  assert_int_equal(words[0], 0x07230203);
  mem_free(words);
  text_finish(&t);
}

static void glsl(void **unused) {
  (void)unused;
  if (!gpu_glsl_identity()) skip();
  const gpu_target plain = {GPU_GLSL, 0, false}, full = {GPU_GLSL, 32, true};
  assert_true(each_function(compile_glsl, (void *)(uintptr_t)&plain) > 50);
  assert_true(each_function(compile_glsl, (void *)(uintptr_t)&full) > 50);
  uint32_t *words;
  size_t bytes;
  assert_int_equal(gpu_glsl_compile("bad", "#version 460\nvoid main() { nonsense; }", &words, &bytes), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), "kernel text 'bad' does not compile"));
  assert_non_null(strstr(rlx_error_message(), "nonsense"));
}

/* All texts of a dialect one after the other, each in a namespace of its own; the heads of the first only. */
typedef struct collection {
  gpu_target target;
  FILE *file;
  int count;
} collection;

static void collect(void *user, const rlx_gpu_function *f, const rlx_node *n) {
  collection *c = user;
  text t = {0};
  if (gpu_render(f, n, &c->target, &t) != RLX_OK) fail_msg("%s: %s", rlx_node_op(n), rlx_error_message());
  fprintf(c->file, "namespace kernel_%d {\n%s\n}\n", c->count++, t.data);
  text_finish(&t);
}

static void msl(void **unused) {
  (void)unused;
  char path[] = "/tmp/rlx-msl-XXXXXX", command[256];
  if (system("clang++ --version >/dev/null 2>&1") != 0) skip();
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  collection c = {{GPU_MSL, 32, false}, fdopen(fd, "w"), 0};
  for (const rlx_gpu_function *f = golden; f->name; f++) {
    text t = {0};
    assert_int_equal(gpu_render(f, NULL, &c.target, &t), RLX_OK);
    fprintf(c.file, "namespace golden_%s {\n%s\n}\n", f->name, t.data);
    text_finish(&t);
  }
  each_function(collect, &c);
  fclose(c.file);
  snprintf(command, sizeof command,
           "sed -i '/^#include <metal_stdlib>/d' %s && clang++ -x c++ -std=c++14 -fsyntax-only -ferror-limit=5 -w "
           "-include tests/gpu/msl.h %s",
           path, path);
  int failed = system(command);
  if (!failed) unlink(path);
  assert_int_equal(failed, 0);
}

typedef int nvrtc_create(void **program, const char *source, const char *name, int n, const char **headers,
                         const char **names);
typedef int nvrtc_compile(void *program, int n, const char **options);
typedef int nvrtc_log_size(void *program, size_t *size);
typedef int nvrtc_log(void *program, char *log);
typedef int nvrtc_destroy(void **program);
typedef struct nvrtc {
  nvrtc_create *create;
  nvrtc_compile *compile;
  nvrtc_log_size *log_size;
  nvrtc_log *log;
  nvrtc_destroy *destroy;
  int seen;
} nvrtc;

static void compile_cuda(void *user, const rlx_gpu_function *f, const rlx_node *n) {
  nvrtc *v = user;
  const gpu_target target = {GPU_CUDA, 32, false};
  const char *options[] = {"--gpu-architecture=compute_80"};
  /* One row of the many scalar ops in eight is enough to see that the text is CUDA. */
  if (strncmp(f->name, "program", 7) == 0 && v->seen++ % 8) return;
  text t = {0};
  void *program;
  if (gpu_render(f, n, &target, &t) != RLX_OK) fail_msg("%s: %s", f->name, rlx_error_message());
  assert_int_equal(v->create(&program, t.data, f->name, 0, NULL, NULL), 0);
  if (v->compile(program, 1, options) != 0) {
    size_t size = 0;
    v->log_size(program, &size);
    char *log = calloc(1, size + 1);
    v->log(program, log);
    fail_msg("%s: %s\n%s", f->name, log, t.data);
  }
  v->destroy(&program);
  text_finish(&t);
}

static void cuda(void **unused) {
  (void)unused;
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so", NULL};
  void *library = NULL;
  for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) skip();
  nvrtc v = {0};
  void *symbols[] = {dlsym(library, "nvrtcCreateProgram"), dlsym(library, "nvrtcCompileProgram"),
                     dlsym(library, "nvrtcGetProgramLogSize"), dlsym(library, "nvrtcGetProgramLog"),
                     dlsym(library, "nvrtcDestroyProgram")};
  memcpy(&v, symbols, sizeof symbols);
  assert_non_null(symbols[0]);
  for (const rlx_gpu_function *f = golden; f->name; f++) compile_cuda(&v, f, NULL);
  each_function(compile_cuda, &v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules),    cmocka_unit_test(records), cmocka_unit_test(blocks), cmocka_unit_test(golden_texts),
      cmocka_unit_test(builtins), cmocka_unit_test(glsl),    cmocka_unit_test(msl),    cmocka_unit_test(cuda)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
