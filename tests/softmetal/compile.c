/* compile.c — MSL text to a loaded C++ module: the text is preprocessed, its kernels are found and wrapped, its
 * workgroup memory is given a place, clang compiles it. Compiled modules are kept in memory and in a folder, by their
 * text. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "private.h"

extern char **environ;

/* ---- text ---- */

typedef struct writer {
  char *data;
  size_t size;
  FILE *file;
} writer;

static bool writer_open(writer *w) {
  w->data = NULL;
  w->file = open_memstream(&w->data, &w->size);
  return w->file;
}

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  writer w;
  if (!f || !writer_open(&w)) {
    if (f) fclose(f);
    return NULL;
  }
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) fwrite(part, 1, n, w.file);
  fclose(f);
  fclose(w.file);
  return w.data;
}

static bool write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool ok = fputs(text, f) >= 0;
  return fclose(f) == 0 && ok;
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static uint64_t hash_text(const char *s, uint64_t h) {
  for (; *s; s++) h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
  return h;
}

/* ---- running clang ---- */

static const char *compiler(void) {
  const char *name = getenv("SOFTMETAL_CLANG");
  return name && *name ? name : SOFTMETAL_CLANG_DEFAULT;
}

/* Runs clang; its messages go to log_path. */
static bool run_clang(const char *const *arguments, const char *log_path) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  int failed = posix_spawnp(&child, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    write_file(log_path, "softmetal: clang could not be started\n");
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- from MSL to C++ ---- */

/* Which field of soft_thread an attribute stands for. */
static const struct {
  const char *attribute, *field;
  bool vector;
} builtins[] = {
    {"thread_position_in_grid", "position_in_grid", true},
    {"thread_position_in_threadgroup", "position_in_group", true},
    {"threadgroup_position_in_grid", "group", true},
    {"threadgroups_per_grid", "groups", true},
    {"threads_per_threadgroup", "group_size", true},
    {"threads_per_grid", "grid_size", true},
    {"thread_index_in_threadgroup", "index", false},
    {"thread_index_in_simdgroup", "lane", false},
    {"simdgroup_index_in_threadgroup", "simdgroup", false},
    {"simdgroups_per_threadgroup", "simdgroups", false},
};

typedef struct parameter {
  char type[200], attribute[64];
  int index; /* of the attribute: buffer(2) */
} parameter;

static const char *skip_space(const char *p) {
  while (*p == ' ' || *p == '\n' || *p == '\t') p++;
  return p;
}

/* One parameter, `from` to `to`: "device const float *x [[buffer(0)]]". */
static bool read_parameter(const char *from, const char *to, parameter *p) {
  const char *mark = memmem(from, (size_t)(to - from), "[[", 2);
  if (!mark) return false;
  const char *a = skip_space(mark + 2);
  size_t n = 0;
  while (a + n < to && is_word(a[n])) n++;
  if (n == 0 || n >= sizeof p->attribute) return false;
  memcpy(p->attribute, a, n);
  p->attribute[n] = 0;
  p->index = a[n] == '(' ? atoi(a + n + 1) : 0;
  const char *end = mark;
  while (end > from && !is_word(end[-1])) end--; /* the name … */
  while (end > from && is_word(end[-1])) end--;
  from = skip_space(from);
  if (end <= from || (size_t)(end - from) >= sizeof p->type) return false;
  memcpy(p->type, from, (size_t)(end - from));
  p->type[end - from] = 0;
  return p->index >= 0 && p->index < SOFT_BUFFERS;
}

static bool write_argument(FILE *out, const parameter *p) {
  const char *table = strcmp(p->attribute, "buffer") == 0        ? "buffers"
                      : strcmp(p->attribute, "threadgroup") == 0 ? "shared"
                                                                 : NULL;
  if (table) {
    char *reference = strchr(p->type, '&');
    if (reference) *reference = '*';
    fprintf(out, "%s(%s)soft_t->%s[%d]", reference ? "*" : "", p->type, table, p->index);
    return true;
  }
  if (strcmp(p->attribute, "threads_per_simdgroup") == 0) {
    fprintf(out, "(%s)%d", p->type, SOFT_LANES);
    return true;
  }
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
    if (strcmp(builtins[i].attribute, p->attribute) == 0) {
      fprintf(out, builtins[i].vector ? "soft_id<%s>::of(soft_t->%s)" : "(%s)soft_t->%s", p->type, builtins[i].field);
      return true;
    }
  return false;
}

/* Writes the wrapper of a kernel whose parameters are between `p` and its closing parenthesis. */
static const char *write_wrapper(FILE *out, const char *name, size_t length, const char *p) {
  fprintf(out,
          "extern \"C\" __attribute__((visibility(\"default\"))) void softmetal_run_%.*s(const soft_thread *soft_t) { "
          "%.*s(",
          (int)length, name, (int)length, name);
  int depth = 1, count = 0;
  for (const char *start = p;; p++) {
    if (!*p) return "a kernel's parameter list does not end";
    depth += (*p == '(') - (*p == ')');
    bool end = depth == 0;
    if (!end && !(*p == ',' && depth == 1)) continue;
    if (end && count == 0 && skip_space(start) == p) break;
    parameter read;
    if (!read_parameter(start, p, &read)) return "a kernel's parameter has no attribute, or one that does not parse";
    if (count++) fputs(", ", out);
    if (!write_argument(out, &read)) return "a kernel's parameter has an attribute the software Metal does not know";
    start = p + 1;
    if (end) break;
  }
  fputs("); }\n", out);
  return NULL;
}

/* Finds `kernel void NAME(`; *name and *length say which. */
static const char *find_kernel(const char *p, const char **name, size_t *length) {
  while ((p = strstr(p, "kernel"))) {
    const char *q = p + 6;
    p += 6;
    if (is_word(*q)) continue;
    q = skip_space(q);
    if (strncmp(q, "void", 4) != 0) continue;
    q = skip_space(q + 4);
    *name = q;
    while (is_word(*q)) q++;
    *length = (size_t)(q - *name);
    q = skip_space(q);
    if (*q == '(' && *length) return q + 1;
  }
  return NULL;
}

/* A declaration of workgroup memory, not of a pointer to it: what follows `threadgroup` up to ; or = has no * or &. */
static bool declares_memory(const char *p) {
  for (; *p && *p != ';' && *p != '='; p++)
    if (*p == '*' || *p == '&' || *p == '(') return false;
  return true;
}

static void write_body(FILE *out, const char *text) {
  char before = ';';
  for (const char *p = text; *p;) {
    if (*p == '#' && (p == text || p[-1] == '\n')) { /* a line marker */
      size_t n = strcspn(p, "\n");
      fwrite(p, 1, n, out);
      p += n;
      continue;
    }
    if (is_word(*p)) {
      size_t n = 0;
      while (is_word(p[n])) n++;
      bool shared = n == 11 && strncmp(p, "threadgroup", 11) == 0 && strchr(";{}", before) && declares_memory(p);
      if (shared)
        fputs("SOFT_SHARED", out);
      else
        fwrite(p, 1, n, out);
      before = 'a';
      p += n;
      continue;
    }
    if (*p != ' ' && *p != '\n' && *p != '\t') before = *p;
    fputc(*p++, out);
  }
}

static bool cooperates(const char *text) {
  static const char *const words[] = {"threadgroup_barrier", "simdgroup_", "simd_", NULL};
  for (const char *const *w = words; *w; w++)
    if (strstr(text, *w)) return true;
  return false;
}

/* The C++ of a preprocessed text; NULL with *why. names: the kernels', each followed by a newline. */
static char *translate(const char *text, char **names, const char **why) {
  writer w, list;
  *why = "out of memory";
  if (!writer_open(&w)) return NULL;
  if (!writer_open(&list)) {
    fclose(w.file);
    free(w.data);
    return NULL;
  }
  fputs("#include <metal_stdlib>\n", w.file);
  write_body(w.file, text);
  fputs("\n#ifndef SOFTMETAL_LINT\n", w.file);
  const char *problem = NULL, *name;
  size_t length;
  for (const char *p = text; !problem && (p = find_kernel(p, &name, &length));) {
    problem = write_wrapper(w.file, name, length, p);
    fprintf(list.file, "%.*s\n", (int)length, name);
  }
  fputs("#endif\n", w.file);
  fclose(w.file);
  fclose(list.file);
  *names = list.data;
  if (!problem) return w.data;
  *why = problem;
  free(w.data);
  free(list.data);
  *names = NULL;
  return NULL;
}

/* ---- a library ---- */

typedef struct job {
  char folder[256], base[300];
  char msl[320], pre[320], cpp[320], so[320], log[320], made[340];
  const char *math;
} job;

static bool job_paths(job *j, uint64_t key) {
  const char *folder = getenv("SOFTMETAL_CACHE"), *temporary = getenv("TMPDIR");
  if (folder && *folder)
    snprintf(j->folder, sizeof j->folder, "%s", folder);
  else
    snprintf(j->folder, sizeof j->folder, "%s/softmetal-%u", temporary ? temporary : "/tmp", (unsigned)getuid());
  mkdir(j->folder, 0700);
  snprintf(j->so, sizeof j->so, "%s/%016llx.so", j->folder, (unsigned long long)key);
  snprintf(j->base, sizeof j->base, "%s/%016llx-%d-%p", j->folder, (unsigned long long)key, (int)getpid(), (void *)j);
  snprintf(j->msl, sizeof j->msl, "%s.metal", j->base);
  snprintf(j->pre, sizeof j->pre, "%s.i", j->base);
  snprintf(j->cpp, sizeof j->cpp, "%s.cc", j->base);
  snprintf(j->log, sizeof j->log, "%s.log", j->base);
  snprintf(j->made, sizeof j->made, "%s.made.so", j->base);
  return true;
}

static void job_clean(const job *j) {
  const char *const paths[] = {j->msl, j->pre, j->cpp, j->log, j->made};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) unlink(paths[i]);
}

static bool scan(const job *j) {
  const char *const a[] = {
      compiler(), "-E", "-xc++", "-std=c++17", "-DSOFTMETAL_SCAN", "-D__METAL_VERSION__=300", "-I", SOFTMETAL_INCLUDE,
      j->msl,     "-o", j->pre,  NULL};
  return run_clang(a, j->log);
}

static bool lint(const job *j) {
  const char *const a[] = {compiler(), "-fsyntax-only",   "-xc++", "-std=c++17", "-DSOFTMETAL_LINT", "-Wno-everything",
                           "-I",       SOFTMETAL_INCLUDE, j->cpp,  NULL};
  return run_clang(a, j->log);
}

static bool build(const job *j) {
  const char *const a[] = {compiler(),
                           "-shared",
                           "-fPIC",
                           "-xc++",
                           "-std=c++17",
                           "-O1",
                           "-fvisibility=hidden",
                           "-fno-exceptions",
                           "-fno-rtti",
                           "-nostdlib++",
                           "-ffp-contract=off",
                           j->math,
                           "-Wno-everything",
                           "-I",
                           SOFTMETAL_INCLUDE,
                           j->cpp,
                           "-o",
                           j->made,
                           "-lm",
                           NULL};
  return run_clang(a, j->log);
}

static char *text_of(const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  return text;
}

/* Compiles to j->so; NULL, or the error. */
static char *compile(const job *j, const char *source) {
  if (!write_file(j->msl, source)) return text_of("softmetal: %s cannot be written", j->msl);
  if (!scan(j)) return read_file(j->log);
  char *text = read_file(j->pre), *names = NULL;
  const char *why = NULL;
  char *cpp = text ? translate(text, &names, &why) : NULL;
  bool cooperative = text && cooperates(text);
  free(text);
  if (!cpp) return text_of("softmetal: %s", why ? why : "out of memory");
  char *all =
      text_of("%s\nextern \"C\" __attribute__((visibility(\"default\"))) const char softmetal_names[] = R\"(%s)\";\n"
              "extern \"C\" __attribute__((visibility(\"default\"))) const int softmetal_cooperative = %d;\n",
              cpp, names, cooperative);
  free(cpp);
  free(names);
  bool written = all && write_file(j->cpp, all);
  free(all);
  if (!written) return text_of("softmetal: %s cannot be written", j->cpp);
  if (!lint(j) || !build(j)) return read_file(j->log);
  __atomic_fetch_add(&soft_counts.compiled, 1, __ATOMIC_RELAXED);
  return rename(j->made, j->so) == 0 ? NULL : text_of("softmetal: %s cannot be written", j->so);
}

static bool fill_kernels(soft_module *m) {
  const char *names = dlsym(m->handle, "softmetal_names");
  const soft_calls **calls = dlsym(m->handle, "softmetal_calls");
  const int *cooperative = dlsym(m->handle, "softmetal_cooperative");
  if (!names || !calls || !cooperative) return false;
  *calls = &soft_executor_calls;
  m->cooperative = *cooperative;
  for (const char *p = names; *p; p++) m->kernel_count += *p == '\n';
  m->kernels = calloc((size_t)m->kernel_count + 1, sizeof *m->kernels);
  if (!m->kernels) return false;
  int n = 0;
  for (const char *p = names; *p; p += strcspn(p, "\n") + 1) {
    char symbol[160];
    int length = (int)strcspn(p, "\n");
    snprintf(m->kernels[n].name, sizeof m->kernels[n].name, "%.*s", length, p);
    snprintf(symbol, sizeof symbol, "softmetal_run_%.*s", length, p);
    void *entry = dlsym(m->handle, symbol);
    if (!entry) return false;
    memcpy(&m->kernels[n++].entry, &entry, sizeof entry);
  }
  return true;
}

static soft_module *module_load(const job *j, uint64_t key, const char *source) {
  soft_module *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->key = key;
  m->source = strdup(source);
  m->handle = dlopen(j->so, RTLD_NOW | RTLD_LOCAL);
  if (m->source && m->handle && fill_kernels(m)) return m;
  free(m->source);
  free(m->kernels);
  free(m);
  return NULL;
}

static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static soft_module *modules;

static const soft_module *find(uint64_t key, const char *source) {
  for (soft_module *m = modules; m; m = m->next)
    if (m->key == key && strcmp(m->source, source) == 0) return m;
  return NULL;
}

const soft_module *soft_compile(const char *source, bool fast_math, char **error) {
  uint64_t key = hash_text(source, hash_text(SOFTMETAL_STAMP, UINT64_C(14695981039346656037))) ^ (uint64_t)fast_math;
  pthread_mutex_lock(&modules_lock);
  const soft_module *found = find(key, source);
  pthread_mutex_unlock(&modules_lock);
  if (found) return found;
  job j = {.math = fast_math ? "-ffast-math" : "-fno-fast-math"};
  job_paths(&j, key);
  *error = access(j.so, R_OK) == 0 ? NULL : compile(&j, source);
  soft_module *m = *error ? NULL : module_load(&j, key, source);
  if (!m && !*error) *error = text_of("softmetal: the compiled module does not load: %s", dlerror());
  job_clean(&j);
  if (!m) return NULL;
  pthread_mutex_lock(&modules_lock);
  m->next = modules;
  modules = m;
  pthread_mutex_unlock(&modules_lock);
  return m;
}
