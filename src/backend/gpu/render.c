/* render.c — a portable kernel as the source text of a dialect. */
#include "backend/gpu/render.h"

#include <stdio.h>
#include <string.h>

#include "backend/gpu/lint.h"
#include "backend/gpu/prelude.h"
#include "backend/gpu/render_private.h"
#include "base/status.h"
#include "base/vector.h"
#include "ir/graph.h"

void gpu_workgroup(const rlx_gpu_function *f, uint32_t size[3]) {
  for (int i = 0; i < 3; i++) size[i] = f->workgroup[i] ? f->workgroup[i] : 1;
  if (!f->workgroup[0]) size[0] = 256;
}

/* ---- one piece of text: body, helpers or snippet ---- */

typedef struct piece {
  render *r;
  const gpu_tokens *t;
  gpu_writer w;
  bool body; /* arguments are known */
} piece;

static void word(piece *p, const char *s) { gpu_write_word(&p->w, s, strlen(s)); }
static void copy(piece *p, const gpu_token *t) { gpu_write_word(&p->w, t->at, (size_t)t->length); }

static rlx_status write_range(piece *p, size_t begin, size_t end);

static const render_arg *find_arg(const render *r, const char *s, size_t length) {
  for (int i = 0; i < r->arg_count; i++)
    if (strlen(r->args[i].arg->name) == length && memcmp(r->args[i].arg->name, s, length) == 0) return &r->args[i];
  return NULL;
}

/* NAME(first, rest…) with the address of an operand first. */
static void open_call(piece *p, const char *kind, const render_arg *a) {
  char name[32];
  snprintf(name, sizeof name, "rlx_%s_%s", kind, gpu_type_of(a->dtype)->name);
  word(p, name);
  word(p, "(");
  snprintf(name, sizeof name, "rlx_p_%d", a->number);
  word(p, name);
  word(p, ",");
}

/* x[index], or x[index] = value: *i is at x, and left at the last token used. */
static rlx_status write_element(piece *p, const render_arg *a, size_t *i) {
  const gpu_tokens *t = p->t;
  size_t close = token_close(t, *i + 1), equals = close + 1;
  bool store = equals < t->count && token_is(&t->data[equals], "=");
  open_call(p, store ? "st" : "ld", a);
  word(p, "i64");
  word(p, "(");
  RLX_TRY(write_range(p, *i + 2, close));
  word(p, ")");
  p->r->stored |= RLX_SET(a->dtype) * store;
  p->r->loaded |= RLX_SET(a->dtype) * !store;
  *i = close;
  if (store) {
    word(p, ",");
    size_t end = equals + 1;
    for (; end < t->count && !token_is(&t->data[end], ";") && !token_is(&t->data[end], ")"); end++) {
      size_t after = t->data[end].kind == TOKEN_SIGN ? token_close(t, end) : t->count;
      if (token_is(&t->data[end], "(") || token_is(&t->data[end], "[")) end = after;
    }
    RLX_TRY(write_range(p, equals + 1, end));
    *i = end - 1;
  }
  word(p, ")");
  return RLX_OK;
}

/* LOAD4(x, …) and STORE4(x, …): *i is at the name of the function, and left at the closing bracket. */
static rlx_status write_vector(piece *p, bool store, size_t *i) {
  const gpu_token *name = &p->t->data[*i + 2];
  const render_arg *a = *i + 2 < p->t->count ? find_arg(p->r, name->at, (size_t)name->length) : NULL;
  if (!a || !gpu_arg_is_operand(a->arg) || !token_is(&p->t->data[*i + 3], ","))
    return RLX_FAIL(INVALID, "line %d: rule vectors: LOAD4 and STORE4 take an operand first", name->line);
  if (a->dtype != RLX_FLOAT && a->dtype != RLX_FLOAT16 && a->dtype != RLX_BFLOAT16)
    return RLX_FAIL(INVALID, "line %d: rule vectors: '%s' is %s; LOAD4 and STORE4 take floats", name->line,
                    a->arg->name, rlx_dtype_name(a->dtype));
  size_t close = token_close(p->t, *i + 1);
  open_call(p, store ? "st4" : "ld4", a);
  RLX_TRY(write_range(p, *i + 4, close));
  word(p, ")");
  p->r->stored4 |= RLX_SET(a->dtype) * store;
  p->r->loaded4 |= RLX_SET(a->dtype) * !store;
  *i = close;
  return RLX_OK;
}

static rlx_status write_argument(piece *p, const render_arg *a, size_t *i) {
  char name[32];
  if (gpu_arg_is_operand(a->arg)) return write_element(p, a, i);
  snprintf(name, sizeof name, a->arg->length ? "rlx_b.rlx_a_%d" : "rlx_a_%d", a->number);
  if (a->arg->length && p->r->target->dialect == GPU_CUDA) snprintf(name, sizeof name, "rlx_b->rlx_a_%d", a->number);
  word(p, name);
  return RLX_OK;
}

/* A name that stands for a type: a variable of the op, or NAME_t. NULL: none. */
static const char *type_name(const piece *p, const gpu_token *t) {
  size_t n = (size_t)t->length;
  if (n > 2 && memcmp(t->at + n - 2, "_t", 2) == 0) {
    const render_arg *a = find_arg(p->r, t->at, n - 2);
    if (a) return gpu_type_of(a->dtype)->value;
  }
  rlx_dtype dtype = gpu_variable_dtype(p->r->node, t->at, n);
  return dtype != RLX_UNDEFINED && gpu_type_of(dtype) ? gpu_type_of(dtype)->value : NULL;
}

static void need_snippet(render *r, const gpu_token *t) {
  for (int i = 0; gpu_snippets[i].name; i++)
    if (token_is(t, gpu_snippets[i].name) && !r->needed[i]) r->needed[i] = 1;
}

static rlx_status write_name(piece *p, size_t *i) {
  const gpu_token *t = &p->t->data[*i];
  render *r = p->r;
  if (*i > 0 && token_is(&p->t->data[*i - 1], ".")) {
    copy(p, t);
    return RLX_OK;
  }
  need_snippet(r, t);
  const render_arg *a = p->body ? find_arg(r, t->at, (size_t)t->length) : NULL;
  if (a) return write_argument(p, a, i);
  if (p->body && (token_is(t, "LOAD4") || token_is(t, "STORE4"))) return write_vector(p, token_is(t, "STORE4"), i);
  if (p->body && token_is(t, "PRESENT") && *i + 3 < p->t->count) {
    const gpu_token *name = &p->t->data[*i + 2];
    a = find_arg(r, name->at, (size_t)name->length);
    if (!a || !gpu_arg_is_operand(a->arg)) return RLX_FAIL(INVALID, "line %d: PRESENT takes an operand", name->line);
    char test[32];
    snprintf(test, sizeof test, "rlx_has_%d", a->number);
    word(p, test);
    *i += 3;
    return RLX_OK;
  }
  render_note_use(r, t);
  const char *type = type_name(p, t);
  if (type)
    word(p, type);
  else
    copy(p, t);
  return RLX_OK;
}

static rlx_status write_range(piece *p, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) {
    if (p->t->data[i].kind == TOKEN_NAME)
      RLX_TRY(write_name(p, &i));
    else
      copy(p, &p->t->data[i]);
  }
  return RLX_OK;
}

rlx_status render_piece(render *r, const char *source, bool body, bool check, text *out) {
  gpu_tokens t = {0};
  rlx_status status = gpu_tokenize(source, &t);
  if (status == RLX_OK && check) status = gpu_lint_text(r->f, &t, !body);
  piece p = {r, &t, {out, body ? 1 : 0, 0, true, 0}, body};
  if (status == RLX_OK) status = write_range(&p, 0, t.count);
  gpu_tokens_finish(&t);
  return status;
}

/* Snippets that the texts so far need, and those that they need, each after what it needs itself. */
static rlx_status write_snippet(render *r, int i, text *out) {
  if (r->needed[i] == 2) return RLX_OK;
  r->needed[i] = 2;
  text own = {0};
  uint8_t before[GPU_MAX_SNIPPETS];
  memcpy(before, r->needed, sizeof before);
  rlx_status status = render_piece(r, gpu_snippets[i].body, false, false, &own);
  for (int j = 0; gpu_snippets[j].name && status == RLX_OK; j++)
    if (r->needed[j] == 1 && before[j] == 0) status = write_snippet(r, j, out);
  if (own.data) text_add_bytes(out, own.data, own.size);
  out->failed |= own.failed;
  text_finish(&own);
  return status;
}

rlx_status render_snippets(render *r, text *out) {
  for (int i = 0; gpu_snippets[i].name; i++)
    if (r->needed[i]) RLX_TRY(write_snippet(r, i, out));
  return RLX_OK;
}

/* ---- a whole source ---- */

static rlx_status fill_args(render *r) {
  RLX_TRY(gpu_layout_make(r->f, r->node, &r->layout));
  for (int i = 0; i < r->layout.count; i++) {
    r->args[i] = (render_arg){r->layout.slots[i].arg, r->layout.slots[i].dtype, i};
    /* An operand that is left out is read nowhere; its text needs some type. */
    if (r->args[i].dtype == RLX_UNDEFINED) r->args[i].dtype = RLX_FLOAT;
  }
  r->arg_count = r->layout.count;
  return RLX_OK;
}

/* The texts of a function, made ones included. */
static rlx_status make_texts(render *r, text *helpers, text *body) {
  const rlx_gpu_function *f = r->f;
  rlx_gpu_text made = {{0}};
  if (f->functions) text_add(&made.t, f->functions);
  rlx_status status = f->make_functions ? f->make_functions(&made, r->node) : RLX_OK;
  if (status == RLX_OK && made.t.failed) status = status_no_memory(1);
  if (status == RLX_OK && made.t.data) status = render_piece(r, made.t.data, false, true, helpers);
  text_finish(&made.t);
  made = (rlx_gpu_text){{0}};
  if (status == RLX_OK && f->make_body) status = f->make_body(&made, r->node);
  if (status == RLX_OK && made.t.failed) status = status_no_memory(1);
  if (status == RLX_OK)
    status = render_piece(r, f->make_body ? (made.t.data ? made.t.data : "") : f->body, true, true, body);
  text_finish(&made.t);
  return status;
}

/* What the memory and workgroup functions of the prelude use. */
static bool snippet_implied(const render *r, const char *name) {
  if (strcmp(name, "TO_BF16") == 0) return ((r->stored | r->stored4) & RLX_SET(RLX_BFLOAT16)) != 0;
  if (strcmp(name, "MAX") == 0) return (r->uses & USE_MAX) != 0;
  return strcmp(name, "MIN") == 0 && (r->uses & USE_MIN) != 0;
}

static rlx_status render_all(render *r, text *out) {
  text helpers = {0}, body = {0}, snippets = {0};
  rlx_status status = fill_args(r);
  if (status == RLX_OK) status = make_texts(r, &helpers, &body);
  for (int i = 0; gpu_snippets[i].name && status == RLX_OK; i++)
    if (snippet_implied(r, gpu_snippets[i].name)) r->needed[i] = 1;
  if (status == RLX_OK) status = render_snippets(r, &snippets);
  if (status == RLX_OK && (helpers.failed || body.failed || snippets.failed)) status = status_no_memory(body.size);
  if (status == RLX_OK)
    render_source(r,
                  &(render_texts){snippets.data ? snippets.data : "", helpers.data ? helpers.data : "",
                                  body.data ? body.data : ""},
                  out);
  text_finish(&helpers);
  text_finish(&body);
  text_finish(&snippets);
  return status == RLX_OK && out->failed ? status_no_memory(out->size) : status;
}

rlx_status gpu_render(const rlx_gpu_function *f, const rlx_node *n, const gpu_target *target, text *out) {
  const char *own = target->dialect == GPU_GLSL ? f->glsl : target->dialect == GPU_CUDA ? f->cuda : f->msl;
  if (own) {
    text_add(out, own);
    return out->failed ? status_no_memory(1) : RLX_OK;
  }
  render *r = mem_zalloc(sizeof *r);
  if (!r) return status_no_memory(sizeof *r);
  *r = (render){.f = f, .node = n, .target = target};
  rlx_status status = render_all(r, out);
  mem_free(r);
  return status == RLX_OK ? status : status_prefix(status, "kernel text '%s'", f->name);
}
