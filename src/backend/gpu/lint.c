/* lint.c — the rules a portable kernel keeps, so that its text means the same in every dialect. */
#include "backend/gpu/lint.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/gpu/render.h"
#include "base/status.h"
#include "ir/record.h"

/* ---- words ---- */

/* Words that are keywords, types or built-in variables of some dialect. */
static const char *const reserved[] = {
    "active",     "and",       "asm",      "atomic",    "auto",      "bitand",        "bitor",     "buffer",
    "case",       "cast",      "catch",    "centroid",  "class",     "coherent",      "common",    "compl",
    "constant",   "constexpr", "default",  "delete",    "device",    "discard",       "enum",      "explicit",
    "export",     "extern",    "external", "filter",    "fixed",     "flat",          "fragment",  "friend",
    "global",     "goto",      "highp",    "image",     "in",        "inline",        "inout",     "input",
    "interface",  "invariant", "kernel",   "layout",    "local",     "lowp",          "main",      "mediump",
    "mutable",    "namespace", "new",      "noexcept",  "noinline",  "noperspective", "not",       "not_eq",
    "nullptr",    "operator",  "or",       "out",       "output",    "packed",        "partition", "patch",
    "precise",    "precision", "private",  "protected", "public",    "readonly",      "register",  "resource",
    "restrict",   "sample",    "sampler",  "shared",    "signed",    "smooth",        "static",    "struct",
    "subroutine", "superp",    "switch",   "template",  "texture",   "this",          "thread",    "threadgroup",
    "throw",      "try",       "typedef",  "typename",  "uniform",   "union",         "using",     "varying",
    "vertex",     "virtual",   "visible",  "volatile",  "writeonly", "xor",           "blockDim",  "blockIdx",
    "gridDim",    "threadIdx", "warpSize", "metal",     NULL};

/* Types of C or of one dialect, and what to write instead. */
static const struct {
  const char *word, *instead;
} foreign_types[] = {
    {"float", "f32"},    {"double", "f64"},  {"int", "i32"},      {"uint", "u32"},     {"unsigned", "u32"},
    {"long", "i64"},     {"short", "i32"},   {"char", "i32"},     {"half", "f32"},     {"size_t", "u64"},
    {"int64_t", "i64"},  {"int32_t", "i32"}, {"uint32_t", "u32"}, {"uint64_t", "u64"}, {"vec4", "f32x4"},
    {"float4", "f32x4"}, {"uchar", "u32"},   {"ushort", "u32"},   {"ulong", "u64"},    {"float2", "two f32"},
    {"vec2", "two f32"}, {"float3", "f32s"}, {"vec3", "f32s"},    {"uint8_t", "u32"},  {"int8_t", "i32"}};

static const char *const value_types[] = {"f32", "f64", "i32", "u32", "i64", "u64", "bool", "f32x4", NULL};
static const char *const stored_types[] = {"f32", "f64", "f16", "bf16", "i8",   "u8",   "i16", "u16",
                                           "i32", "u32", "i64", "u64",  "bool", "bits", NULL};
/* Known in the body only: a helper gets them as parameters. */
static const char *const body_only[] = {"GROUP_ID",  "GROUP_ID_Y", "GROUP_ID_Z",  "GROUPS",    "LOCAL_ID",
                                        "WG",        "GLOBAL_ID",  "GLOBAL_SIZE", "GROUP_SUM", "GROUP_MAX",
                                        "GROUP_MIN", "BARRIER",    NULL};

static bool in_list(const gpu_token *t, const char *const *list) {
  for (; *list; list++)
    if (token_is(t, *list)) return true;
  return false;
}

static bool is_type(const gpu_token *t) {
  if (t->kind != TOKEN_NAME) return false;
  if (in_list(t, value_types) || in_list(t, stored_types)) return true;
  for (size_t i = 0; i < sizeof foreign_types / sizeof *foreign_types; i++)
    if (token_is(t, foreign_types[i].word)) return true;
  return t->length > 2 && memcmp(t->at + t->length - 2, "_t", 2) == 0;
}

const rlx_gpu_arg *gpu_find_arg(const rlx_gpu_function *f, const gpu_token *name) {
  for (const rlx_gpu_arg *a = f->args; a && a->name; a++)
    if (token_is(name, a->name)) return a;
  return NULL;
}

#define BREAKS(token, rule, ...) rule_broken(token, rule, __VA_ARGS__)
__attribute__((format(printf, 3, 4))) static rlx_status rule_broken(const gpu_token *t, const char *rule,
                                                                    const char *format, ...) {
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return RLX_FAIL(INVALID, "line %d: rule %s: %s", t->line, rule, what);
}

/* ---- one token and those around it ---- */

typedef struct view {
  const rlx_gpu_function *f;
  const gpu_tokens *t;
  size_t i;
  bool helpers;
} view;

static const gpu_token *at(const view *v, int offset) {
  static const gpu_token none = {"", 0, 0, TOKEN_SIGN};
  size_t i = v->i + (size_t)(int64_t)offset;
  return i < v->t->count ? &v->t->data[i] : &none;
}

static rlx_status check_number(const view *v) {
  const gpu_token *t = at(v, 0);
  const char *s = t->at;
  bool hex = t->length > 1 && (s[1] == 'x' || s[1] == 'X');
  bool real = memchr(s, '.', (size_t)t->length) ||
              (!hex && (memchr(s, 'e', (size_t)t->length) || memchr(s, 'E', (size_t)t->length)));
  char last = s[t->length - 1];
  if (hex && (real || memchr(s, 'p', (size_t)t->length) || memchr(s, 'P', (size_t)t->length)))
    return BREAKS(t, "float-suffix", "hexadecimal floats are not in GLSL: write the number in decimal");
  if (real && last != 'f')
    return BREAKS(t, "float-suffix", "write %.*sf: without it CUDA computes in f64", t->length, s);
  if (!real && memchr(s, 'l', (size_t)t->length))
    return BREAKS(t, "integer-suffix", "write i64(%.*s)", t->length - 1, s);
  if (!real && memchr(s, 'L', (size_t)t->length))
    return BREAKS(t, "integer-suffix", "write i64(%.*s)", t->length - 1, s);
  return RLX_OK;
}

static rlx_status check_reserved(const view *v) {
  const gpu_token *t = at(v, 0);
  if (token_is(at(v, -1), ".")) return RLX_OK;
  if (token_is(t, "sizeof")) return BREAKS(t, "no-sizeof", "sizes are not the same in every dialect");
  if (in_list(t, reserved)) return BREAKS(t, "reserved-name", "'%.*s' means something in a dialect", t->length, t->at);
  if (strncmp(t->at, "gl_", 3) == 0 || strncmp(t->at, "rlx_", 4) == 0 || t->at[0] == '_')
    return BREAKS(t, "reserved-name", "names do not begin with gl_, rlx_ or _");
  for (int i = 0; i + 1 < t->length; i++)
    if (t->at[i] == '_' && t->at[i + 1] == '_')
      return BREAKS(t, "reserved-name", "names have no two underlines together");
  for (size_t i = 0; i < sizeof foreign_types / sizeof *foreign_types; i++)
    if (token_is(t, foreign_types[i].word))
      return BREAKS(t, "portable-types", "write %s for %s", foreign_types[i].instead, foreign_types[i].word);
  if (v->helpers && in_list(t, body_only))
    return BREAKS(t, "helpers-stand-alone", "%.*s is known in the body only: hand it over", t->length, t->at);
  return RLX_OK;
}

static bool starts_operand(const gpu_token *t) {
  return t->kind != TOKEN_SIGN || token_is(t, "(") || token_is(t, "-") || token_is(t, "!") || token_is(t, "~");
}

/* `( type )` before an operand; `*` and `&` where a value is expected. */
static rlx_status check_c_forms(const view *v) {
  const gpu_token *t = at(v, 0), *before = at(v, -1), *after = at(v, 1);
  if (token_is(t, "->")) return BREAKS(t, "no-pointers", "there is no '->'");
  if (token_is(t, "(") && is_type(after) && token_is(at(v, 2), ")") && starts_operand(at(v, 3)) &&
      before->kind != TOKEN_NAME)
    return BREAKS(t, "no-casts", "write %.*s(value)", after->length, after->at);
  if (!token_is(t, "*") && !token_is(t, "&")) return RLX_OK;
  bool unary = v->i == 0 || (before->kind == TOKEN_SIGN && !token_is(before, ")") && !token_is(before, "]")) ||
               token_is(before, "return");
  if (unary || is_type(before) || token_is(after, "*"))
    return BREAKS(t, "no-pointers", "there are no pointers and references: use an operand or array with an index");
  return RLX_OK;
}

/* Whether the name is declared in the text as one of two types, or is a scalar argument of one. */
static bool declared(const view *v, const gpu_token *name, const char *a, const char *b) {
  const rlx_gpu_arg *arg = gpu_find_arg(v->f, name);
  if (arg) return arg->type && (strcmp(arg->type, a) == 0 || strcmp(arg->type, b) == 0);
  for (size_t i = 0; i + 1 < v->t->count; i++) {
    const gpu_token *t = &v->t->data[i + 1];
    if (t->length == name->length && memcmp(t->at, name->at, (size_t)t->length) == 0 &&
        (token_is(&v->t->data[i], a) || token_is(&v->t->data[i], b)))
      return true;
  }
  /* u32 i = 0u, j = 0u; declares j as well */
  for (size_t i = 0; i < v->t->count; i++) {
    if (!token_is(&v->t->data[i], a) && !token_is(&v->t->data[i], b)) continue;
    for (size_t j = i + 1; j + 1 < v->t->count && !token_is(&v->t->data[j], ";"); j++) {
      const gpu_token *t = &v->t->data[j + 1];
      if (token_is(&v->t->data[j], ",") && t->length == name->length && memcmp(t->at, name->at, (size_t)t->length) == 0)
        return true;
    }
  }
  return false;
}

static rlx_status check_modulo(const view *v) {
  const gpu_token *t = at(v, 0), *right = at(v, 1);
  if (!token_is(t, "%") && !token_is(t, "%=")) return RLX_OK;
  bool good = false;
  if (right->kind == TOKEN_NUMBER) {
    good = right->at[right->length - 1] == 'u';
  } else if (right->kind == TOKEN_NAME) {
    good =
        token_is(right, "u32") || token_is(right, "u64") || token_is(right, "WG") || declared(v, right, "u32", "u64");
    for (const rlx_gpu_constant *c = v->f->constants; c && c->name && !good; c++) good = token_is(right, c->name);
  }
  if (!good)
    return BREAKS(t, "no-signed-modulo", "the sign of a signed '%%' differs between dialects: write a %% u32(b)");
  return RLX_OK;
}

/* Arrays other than operands are indexed by 32 bits. */
static rlx_status check_index(const view *v) {
  const gpu_token *name = at(v, -1);
  if (!token_is(at(v, 0), "[") || name->kind != TOKEN_NAME) return RLX_OK;
  const rlx_gpu_arg *arg = gpu_find_arg(v->f, name);
  if (arg && gpu_arg_is_operand(arg)) return RLX_OK;
  size_t end = token_close(v->t, v->i);
  for (size_t i = v->i + 1; i < end; i++) {
    const gpu_token *t = &v->t->data[i];
    if (t->kind != TOKEN_NAME) continue;
    if (token_is(t, "u32") || token_is(t, "i32")) {
      i = token_close(v->t, i + 1);
      continue;
    }
    if (token_is(t, "i64") || token_is(t, "u64") || declared(v, t, "i64", "u64"))
      return BREAKS(t, "local-index-32", "only operands take 64-bit indexes: write %.*s[u32(…)]", name->length,
                    name->at);
  }
  return RLX_OK;
}

static bool compound(const gpu_token *t) {
  return t->kind == TOKEN_SIGN && ((t->length == 2 && t->at[1] == '=' && strchr("+-*/%&|^", *t->at)) ||
                                   t->length == 3 || token_is(t, "++") || token_is(t, "--"));
}

/* How arguments are used. */
static rlx_status check_argument(const view *v) {
  const gpu_token *t = at(v, 0), *before = at(v, -1);
  const rlx_gpu_arg *arg = t->kind == TOKEN_NAME && !token_is(before, ".") ? gpu_find_arg(v->f, t) : NULL;
  if (!arg || v->helpers) return RLX_OK; /* helpers have names of their own */
  if (v->helpers)
    return is_type(before) ? RLX_OK
                           : BREAKS(t, "helpers-stand-alone", "argument %s is known in the body only", arg->name);
  if (is_type(before))
    return BREAKS(t, "no-shadowing", "'%s' is an argument: give the variable another name", arg->name);
  if (!gpu_arg_is_operand(arg)) {
    if (arg->length && !token_is(at(v, 1), "["))
      return BREAKS(t, "operand-index", "array '%s' is used by its elements only", arg->name);
    if (!arg->length && (token_is(at(v, 1), "=") || compound(at(v, 1))))
      return BREAKS(t, "arguments-constant", "'%s' is an argument: copy it to a variable to change it", arg->name);
    return RLX_OK;
  }
  const gpu_token *call = at(v, -2);
  if (token_is(before, "(") && (token_is(call, "PRESENT") || token_is(call, "LOAD4") || token_is(call, "STORE4")))
    return RLX_OK;
  if (!token_is(at(v, 1), "["))
    return BREAKS(t, "operand-index", "operand '%s' is used by its elements only: %s[i]", arg->name, arg->name);
  size_t end = token_close(v->t, v->i + 1);
  const gpu_token *after = end + 1 < v->t->count ? &v->t->data[end + 1] : before;
  if (compound(after) || token_is(before, "++") || token_is(before, "--"))
    return BREAKS(t, "plain-store", "write %s[i] = %s[i] + …", arg->name, arg->name);
  if (token_is(after, "=") && !(arg->flags & (RLX_GPU_OUTPUT | RLX_GPU_WORKSPACE)))
    return BREAKS(t, "inputs-constant", "'%s' is an input", arg->name);
  return RLX_OK;
}

rlx_status gpu_lint_text(const rlx_gpu_function *f, const gpu_tokens *t, bool helpers) {
  view v = {f, t, 0, helpers};
  for (; v.i < t->count; v.i++) {
    switch (t->data[v.i].kind) {
      case TOKEN_NUMBER: RLX_TRY(check_number(&v)); break;
      case TOKEN_NAME:
        RLX_TRY(check_reserved(&v));
        RLX_TRY(check_argument(&v));
        break;
      default:
        RLX_TRY(check_c_forms(&v));
        RLX_TRY(check_modulo(&v));
        RLX_TRY(check_index(&v));
    }
  }
  return RLX_OK;
}

/* ---- the record ---- */

/* A name of an argument, array or constant: a plain word that no dialect reserves. */
static rlx_status check_name(const char *name) {
  gpu_token t = {name, (int)strlen(name), 1, TOKEN_NAME};
  gpu_tokens one = {&t, 1, 1};
  rlx_gpu_function none = {0};
  view v = {&none, &one, 0, false};
  bool word = isalpha((unsigned char)*name);
  for (const char *s = name; *s; s++) word &= isalnum((unsigned char)*s) || *s == '_';
  if (!word || is_type(&t)) return RLX_FAIL(INVALID, "rule names: '%s' is no name for an argument", name);
  return check_reserved(&v);
}

static rlx_status check_type(const char *name, const char *type, const char *const *list) {
  gpu_token t = {type, (int)strlen(type), 1, TOKEN_NAME};
  if (in_list(&t, list)) return RLX_OK;
  return RLX_FAIL(INVALID, "rule types: '%s' has type '%s'", name, type);
}

static rlx_status check_arg(const rlx_gpu_function *f, const rlx_gpu_arg *a) {
  RLX_TRY(check_name(a->name));
  uint32_t kind = a->flags;
  if (kind != RLX_GPU_INPUT && kind != RLX_GPU_OUTPUT && kind != RLX_GPU_WORKSPACE && kind != RLX_GPU_SCALAR &&
      kind != RLX_GPU_COUNT)
    return RLX_FAIL(INVALID, "rule argument-kinds: '%s' has flags %u: one kind is needed", a->name, kind);
  if (a->index < 0 || a->length < 0 || (gpu_arg_is_operand(a) && a->length))
    return RLX_FAIL(INVALID, "rule argument-kinds: '%s' has index %d and length %d", a->name, a->index, a->length);
  if (!a->type && !(kind & (RLX_GPU_INPUT | RLX_GPU_OUTPUT)))
    return RLX_FAIL(INVALID, "rule types: '%s' needs a type", a->name);
  if (kind == RLX_GPU_WORKSPACE && a->index % 16)
    return RLX_FAIL(INVALID, "rule argument-kinds: workspace '%s' begins at byte %d, no multiple of 16", a->name,
                    a->index);
  for (const rlx_gpu_arg *b = f->args; b < a; b++)
    if (strcmp(a->name, b->name) == 0) return RLX_FAIL(INVALID, "rule names: two arguments are called '%s'", a->name);
  return RLX_OK;
}

rlx_status gpu_lint_function(const rlx_gpu_function *f) {
  int count = 0;
  for (const rlx_gpu_arg *a = f->args; a && a->name; a++, count++) RLX_TRY(check_arg(f, a));
  if (count == 0 || count > GPU_MAX_ARGS)
    return RLX_FAIL(INVALID, "rule argument-kinds: %d arguments; 1 to %d are possible", count, GPU_MAX_ARGS);
  int64_t bytes = 0;
  for (const rlx_gpu_shared *s = f->shared; s && s->name; s++) {
    RLX_TRY(check_name(s->name));
    RLX_TRY(check_type(s->name, s->type ? s->type : "", value_types));
    if (s->length <= 0)
      return RLX_FAIL(INVALID, "rule types: workgroup array '%s' has %d elements", s->name, s->length);
    bytes += (int64_t)s->length * (strcmp(s->type, "f32x4") == 0 ? 16 : s->type[1] == '6' ? 8 : 4);
  }
  if (bytes > 31 * 1024) /* what every device has, less room for workgroup reductions */
    return RLX_FAIL(INVALID, "rule workgroup-memory: %lld bytes, more than 31744", (long long)bytes);
  for (const rlx_gpu_constant *c = f->constants; c && c->name; c++) RLX_TRY(check_name(c->name));
  uint32_t size[3];
  gpu_workgroup(f, size);
  if ((uint64_t)size[0] * size[1] * size[2] > 1024 || size[0] > 1024 || size[1] > 1024 || size[2] > 64)
    return RLX_FAIL(INVALID, "rule workgroup-size: %u × %u × %u invocations, more than 1024", size[0], size[1],
                    size[2]);
  if (!f->body == !f->make_body && !(f->glsl && f->cuda && f->msl))
    return RLX_FAIL(INVALID, "rule body: give body or make_body");
  return RLX_OK;
}

static rlx_status check_text(const rlx_gpu_function *f, const char *source, bool helpers) {
  if (!source) return RLX_OK;
  gpu_tokens t = {0};
  rlx_status status = gpu_tokenize(source, &t);
  if (status == RLX_OK) status = gpu_lint_text(f, &t, helpers);
  gpu_tokens_finish(&t);
  return status;
}

rlx_status gpu_functions_check(const rlx_gpu_function *functions) {
  for (const rlx_gpu_function *f = functions; f->name; f++) {
    rlx_status status = check_name(f->name);
    if (status == RLX_OK) status = gpu_lint_function(f);
    if (status == RLX_OK) status = check_text(f, f->functions, true);
    if (status == RLX_OK) status = check_text(f, f->body, false);
    if (status != RLX_OK) return status_prefix(status, "kernel text '%s'", f->name);
  }
  return RLX_OK;
}
