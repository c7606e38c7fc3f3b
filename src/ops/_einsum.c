/* _einsum.c — parsing of Einsum's equation and the extents of its labels. */
#include "ops/_einsum.h"

#include <string.h>

static int letter_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}

static rlx_status parse_term(const void *context, const char *text, size_t size, einsum_term *t) {
  t->count = 0;
  t->has_ellipsis = false;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == ' ') continue;
    int letter = letter_of(text[i]);
    if (text[i] == '.') {
      if (t->has_ellipsis || i + 2 >= size || text[i + 1] != '.' || text[i + 2] != '.')
        return rlx_fail(context, RLX_INVALID, "the term \"%.*s\" has a misplaced '.'", (int)(size & 127u), text);
      i += 2;
      letter = EINSUM_ELLIPSIS;
      t->has_ellipsis = true;
    }
    if (letter < 0)
      return rlx_fail(context, RLX_INVALID, "the equation has the character 0x%02x", (unsigned char)text[i]);
    if (t->count >= RLX_MAX_RANK + 1)
      return rlx_fail(context, RLX_UNSUPPORTED, "a term has more than %d labels", RLX_MAX_RANK);
    t->label[t->count++] = (int8_t)letter;
  }
  return RLX_OK;
}

/* Without "->": the ellipsis, then the letters that occur once, in order. */
static rlx_status implicit_output(const void *context, einsum_equation *e) {
  int uses[EINSUM_LABELS] = {0};
  for (int i = 0; i < e->operands; i++)
    for (int k = 0; k < e->input[i].count; k++) uses[e->input[i].label[k]]++;
  einsum_term *t = &e->output;
  t->count = 0;
  t->has_ellipsis = uses[EINSUM_ELLIPSIS] > 0;
  if (t->has_ellipsis) t->label[t->count++] = EINSUM_ELLIPSIS;
  for (int l = 0; l < EINSUM_ELLIPSIS; l++) {
    if (uses[l] != 1) continue;
    if (t->count > RLX_MAX_RANK) return rlx_fail(context, RLX_UNSUPPORTED, "the output has too many dims");
    t->label[t->count++] = (int8_t)l;
  }
  return RLX_OK;
}

static rlx_status check_output(const void *context, const einsum_equation *e) {
  int uses[EINSUM_LABELS] = {0}, outputs[EINSUM_LABELS] = {0};
  for (int i = 0; i < e->operands; i++)
    for (int k = 0; k < e->input[i].count; k++) uses[e->input[i].label[k]]++;
  for (int k = 0; k < e->output.count; k++) {
    int l = e->output.label[k];
    if (l != EINSUM_ELLIPSIS && !uses[l]) return rlx_fail(context, RLX_INVALID, "an output label occurs in no input");
    if (outputs[l]++) return rlx_fail(context, RLX_INVALID, "an output label occurs twice");
  }
  return RLX_OK;
}

rlx_status einsum_parse(const void *context, rlx_string text, int operands, einsum_equation *out) {
  size_t arrow = text.size, at = 0;
  for (size_t i = 0; i + 1 < text.size; i++)
    if (text.data[i] == '-' && text.data[i + 1] == '>') {
      arrow = i;
      break;
    }
  out->operands = 0;
  for (size_t i = 0; i <= arrow; i++) {
    if (i < arrow && text.data[i] != ',') continue;
    if (out->operands == EINSUM_OPERANDS)
      return rlx_fail(context, RLX_UNSUPPORTED, "more than %d operands", EINSUM_OPERANDS);
    rlx_status status = parse_term(context, text.data + at, i - at, &out->input[out->operands++]);
    if (status != RLX_OK) return status;
    at = i + 1;
  }
  if (out->operands != operands)
    return rlx_fail(context, RLX_INVALID, "the equation has %d terms for %d inputs", out->operands, operands);
  if (arrow == text.size) return implicit_output(context, out);
  rlx_status status = parse_term(context, text.data + arrow + 2, text.size - arrow - 2, &out->output);
  return status == RLX_OK ? check_output(context, out) : status;
}

int einsum_ellipsis_rank(const einsum_term *t, int rank) { return t->has_ellipsis ? rank - (t->count - 1) : 0; }

rlx_status einsum_spell(const void *context, const einsum_term *t, int rank, einsum_dims *out) {
  int ellipsis = einsum_ellipsis_rank(t, rank);
  if (ellipsis < 0 || (!t->has_ellipsis && rank != t->count))
    return rlx_fail(context, RLX_INVALID, "a term of %d labels for rank %d", t->count - t->has_ellipsis, rank);
  out->rank = 0;
  for (int k = 0; k < t->count; k++) {
    if (t->label[k] != EINSUM_ELLIPSIS) out->label[out->rank++] = t->label[k];
    for (int d = 0; t->label[k] == EINSUM_ELLIPSIS && d < ellipsis; d++)
      out->label[out->rank++] = (int8_t)(EINSUM_ELLIPSIS + ellipsis - 1 - d);
  }
  return RLX_OK;
}

rlx_status einsum_extents(const void *context, const einsum_dims *terms, const int64_t *const *dims, int operands,
                          int64_t extents[EINSUM_LABELS]) {
  for (int l = 0; l < EINSUM_LABELS; l++) extents[l] = -2;
  for (int i = 0; i < operands; i++)
    for (int d = 0; d < terms[i].rank; d++) {
      int64_t *known = &extents[terms[i].label[d]], n = dims[i][d];
      if (*known == -2 || *known == 1)
        *known = n;
      else if (*known == RLX_UNKNOWN)
        *known = n == 1 ? RLX_UNKNOWN : n;
      else if (n != RLX_UNKNOWN && n != 1 && n != *known)
        return rlx_fail(context, RLX_INVALID, "a label has extent %lld, in input %d %lld", (long long)*known, i,
                        (long long)n);
    }
  return RLX_OK;
}
