/* strings.c — StringConcat, StringSplit, StringNormalizer and RegexFullMatch. */
#include <locale.h>
#include <stddef.h>
#include <string.h>
#include <wctype.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_regex.h"

#define TEXT RLX_SET(RLX_STRING)

/* ---- StringConcat ------------------------------------------------------------------------- */

static const rlx_port concat_inputs[] = {{.name = "X", .dtypes = TEXT}, {.name = "Y", .dtypes = TEXT}, {0}};
static const rlx_port concat_outputs[] = {{.name = "Z", .dtypes = TEXT}, {0}};

static rlx_status concat_infer(rlx_infer *ctx) {
  const rlx_type *a = rlx_infer_input(ctx, 0), *b = rlx_infer_input(ctx, 1);
  int64_t dims[RLX_MAX_RANK];
  int rank;
  if (a->rank < 0 || b->rank < 0) return RLX_OK;
  char first[256], second[256];
  if (!shape_broadcast(a->rank, a->dims, b->rank, b->dims, &rank, dims))
    return rlx_fail(ctx, RLX_INVALID, "%s and %s do not broadcast", dims_text(a->rank, a->dims, first, sizeof first),
                    dims_text(b->rank, b->dims, second, sizeof second));
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

/* The element of x that output element i takes. */
static rlx_string broadcast_element(const rlx_operand *x, const rlx_operand *y, int64_t i) {
  int64_t offset = 0, stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    int64_t extent = y->dims[d + y->rank - x->rank];
    if (x->dims[d] != 1) offset += i % extent * stride;
    i /= extent;
    stride *= x->dims[d];
  }
  return ((const rlx_string *)x->data)[offset];
}

static rlx_status concat_eval(rlx_ctx *ctx) {
  const rlx_operand *y = &ctx->outputs[0];
  rlx_string *to = y->data;
  for (int64_t i = 0; i < y->count; i++) {
    rlx_string a = broadcast_element(&ctx->inputs[0], y, i), b = broadcast_element(&ctx->inputs[1], y, i);
    char *text = rlx_text(ctx, a.size + b.size);
    if (!text) return RLX_OUT_OF_MEMORY;
    if (a.size) memcpy(text, a.data, a.size);
    if (b.size) memcpy(text + a.size, b.data, b.size);
    to[i] = (rlx_string){text, a.size + b.size};
  }
  return RLX_OK;
}

static const rlx_op string_concat = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.StringConcat",
    .version = 20,
    .samples = (const char *const[]){"string[2,3], string[3]", "string[2], string[]", NULL},
    .doc = "The strings of X, each followed by that of Y, with broadcasting.",
    .inputs = concat_inputs,
    .outputs = concat_outputs,
    .traits = RLX_PURE,
    .infer = concat_infer,
    .eval = concat_eval,
};

/* ---- StringSplit -------------------------------------------------------------------------- */

typedef struct split_params {
  uint64_t given;
  rlx_string delimiter;
  int64_t maxsplit;
} split_params;

static const rlx_attr_def split_attrs[] = {
    {.name = "delimiter", .kind = RLX_ATTR_STRING, .offset = offsetof(split_params, delimiter)},
    {.name = "maxsplit", .kind = RLX_ATTR_INT, .offset = offsetof(split_params, maxsplit), .default_int = -1},
    {0}};
static const rlx_port split_inputs[] = {{.name = "X", .dtypes = TEXT}, {0}};
static const rlx_port split_outputs[] = {{.name = "Y", .dtypes = TEXT}, {.name = "Z", .dtypes = MOVE_INT64}, {0}};

static rlx_status split_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (rlx_infer_output_count(ctx) > 1) {
    rlx_infer_like(ctx, 1, 0);
    rlx_infer_output(ctx, 1)->dtype = RLX_INT64;
  }
  rlx_infer_output(ctx, 0)->dtype = RLX_STRING;
  if (x->rank < 0) return RLX_OK;
  if (x->rank == RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %d is over %d", x->rank + 1, RLX_MAX_RANK);
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  dims[x->rank] = RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, x->rank + 1, dims);
  return RLX_OK;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The pieces of a text, one at a time. */
typedef struct splitter {
  rlx_string rest, delimiter; /* delimiter empty: runs of white space, none at the ends */
  int64_t left;               /* splits that may still be made; negative: any number */
  bool done;
} splitter;

static splitter split_begin(const split_params *p, rlx_string text) {
  return (splitter){text, p->delimiter, p->maxsplit, false};
}

static bool split_words(splitter *s, rlx_string *piece) {
  while (s->rest.size && is_space(*s->rest.data)) s->rest = (rlx_string){s->rest.data + 1, s->rest.size - 1};
  if (s->rest.size == 0) return false;
  size_t n = 0;
  while (n < s->rest.size && (s->left == 0 || !is_space(s->rest.data[n]))) n++;
  *piece = (rlx_string){s->rest.data, n};
  s->rest = (rlx_string){s->rest.data + n, s->rest.size - n};
  if (s->left > 0) s->left--;
  return true;
}

static bool split_next(splitter *s, rlx_string *piece) {
  if (s->delimiter.size == 0) return split_words(s, piece);
  if (s->done) return false;
  const char *found = NULL;
  if (s->left != 0 && s->rest.size >= s->delimiter.size)
    found = memmem(s->rest.data, s->rest.size, s->delimiter.data, s->delimiter.size);
  if (!found) {
    *piece = s->rest;
    s->done = true;
    return true;
  }
  size_t n = (size_t)(found - s->rest.data), skip = n + s->delimiter.size;
  *piece = (rlx_string){s->rest.data, n};
  s->rest = (rlx_string){s->rest.data + skip, s->rest.size - skip};
  if (s->left > 0) s->left--;
  return true;
}

static rlx_status split_eval(rlx_ctx *ctx) {
  const split_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  const rlx_string *texts = x->data;
  int64_t *counts = run_wanted(ctx, 1) ? ctx->outputs[1].data : NULL, most = 0, dims[RLX_MAX_RANK];
  rlx_string piece;
  for (int64_t i = 0; i < x->count; i++) {
    int64_t n = 0;
    for (splitter s = split_begin(p, texts[i]); split_next(&s, &piece);) n++;
    if (counts) counts[i] = n;
    if (n > most) most = n;
  }
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  dims[x->rank] = most;
  rlx_string *to = rlx_output_shape(ctx, 0, x->rank + 1, dims);
  if (!to) return RLX_OUT_OF_MEMORY;
  for (int64_t i = 0; i < x->count; i++) {
    int64_t n = 0;
    for (splitter s = split_begin(p, texts[i]); split_next(&s, &piece);) to[i * most + n++] = piece;
    while (n < most) to[i * most + n++] = (rlx_string){"", 0};
  }
  return RLX_OK;
}

static const rlx_op string_split = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.StringSplit",
    .version = 20,
    .samples = (const char *const[]){"string[2,3] => 2", "string[4] {delimiter = \" \", maxsplit = 1} => 2", NULL},
    .doc = "The pieces of each string between delimiters (without one: runs of white space), at most maxsplit cuts, "
           "filled up with empty strings; and how many pieces there are.",
    .inputs = split_inputs,
    .outputs = split_outputs,
    .attrs = split_attrs,
    .params_size = sizeof(split_params),
    .traits = RLX_PURE,
    .infer = split_infer,
    .eval = split_eval,
};

/* ---- StringNormalizer --------------------------------------------------------------------- */

typedef struct normalizer_params {
  uint64_t given;
  rlx_string action, locale;
  int64_t is_case_sensitive;
  rlx_strings stopwords;
} normalizer_params;

static const rlx_attr_def normalizer_attrs[] = {
    {.name = "case_change_action",
     .kind = RLX_ATTR_STRING,
     .offset = offsetof(normalizer_params, action),
     .default_string = "NONE"},
    {.name = "locale", .kind = RLX_ATTR_STRING, .offset = offsetof(normalizer_params, locale)},
    {.name = "is_case_sensitive", .kind = RLX_ATTR_INT, .offset = offsetof(normalizer_params, is_case_sensitive)},
    {.name = "stopwords", .kind = RLX_ATTR_STRINGS, .offset = offsetof(normalizer_params, stopwords)},
    {0}};

enum { CASE_NONE, CASE_LOWER, CASE_UPPER };

static rlx_status case_action(const void *context, rlx_string text, int *out) {
  static const char *const names[] = {"NONE", "LOWER", "UPPER"};
  for (int i = 0; i < 3; i++)
    if (strlen(names[i]) == text.size && memcmp(names[i], text.data, text.size) == 0) {
      *out = i;
      return RLX_OK;
    }
  return rlx_fail(context, RLX_INVALID, "case_change_action is \"%.*s\"", (int)(text.size > 64 ? 64 : text.size),
                  text.data);
}

static rlx_status normalizer_infer(rlx_infer *ctx) {
  const normalizer_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int action;
  rlx_infer_output(ctx, 0)->dtype = RLX_STRING;
  rlx_status status = case_action(ctx, p->action, &action);
  if (status != RLX_OK || x->rank < 0) return status;
  bool row = x->rank == 2 && (x->dims[0] == 1 || x->dims[0] < 0);
  if (x->rank != 1 && !row) return rlx_fail(ctx, RLX_INVALID, "X is neither [C] nor [1, C]");
  rlx_infer_set(ctx, 0, x->rank, (int64_t[]){x->rank == 2 ? 1 : RLX_UNKNOWN, RLX_UNKNOWN});
  return RLX_OK;
}

/* Unicode's simple mappings where the C library knows them, else ASCII's. */
static uint32_t change_case(uint32_t c, int action, locale_t locale) {
  if (action == CASE_NONE || c == 0xfffd) return c;
  if (c < 128) {
    bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    return (action == CASE_LOWER && upper) || (action == CASE_UPPER && lower) ? c ^ 0x20 : c;
  }
  if (!locale) return c;
  return (uint32_t)(action == CASE_LOWER ? towlower_l((wint_t)c, locale) : towupper_l((wint_t)c, locale));
}

static bool equal_texts(rlx_string a, rlx_string b, bool exactly, locale_t locale) {
  if (exactly) return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
  size_t i = 0, k = 0;
  while (i < a.size && k < b.size)
    if (change_case(utf8_next(a.data, a.size, &i), CASE_LOWER, locale) !=
        change_case(utf8_next(b.data, b.size, &k), CASE_LOWER, locale))
      return false;
  return i == a.size && k == b.size;
}

static bool is_stopword(const normalizer_params *p, rlx_string text, locale_t locale) {
  for (int64_t i = 0; i < p->stopwords.count; i++)
    if (equal_texts(text, p->stopwords.data[i], p->is_case_sensitive, locale)) return true;
  return false;
}

static rlx_status changed_text(rlx_ctx *ctx, rlx_string from, int action, locale_t locale, rlx_string *to) {
  *to = from;
  if (action == CASE_NONE || from.size == 0) return RLX_OK;
  char *text = rlx_text(ctx, from.size * 4); /* a character takes at most four bytes */
  if (!text) return RLX_OUT_OF_MEMORY;
  size_t n = 0;
  for (size_t i = 0; i < from.size;) {
    size_t start = i;
    uint32_t c = utf8_next(from.data, from.size, &i), changed = change_case(c, action, locale);
    if (changed != c) {
      n += utf8_put(changed, text + n);
    } else { /* as it was, bytes that are no UTF-8 included */
      memcpy(text + n, from.data + start, i - start);
      n += i - start;
    }
  }
  *to = (rlx_string){text, n};
  return RLX_OK;
}

static rlx_status normalize_all(rlx_ctx *ctx, int action, locale_t locale) {
  const normalizer_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  const rlx_string *texts = x->data;
  int64_t kept = 0, k = 0;
  for (int64_t i = 0; i < x->count; i++) kept += !is_stopword(p, texts[i], locale);
  int64_t n = kept ? kept : 1, dims[2] = {x->rank == 2 ? 1 : n, n};
  rlx_string *to = rlx_output_shape(ctx, 0, x->rank, dims);
  if (!to) return RLX_OUT_OF_MEMORY;
  if (!kept) to[0] = (rlx_string){"", 0};
  for (int64_t i = 0; i < x->count; i++) {
    if (is_stopword(p, texts[i], locale)) continue;
    rlx_status status = changed_text(ctx, texts[i], action, locale, &to[k++]);
    if (status != RLX_OK) return status;
  }
  return RLX_OK;
}

static rlx_status normalizer_eval(rlx_ctx *ctx) {
  const normalizer_params *p = ctx->params;
  int action = CASE_NONE;
  rlx_status status = case_action(ctx, p->action, &action);
  if (status != RLX_OK) return status;
  locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  status = normalize_all(ctx, action, locale);
  if (locale) freelocale(locale);
  return status;
}

static const rlx_op string_normalizer = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.StringNormalizer",
    .version = 10,
    .samples = (const char *const[]){"string[4] {case_change_action = \"LOWER\", stopwords = [\"a\"]}",
                                     "string[1,5] {case_change_action = \"UPPER\", is_case_sensitive = 1}", NULL},
    .doc = "The strings that are no stopwords, in upper or lower case if asked for; one empty string if none is left. "
           "Cases are Unicode's, whatever locale says.",
    .inputs = split_inputs,
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = TEXT}, {0}},
    .attrs = normalizer_attrs,
    .params_size = sizeof(normalizer_params),
    .traits = RLX_PURE,
    .infer = normalizer_infer,
    .eval = normalizer_eval,
};

/* ---- RegexFullMatch ----------------------------------------------------------------------- */

typedef struct regex_params {
  uint64_t given;
  rlx_string pattern;
} regex_params;

static const rlx_attr_def regex_attrs[] = {
    {.name = "pattern", .kind = RLX_ATTR_STRING, .offset = offsetof(regex_params, pattern)}, {0}};
static const rlx_port regex_outputs[] = {{.name = "Y", .dtypes = RLX_SET(RLX_BOOL)}, {0}};

static rlx_status regex_infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_BOOL;
  return RLX_OK;
}

static rlx_status regex_eval(rlx_ctx *ctx) {
  const regex_params *p = ctx->params;
  const rlx_string *texts = ctx->inputs[0].data;
  uint8_t *y = ctx->outputs[0].data;
  regex *r;
  rlx_status status = regex_compile(ctx, p->pattern, &r);
  if (status != RLX_OK) return status;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = regex_matches(r, texts[i]);
  regex_finish(r);
  return RLX_OK;
}

static const rlx_op regex_full_match = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.RegexFullMatch",
    .version = 20,
    .samples =
        (const char *const[]){"string[2,3] {pattern = \"[a-z]+\"}", "string[4] {pattern = \"(Hello|a|)\"}", NULL},
    .doc = "Whether each string matches the pattern (RE2's syntax) as a whole.",
    .inputs = split_inputs,
    .outputs = regex_outputs,
    .attrs = regex_attrs,
    .params_size = sizeof(regex_params),
    .traits = RLX_PURE,
    .infer = regex_infer,
    .eval = regex_eval,
};

static const rlx_op *const ops[] = {&string_concat, &string_split, &string_normalizer, &regex_full_match, NULL};
const rlx_module ops_strings = {.ops = ops};
