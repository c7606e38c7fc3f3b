/* _regex.c — compiling a pattern: text to a tree, and the tree to instructions of a nondeterministic automaton. */
#include "ops/_regex_parts.h"

#include <string.h>

#include "base/memory.h"

typedef struct parser {
  const void *context;
  regex *r;
  const char *text;
  size_t size, at;
  int depth;
  uint32_t flags;
  rlx_status status;
} parser;

enum { FLAG_FOLD = 1, FLAG_DOT_ALL = 2, FLAG_LINES = 4, DEPTH = 200, REPEATS = 1000 };

uint32_t utf8_next(const char *text, size_t size, size_t *at) {
  const unsigned char *s = (const unsigned char *)text + *at;
  size_t left = size - *at, n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
  uint32_t c = n == 1 ? s[0] : n ? s[0] & (0x7fu >> n) : 0xfffd;
  bool whole = n > 0 && n <= left && s[0] <= 0xf4;
  for (size_t i = 1; i < n && whole; i++) {
    whole = (s[i] & 0xc0) == 0x80;
    c = c << 6 | (s[i] & 0x3fu);
  }
  *at += whole ? n : 1;
  return whole ? c : 0xfffd;
}

size_t utf8_put(uint32_t c, char *to) {
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)(lead[n] | c);
  return n;
}

/* ---- the tree ----------------------------------------------------------------------------- */

static int fail(parser *p, rlx_status code, const char *what) {
  if (p->status == RLX_OK)
    p->status = rlx_fail(p->context, code, "pattern: %s at byte %zu", what, p->at < p->size ? p->at : p->size);
  return 0;
}

static int add_node(parser *p, tree_node n) {
  if (p->r->nodes.count >= 100000) return fail(p, RLX_UNSUPPORTED, "the pattern is too large");
  if (!vector_push(&p->r->nodes, n)) return fail(p, RLX_OUT_OF_MEMORY, "no memory");
  return (int)p->r->nodes.count - 1;
}

static void add_range(parser *p, uint32_t low, uint32_t high) {
  if (!vector_push(&p->r->ranges, (char_range){low, high})) fail(p, RLX_OUT_OF_MEMORY, "no memory");
}

static bool more(const parser *p) { return p->at < p->size && p->status == RLX_OK; }

static bool accept(parser *p, const char *s) {
  size_t n = strlen(s);
  if (p->size - p->at < n || memcmp(p->text + p->at, s, n) != 0) return false;
  p->at += n;
  return true;
}

/* Ranges [first, now) turned into what they leave out. */
static void negate(parser *p, size_t first) {
  size_t count = p->r->ranges.count - first;
  char_range *all = p->r->ranges.data + first;
  for (size_t i = 1; i < count; i++) /* sorted by their low ends */
    for (size_t k = i; k > 0 && all[k].low < all[k - 1].low; k--) {
      char_range swap = all[k];
      all[k] = all[k - 1];
      all[k - 1] = swap;
    }
  uint32_t next = 0;
  for (size_t i = 0; i < count && p->status == RLX_OK; i++) {
    char_range was = p->r->ranges.data[first + i];
    if (was.low > next) add_range(p, next, was.low - 1);
    if (was.high >= next) next = was.high + 1;
  }
  if (next <= 0x10ffff) add_range(p, next, 0x10ffff);
  size_t made = p->r->ranges.count - first - count;
  memmove(p->r->ranges.data + first, p->r->ranges.data + first + count, made * sizeof(char_range));
  p->r->ranges.count = first + made;
}

/* \d \w \s and their complements. */
static bool perl_class(parser *p, char c) {
  size_t first = p->r->ranges.count;
  switch (c | 0x20) {
    case 'd': add_range(p, '0', '9'); break;
    case 'w':
      add_range(p, '0', '9');
      add_range(p, 'A', 'Z');
      add_range(p, '_', '_');
      add_range(p, 'a', 'z');
      break;
    case 's':
      add_range(p, '\t', '\n');
      add_range(p, '\f', '\r');
      add_range(p, ' ', ' ');
      break;
    default: return false;
  }
  if (c < 'a') negate(p, first);
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint32_t hex_escape(parser *p) {
  bool braces = accept(p, "{");
  uint32_t value = 0;
  int digits = 0;
  while (p->at < p->size && hex_digit(p->text[p->at]) >= 0 && digits < (braces ? 8 : 2)) {
    value = value << 4 | (uint32_t)hex_digit(p->text[p->at++]);
    digits++;
  }
  if (digits == 0 || (!braces && digits < 2) || (braces && !accept(p, "}")) || value > 0x10ffff)
    fail(p, RLX_INVALID, "a bad hexadecimal escape");
  return value;
}

/* What follows a backslash and means one character. */
static uint32_t char_escape(parser *p) {
  char c = p->text[p->at];
  static const char names[] = "afnrtv", values[] = "\a\f\n\r\t\v";
  const char *known = memchr(names, c, 6);
  if (c == 'x') {
    p->at++;
    return hex_escape(p);
  }
  if (known) {
    p->at++;
    return (uint32_t)values[known - names];
  }
  if (c >= '0' && c <= '7') {
    uint32_t value = 0;
    for (int k = 0; k < 3 && p->at < p->size && p->text[p->at] >= '0' && p->text[p->at] <= '7'; k++)
      value = value * 8 + (uint32_t)(p->text[p->at++] - '0');
    return value;
  }
  bool word = (c >= '8' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && !(c & 0x80));
  if (word) fail(p, c == 'p' || c == 'P' || c == 'C' ? RLX_UNSUPPORTED : RLX_INVALID, "an escape that is not known");
  return utf8_next(p->text, p->size, &p->at);
}

static bool posix_class(parser *p) {
  static const struct {
    const char *name;
    char_range ranges[4];
  } classes[] = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                 {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                 {"ascii", {{1, 127}, {0, 0}}},
                 {"blank", {{'\t', '\t'}, {' ', ' '}}},
                 {"cntrl", {{1, 31}, {127, 127}}},
                 {"digit", {{'0', '9'}}},
                 {"graph", {{'!', '~'}}},
                 {"lower", {{'a', 'z'}}},
                 {"print", {{' ', '~'}}},
                 {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                 {"space", {{'\t', '\r'}, {' ', ' '}}},
                 {"upper", {{'A', 'Z'}}},
                 {"word", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}},
                 {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
  if (!accept(p, "[:")) return false;
  bool not = accept(p, "^");
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    size_t n = strlen(classes[i].name);
    if (p->size - p->at < n + 2 || memcmp(p->text + p->at, classes[i].name, n) != 0 ||
        memcmp(p->text + p->at + n, ":]", 2) != 0)
      continue;
    p->at += n + 2;
    size_t first = p->r->ranges.count;
    for (int k = 0; k < 4 && classes[i].ranges[k].high; k++)
      add_range(p, classes[i].ranges[k].low, classes[i].ranges[k].high);
    if (strcmp(classes[i].name, "ascii") == 0 || strcmp(classes[i].name, "cntrl") == 0) add_range(p, 0, 0);
    if (not ) negate(p, first);
    return true;
  }
  fail(p, RLX_INVALID, "a class that is not known");
  return true;
}

/* Both cases of ASCII letters in ranges [first, now). */
static void fold_case(parser *p, size_t first) {
  size_t count = p->r->ranges.count;
  for (size_t i = first; i < count; i++)
    for (uint32_t base = 'A'; base <= 'a'; base += 'a' - 'A') {
      char_range r = p->r->ranges.data[i];
      uint32_t low = r.low > base ? r.low : base, high = r.high < base + 25 ? r.high : base + 25;
      if (low <= high) add_range(p, low ^ 0x20, high ^ 0x20);
    }
}

static int set_node(parser *p, size_t first) {
  if (p->flags & FLAG_FOLD) fold_case(p, first);
  return add_node(p, (tree_node){.kind = TREE_SET, .a = (int)first, .b = (int)p->r->ranges.count});
}

static uint32_t class_char(parser *p) {
  if (accept(p, "\\")) {
    if (!more(p)) return (uint32_t)fail(p, RLX_INVALID, "a lone backslash");
    return char_escape(p);
  }
  return utf8_next(p->text, p->size, &p->at);
}

static int parse_class(parser *p) {
  size_t first = p->r->ranges.count;
  bool not = accept(p, "^"), begun = false;
  while (more(p) && (!begun || p->text[p->at] != ']')) {
    begun = true;
    if (posix_class(p)) continue;
    if (p->text[p->at] == '\\' && p->at + 1 < p->size && perl_class(p, p->text[p->at + 1])) {
      p->at += 2;
      continue;
    }
    uint32_t low = class_char(p), high = low;
    if (p->at + 1 < p->size && p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
      p->at++;
      high = class_char(p);
      if (high < low) return fail(p, RLX_INVALID, "a range whose ends are swapped");
    }
    add_range(p, low, high);
  }
  if (!accept(p, "]")) return fail(p, RLX_INVALID, "a class without end");
  if (p->flags & FLAG_FOLD) fold_case(p, first);
  if (not ) negate(p, first);
  return add_node(p, (tree_node){.kind = TREE_SET, .a = (int)first, .b = (int)p->r->ranges.count});
}

static int assertion(parser *p, int what) { return add_node(p, (tree_node){.kind = TREE_ASSERT, .a = what}); }

static int literal(parser *p, uint32_t c) {
  size_t first = p->r->ranges.count;
  add_range(p, c, c);
  return set_node(p, first);
}

static int parse_quoted(parser *p) {
  int all = add_node(p, (tree_node){.kind = TREE_EMPTY});
  while (more(p) && !accept(p, "\\E"))
    all = add_node(p, (tree_node){.kind = TREE_CAT, .a = all, .b = literal(p, utf8_next(p->text, p->size, &p->at))});
  return all;
}

static int parse_escape(parser *p) {
  if (!more(p)) return fail(p, RLX_INVALID, "a lone backslash");
  size_t first = p->r->ranges.count;
  char c = p->text[p->at];
  if (perl_class(p, c)) {
    p->at++;
    return add_node(p, (tree_node){.kind = TREE_SET, .a = (int)first, .b = (int)p->r->ranges.count});
  }
  static const char asserts[] = "AzbB";
  static const int kinds[] = {ASSERT_BEGIN, ASSERT_END, ASSERT_WORD, ASSERT_NO_WORD};
  const char *known = memchr(asserts, c, 4);
  if (known) {
    p->at++;
    return assertion(p, kinds[known - asserts]);
  }
  if (accept(p, "Q")) return parse_quoted(p);
  return literal(p, char_escape(p));
}

static int parse_alternatives(parser *p);

/* After "(?": flags, a name, or neither. True: flags for the rest of the group, which ends here. */
static bool parse_group_head(parser *p) {
  if (accept(p, "P<") || accept(p, "<")) {
    while (more(p) && p->text[p->at] != '>') p->at++;
    if (!accept(p, ">")) fail(p, RLX_INVALID, "a name without end");
    return false;
  }
  bool on = true;
  while (more(p)) {
    char c = p->text[p->at++];
    uint32_t flag = c == 'i' ? FLAG_FOLD : c == 's' ? FLAG_DOT_ALL : c == 'm' ? FLAG_LINES : 0;
    if (c == ':') return false;
    if (c == ')') return true;
    if (c == '-')
      on = false;
    else if (!flag && c != 'U')
      fail(p, RLX_INVALID, "a group of an unknown kind");
    p->flags = on ? p->flags | flag : p->flags & ~flag;
  }
  fail(p, RLX_INVALID, "a group without end");
  return false;
}

static int parse_group(parser *p) {
  uint32_t flags = p->flags;
  if (++p->depth > DEPTH) return fail(p, RLX_UNSUPPORTED, "groups nested too deeply");
  if (accept(p, "?") && parse_group_head(p)) {
    p->depth--;
    return add_node(p, (tree_node){.kind = TREE_EMPTY});
  }
  int inside = parse_alternatives(p);
  if (!accept(p, ")")) return fail(p, RLX_INVALID, "a group without end");
  p->depth--;
  p->flags = flags;
  return inside;
}

static int parse_atom(parser *p) {
  if (accept(p, "(")) return parse_group(p);
  if (accept(p, "[")) return parse_class(p);
  if (accept(p, "\\")) return parse_escape(p);
  if (accept(p, "^")) return assertion(p, p->flags & FLAG_LINES ? ASSERT_LINE_BEGIN : ASSERT_BEGIN);
  if (accept(p, "$")) return assertion(p, p->flags & FLAG_LINES ? ASSERT_LINE_END : ASSERT_END);
  if (accept(p, ".")) {
    size_t first = p->r->ranges.count;
    if (p->flags & FLAG_DOT_ALL)
      add_range(p, 0, 0x10ffff);
    else {
      add_range(p, '\n', '\n');
      negate(p, first);
    }
    return add_node(p, (tree_node){.kind = TREE_SET, .a = (int)first, .b = (int)p->r->ranges.count});
  }
  if (strchr("*+?", p->text[p->at])) return fail(p, RLX_INVALID, "nothing to repeat");
  return literal(p, utf8_next(p->text, p->size, &p->at));
}

/* "{2}", "{2,}", "{2,5}"; false, and nothing read, if it is not of that form. */
static bool parse_counts(parser *p, int *least, int *most) {
  size_t start = p->at;
  int values[2] = {0, -1}, n = 0, digits = 0;
  if (!accept(p, "{")) return false;
  for (; p->at < p->size; p->at++) {
    char c = p->text[p->at];
    if (c >= '0' && c <= '9') {
      if (values[n] < 0) values[n] = 0;
      if (values[n] <= REPEATS) values[n] = values[n] * 10 + (c - '0');
      digits++;
    } else if (c == ',' && n == 0 && digits) {
      n = 1;
    } else {
      break;
    }
  }
  if (!digits || !accept(p, "}")) {
    p->at = start;
    return false;
  }
  *least = values[0];
  *most = n ? values[1] : values[0];
  if (*least > REPEATS || *most > REPEATS || (*most >= 0 && *most < *least))
    fail(p, RLX_INVALID, "a bad number of repeats");
  return true;
}

static int parse_repeat(parser *p) {
  int atom = parse_atom(p), least, most;
  for (bool once = false; more(p); once = true) {
    if (accept(p, "*"))
      least = 0, most = -1;
    else if (accept(p, "+"))
      least = 1, most = -1;
    else if (accept(p, "?"))
      least = 0, most = 1;
    else if (!parse_counts(p, &least, &most))
      break;
    if (once) return fail(p, RLX_INVALID, "a repeat of a repeat");
    (void)accept(p, "?"); /* greed does not change whether the whole matches */
    atom = add_node(p, (tree_node){.kind = TREE_REPEAT, .a = atom, .b = least, .c = most});
  }
  return atom;
}

static int parse_alternatives(parser *p) {
  int all = -1;
  do {
    int branch = add_node(p, (tree_node){.kind = TREE_EMPTY});
    while (more(p) && p->text[p->at] != '|' && p->text[p->at] != ')')
      branch = add_node(p, (tree_node){.kind = TREE_CAT, .a = branch, .b = parse_repeat(p)});
    all = all < 0 ? branch : add_node(p, (tree_node){.kind = TREE_OR, .a = all, .b = branch});
  } while (more(p) && accept(p, "|"));
  return all;
}

/* ---- instructions ------------------------------------------------------------------------- */

static bool add_step(regex *r, regex_step s) {
  r->too_large |= r->steps.count >= 100000;
  return !r->too_large && vector_push(&r->steps, s);
}

static bool emit(regex *r, int at, int depth);

static bool emit_repeat(regex *r, tree_node n, int depth) {
  for (int k = 0; k < n.b; k++)
    if (!emit(r, n.a, depth)) return false;
  if (n.c < 0) { /* split out, body, back to the split */
    int split = (int)r->steps.count;
    if (!add_step(r, (regex_step){.kind = STEP_SPLIT, .a = split + 1}) || !emit(r, n.a, depth) ||
        !add_step(r, (regex_step){.kind = STEP_SPLIT, .a = split, .b = split}))
      return false;
    r->steps.data[split].b = (int)r->steps.count;
    return true;
  }
  for (int k = n.b; k < n.c; k++) { /* each copy may be skipped */
    int split = (int)r->steps.count;
    if (!add_step(r, (regex_step){.kind = STEP_SPLIT, .a = split + 1}) || !emit(r, n.a, depth)) return false;
    r->steps.data[split].b = (int)r->steps.count;
  }
  return true;
}

typedef VECTOR(int) int_vector;

/* Chains lean to the left and may be as long as the pattern: their parts, last first. */
static bool chain_parts(const regex *r, int at, tree_kind kind, int_vector *parts) {
  while (r->nodes.data[at].kind == kind) {
    if (!vector_push(parts, r->nodes.data[at].b)) return false;
    at = r->nodes.data[at].a;
  }
  return vector_push(parts, at);
}

/* part, jump to the end; part, jump to the end; … last part. */
static bool emit_choice(regex *r, const int_vector *parts, int depth) {
  int_vector jumps = {0};
  bool good = true;
  for (size_t k = parts->count; k-- > 0 && good;) {
    int split = (int)r->steps.count;
    good = (k == 0 || add_step(r, (regex_step){.kind = STEP_SPLIT, .a = split + 1})) && emit(r, parts->data[k], depth);
    if (k == 0 || !good) break;
    good = vector_push(&jumps, (int)r->steps.count) && add_step(r, (regex_step){.kind = STEP_SPLIT});
    if (good) r->steps.data[split].b = (int)r->steps.count;
  }
  for (size_t k = 0; k < jumps.count && good; k++) {
    regex_step *jump = &r->steps.data[jumps.data[k]];
    jump->a = jump->b = (int)r->steps.count;
  }
  vector_finish(&jumps);
  return good;
}

static bool emit_chain(regex *r, int at, tree_kind kind, int depth) {
  int_vector parts = {0};
  bool good = chain_parts(r, at, kind, &parts);
  if (good && kind == TREE_OR) good = emit_choice(r, &parts, depth);
  for (size_t k = parts.count; kind == TREE_CAT && k-- > 0 && good;) good = emit(r, parts.data[k], depth);
  vector_finish(&parts);
  return good;
}

static bool emit(regex *r, int at, int depth) {
  tree_node n = r->nodes.data[at];
  r->too_large |= depth > 4 * DEPTH || ++r->work > 1000000;
  if (r->too_large) return false;
  switch (n.kind) {
    case TREE_EMPTY: return true;
    case TREE_SET: return add_step(r, (regex_step){.kind = STEP_SET, .a = n.a, .b = n.b});
    case TREE_ASSERT: return add_step(r, (regex_step){.kind = STEP_ASSERT, .a = n.a});
    case TREE_REPEAT: return emit_repeat(r, n, depth + 1);
    default: return emit_chain(r, at, n.kind, depth + 1);
  }
}

rlx_status regex_compile(const void *context, rlx_string pattern, regex **out) {
  regex *r = mem_zalloc(sizeof *r);
  if (!r) return rlx_fail(context, RLX_OUT_OF_MEMORY, "no memory for a pattern");
  parser p = {.context = context, .r = r, .text = pattern.data, .size = pattern.size};
  int all = parse_alternatives(&p);
  if (p.status == RLX_OK && p.at < p.size) fail(&p, RLX_INVALID, "a ')' without its '('");
  if (p.status == RLX_OK && (!emit(r, all, 0) || !add_step(r, (regex_step){.kind = STEP_MATCH})))
    fail(&p, r->too_large ? RLX_UNSUPPORTED : RLX_OUT_OF_MEMORY,
         r->too_large ? "the pattern is too large" : "no memory");
  size_t steps = r->steps.count;
  if (p.status == RLX_OK && !(r->lists = mem_array(4 * steps + 4, sizeof *r->lists)))
    fail(&p, RLX_OUT_OF_MEMORY, "no memory");
  if (p.status != RLX_OK) {
    regex_finish(r);
    return p.status;
  }
  *out = r;
  return RLX_OK;
}

void regex_finish(regex *r) {
  if (!r) return;
  vector_finish(&r->nodes);
  vector_finish(&r->ranges);
  vector_finish(&r->steps);
  mem_free(r->lists);
  mem_free(r);
}
