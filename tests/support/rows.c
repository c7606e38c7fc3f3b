/* rows.c — reading rows, and comparing with them. */
#include "support/rows.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "ir/dtype.h"
#include "ir/parse.h"
#include "ir/shape.h"
#include "ir/tensor_text.h"

/* ---- reading ------------------------------------------------------------------------------ */

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("cannot open %s", path);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  long size = ftell(f);
  rewind(f);
  char *content = malloc((size_t)size + 1);
  assert_non_null(content);
  assert_int_equal(fread(content, 1, (size_t)size, f), size);
  content[size] = 0;
  fclose(f);
  return content;
}

/* The tensor that "float[2] {1, 2}" says. */
static rlx_tensor *read_tensor(const row *r, const char *type, const char *contents) {
  size_t room = strlen(type) + strlen(contents) + 64;
  char *source = malloc(room);
  rlx_graph *g = NULL;
  assert_non_null(source);
  int size = snprintf(source, room, "d () => (v) <%s v = %s> { }", type, contents);
  if (graph_parse(source, (size_t)size, "contents", NULL, NULL, &g) != RLX_OK)
    fail_msg("%s:%d: %s", r->file, r->line, rlx_error_message());
  rlx_tensor *t = rlx_tensor_retain(g->outputs.data[0].value->constant);
  assert_non_null(t);
  rlx_graph_destroy(g);
  free(source);
  return t;
}

static rlx_type read_type(const row *r, const char *type) {
  char source[200];
  rlx_graph *g = NULL;
  int size = snprintf(source, sizeof source, "d (%s v) => () { }", type);
  if (graph_parse(source, (size_t)size, "type", NULL, NULL, &g) != RLX_OK)
    fail_msg("%s:%d: %s", r->file, r->line, rlx_error_message());
  rlx_type known = g->inputs.data[0]->type;
  if (!strchr(type, '[')) known.rank = 0;
  rlx_graph_destroy(g);
  return known;
}

/* "a float[2] {1, 2}" */
static void read_value(const row *r, char *line, row_value *out) {
  char *contents = strchr(line, '{');
  int end = 0;
  *out = (row_value){0};
  if (contents && contents > line) contents[-1] = 0;
  if (sscanf(line, "%31s %159[^\n]%n", out->name, out->type, &end) != 2 || line[end])
    fail_msg("%s:%d: \"%s\" is no value", r->file, r->line, line);
  out->known = read_type(r, out->type);
  if (contents) out->tensor = read_tensor(r, out->type, contents);
}

static void read_input(const row *r, char *line, row_value *out) {
  read_value(r, line, out);
  if (out->tensor) return;
  if (rlx_tensor_create(out->known.dtype, out->known.rank, out->known.dims, &out->tensor) != RLX_OK)
    fail_msg("%s:%d: %s", r->file, r->line, rlx_error_message());
}

static void read_head(row *r, const char *line) {
  char word[16] = "";
  r->rtol = r->atol = -1;
  int n = sscanf(line, "row %d %lf %lf", &r->opset, &r->rtol, &r->atol);
  if (n < 1) fail_msg("%s:%d: \"%s\" begins no row", r->file, r->line, line);
  const char *last = strrchr(line, ' ');
  if (last) sscanf(last, "%15s", word);
  r->dynamic = strcmp(word, "dynamic") == 0;
}

static void clear(row *r) {
  for (int i = 0; i < r->input_count; i++) rlx_tensor_destroy(r->inputs[i].tensor);
  for (int i = 0; i < r->output_count; i++) rlx_tensor_destroy(r->outputs[i].tensor);
  free(r->nodes);
  *r = (row){.file = r->file};
}

static void add_nodes(row *r, const char *line) {
  size_t old = r->nodes ? strlen(r->nodes) : 0, more = strlen(line);
  r->nodes = realloc(r->nodes, old + more + 2);
  assert_non_null(r->nodes);
  memcpy(r->nodes + old, line, more);
  memcpy(r->nodes + old + more, "\n", 2);
}

static void add_line(row *r, char *line) {
  if (line[0] == ' ')
    add_nodes(r, line);
  else if (line[0] == '!')
    r->fails = line + 2;
  else if (line[0] == '=' && r->output_count < ROW_MOST)
    read_value(r, line + 2, &r->outputs[r->output_count++]);
  else if (r->input_count < ROW_MOST)
    read_input(r, line, &r->inputs[r->input_count++]);
  else
    fail_msg("%s:%d: too many values", r->file, r->line);
}

typedef struct reading {
  int seen, first, step, visited;
  void (*visit)(void *user, const row *r);
  void *user;
} reading;

static void finish_row(reading *s, row *r) {
  if (!r->nodes) return;
  if (!r->fails && !r->output_count) fail_msg("%s:%d: the row says nothing", r->file, r->line);
  s->visit(s->user, r);
  s->visited++;
  clear(r);
}

static void read_rows(reading *s, const char *path, const char *name) {
  char *content = read_file(path), *rest = content, *line;
  row r = {.file = name};
  bool wanted = false;
  for (int number = 1; (line = strsep(&rest, "\n")); number++) {
    if (!*line || *line == '#') continue;
    if (strncmp(line, "row ", 4) == 0) {
      finish_row(s, &r);
      wanted = s->seen++ % s->step == s->first;
      r.line = number;
      read_head(&r, line);
    } else if (wanted) {
      add_line(&r, line);
    }
  }
  finish_row(s, &r);
  free(content);
}

static int is_rows(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 4 && strcmp(e->d_name + n - 4, ".txt") == 0;
}

int rows_each(const char *folder, int first, int step, void (*visit)(void *user, const row *r), void *user) {
  struct dirent **names;
  reading s = {0, first, step, 0, visit, user};
  int count = scandir(folder, &names, is_rows, alphasort);
  if (count <= 0) fail_msg("no rows in %s", folder);
  for (int i = 0; i < count; i++) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    read_rows(&s, path, names[i]->d_name);
    free(names[i]);
  }
  free(names);
  return s.visited;
}

/* ---- graphs ------------------------------------------------------------------------------- */

rlx_graph *row_graph(const row *r, const char *const *types, uint64_t constants) {
  text source = {0};
  rlx_graph *g = NULL;
  text_printf(&source, "<ir_version: 10, opset_import: [\"\" : %d]> g (", r->opset);
  const char *comma = "";
  for (int i = 0; i < r->input_count; i++)
    if (!(constants >> i & 1)) {
      const char *type = types && types[i] ? types[i] : r->inputs[i].type;
      text_printf(&source, "%s%s %s", comma, type, r->inputs[i].name), comma = ", ";
    }
  text_printf(&source, ") => (");
  for (int i = 0; i < r->output_count; i++) text_printf(&source, "%s%s", i ? ", " : "", r->outputs[i].name);
  if (r->fails) text_printf(&source, "y0");
  text_printf(&source, ") ");
  comma = "<";
  for (int i = 0; i < r->input_count; i++)
    if (constants >> i & 1) {
      text_printf(&source, "%s%s %s = ", comma, r->inputs[i].type, r->inputs[i].name), comma = ", ";
      tensor_print_data(r->inputs[i].tensor, &source);
    }
  text_printf(&source, "%s { %s }", *comma == ',' ? ">" : "", r->nodes);
  rlx_status status = graph_parse(source.data, source.size, r->file, NULL, NULL, &g);
  text_finish(&source);
  return status == RLX_OK ? g : NULL;
}

/* ---- comparing ---------------------------------------------------------------------------- */

static char why[512];

static const struct {
  rlx_dtype dtype;
  double rtol, atol;
} tolerances[] = {{RLX_FLOAT, 1e-5, 1e-6},      {RLX_DOUBLE, 1e-9, 1e-12},   {RLX_FLOAT16, 2e-3, 1e-5},
                  {RLX_BFLOAT16, 1.6e-2, 1e-5}, {RLX_COMPLEX64, 1e-5, 1e-6}, {RLX_COMPLEX128, 1e-9, 1e-12}};

static void tolerance_of(const row *r, rlx_dtype dtype, double *rtol, double *atol) {
  *rtol = *atol = 0;
  for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++)
    if (tolerances[i].dtype == dtype) {
      *rtol = r->rtol >= 0 ? r->rtol : tolerances[i].rtol;
      *atol = r->atol >= 0 ? r->atol : tolerances[i].atol;
    }
}

static bool same_element(const rlx_tensor *a, const rlx_tensor *b, int64_t i, double rtol, double atol) {
  if (a->dtype == RLX_STRING) {
    const rlx_string *x = (const rlx_string *)a->data + i, *y = (const rlx_string *)b->data + i;
    return x->size == y->size && (x->size == 0 || memcmp(x->data, y->data, x->size) == 0);
  }
  if (dtype_is_integer(a->dtype)) return dtype_load_int(a->dtype, a->data, i) == dtype_load_int(b->dtype, b->data, i);
  double x, y;
  if (a->dtype == RLX_COMPLEX64)
    x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
  else if (a->dtype == RLX_COMPLEX128)
    x = ((const double *)a->data)[i], y = ((const double *)b->data)[i];
  else
    x = dtype_load(a->dtype, a->data, i), y = dtype_load(b->dtype, b->data, i);
  return x == y || (isnan(x) && isnan(y)) || (isfinite(x) && isfinite(y) && fabs(x - y) <= atol + rtol * fabs(y));
}

static void print_around(text *out, const rlx_tensor *t) {
  tensor_print_data(t, out);
  if (out->size > 200) out->size = 200, out->data[200] = 0;
}

const char *row_difference(const row *r, int i, const rlx_tensor *t) {
  const row_value *v = &r->outputs[i];
  char shape[300];
  rlx_type type;
  rlx_tensor_type(t, &type);
  type_text(&type, shape, sizeof shape);
  if (t->rank == 0) *strchr(shape, '[') = 0;
  if (strcmp(shape, v->type) != 0) {
    snprintf(why, sizeof why, "%s is %s and should be %s", v->name, shape, v->type);
    return why;
  }
  double rtol, atol;
  tolerance_of(r, t->dtype, &rtol, &atol);
  int64_t parts = t->dtype == RLX_COMPLEX64 || t->dtype == RLX_COMPLEX128 ? 2 : 1;
  for (int64_t k = 0; v->tensor && k < t->count * parts; k++) {
    if (same_element(t, v->tensor, k, rtol, atol)) continue;
    text got = {0}, want = {0};
    print_around(&got, t);
    print_around(&want, v->tensor);
    snprintf(why, sizeof why, "%s: element %lld is wrong: %.200s, and should be %.200s", v->name, (long long)k,
             got.data, want.data);
    text_finish(&got);
    text_finish(&want);
    return why;
  }
  return NULL;
}
