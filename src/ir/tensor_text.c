/* tensor_text.c — contents of tensors, to text and back. */
#include "ir/tensor_text.h"

#include <inttypes.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/number.h"
#include "ir/shape.h"

static bool is_complex(rlx_dtype d) { return d == RLX_COMPLEX64 || d == RLX_COMPLEX128; }

/* The bits of element i of a float type below 32 bits. */
static unsigned small_bits(rlx_dtype dtype, const void *data, int64_t i) {
  const uint8_t *bytes = data;
  if (rlx_dtype_bits(dtype) < 8) return bits_load(rlx_dtype_bits(dtype), data, i);
  if (rlx_dtype_bits(dtype) == 8) return bytes[i];
  uint16_t u;
  memcpy(&u, bytes + 2 * i, sizeof u);
  return u;
}

static void store_small_bits(rlx_dtype dtype, void *data, int64_t i, unsigned bits) {
  if (rlx_dtype_bits(dtype) < 8)
    bits_store(rlx_dtype_bits(dtype), data, i, bits);
  else
    dtype_store_int(rlx_dtype_bits(dtype) == 8 ? RLX_UINT8 : RLX_UINT16, data, i, bits);
}

/* As a value, unless that would not give the same bits (a NaN's payload). */
static void print_small_float(rlx_dtype dtype, const void *data, int64_t i, text *out) {
  char number[NUMBER_TEXT];
  uint8_t back[2] = {0};
  unsigned bits = small_bits(dtype, data, i);
  float value = (float)dtype_load(dtype, data, i);
  dtype_store(dtype, back, 0, (double)value);
  if (small_bits(dtype, back, 0) == bits)
    text_add(out, number_print_float(value, false, number));
  else
    text_printf(out, "%u", bits);
}

static void print_element(rlx_dtype dtype, const void *data, int64_t i, text *out) {
  char number[NUMBER_TEXT];
  if (dtype == RLX_FLOAT)
    text_add(out, number_print_float(((const float *)data)[i], true, number));
  else if (dtype == RLX_DOUBLE)
    text_add(out, number_print_double(((const double *)data)[i], true, number));
  else if (dtype == RLX_BOOL)
    text_printf(out, "%u", ((const uint8_t *)data)[i]);
  else if (dtype == RLX_UINT64)
    text_printf(out, "%" PRIu64, ((const uint64_t *)data)[i]);
  else if (dtype == RLX_STRING)
    lexer_print_string(out, ((const rlx_string *)data)[i].data, ((const rlx_string *)data)[i].size);
  else if (dtype_is_float(dtype))
    print_small_float(dtype, data, i, out);
  else
    text_printf(out, "%" PRId64, dtype_load_int(dtype, data, i));
}

void tensor_print_data(const rlx_tensor *t, text *out) {
  bool complex = is_complex(t->dtype);
  rlx_dtype dtype = t->dtype == RLX_COMPLEX64 ? RLX_FLOAT : complex ? RLX_DOUBLE : t->dtype;
  int64_t count = complex ? 2 * t->count : t->count;
  text_add(out, "{");
  for (int64_t i = 0; i < count; i++) {
    if (i) text_add(out, ", ");
    print_element(dtype, t->data, i, out);
  }
  text_add(out, "}");
}

/* ---- reading ---- */

static rlx_status out_of_range(const lexer *l, rlx_dtype dtype) {
  int size = (int)(l->token.size < 40 ? l->token.size : 40);
  return lexer_fail(l, RLX_INVALID, "'%.*s' is no %s", size, l->token.start, rlx_dtype_name(dtype));
}

static rlx_status parse_float(const lexer *l, rlx_dtype dtype, void *data, int64_t i) {
  const token *t = &l->token;
  if (dtype == RLX_DOUBLE)
    return number_parse_double(t->start, t->size, (double *)data + i) ? RLX_OK : out_of_range(l, dtype);
  if (dtype == RLX_FLOAT)
    return number_parse_float(t->start, t->size, (float *)data + i) ? RLX_OK : out_of_range(l, dtype);
  float value;
  uint64_t bits;
  if (t->kind == TOKEN_INT) {
    if (!number_parse_uint(t->start, t->size, &bits) || bits >> rlx_dtype_bits(dtype)) return out_of_range(l, dtype);
    store_small_bits(dtype, data, i, (unsigned)bits);
    return RLX_OK;
  }
  if (!number_parse_float(t->start, t->size, &value)) return out_of_range(l, dtype);
  dtype_store(dtype, data, i, (double)value);
  return RLX_OK;
}

static rlx_status parse_integer(const lexer *l, rlx_dtype dtype, void *data, int64_t i) {
  const token *t = &l->token;
  int64_t value;
  uint64_t wide;
  if (dtype == RLX_UINT64) {
    if (!number_parse_uint(t->start, t->size, &wide)) return out_of_range(l, dtype);
    ((uint64_t *)data)[i] = wide;
    return RLX_OK;
  }
  if (!number_parse_int(t->start, t->size, &value)) return out_of_range(l, dtype);
  if (dtype == RLX_BOOL) { /* any byte, so that what a kernel wrote reads back */
    if (value < 0 || value > UINT8_MAX) return out_of_range(l, dtype);
    ((uint8_t *)data)[i] = (uint8_t)value;
    return RLX_OK;
  }
  dtype_store_int(dtype, data, i, value);
  return dtype_load_int(dtype, data, i) == value ? RLX_OK : out_of_range(l, dtype);
}

static rlx_status parse_text(const lexer *l, rlx_tensor *t, arena *scratch, int64_t i) {
  char *string;
  size_t size;
  RLX_TRY(lexer_string(l, scratch, &string, &size));
  return rlx_tensor_set_string(t, i, string, size);
}

static rlx_status parse_element(const lexer *l, rlx_tensor *t, rlx_dtype dtype, arena *scratch, int64_t i) {
  if (dtype == RLX_STRING) return parse_text(l, t, scratch, i);
  bool word = lexer_is(l, "inf") || lexer_is(l, "nan");
  if (l->token.kind != TOKEN_INT && l->token.kind != TOKEN_FLOAT && !word) return lexer_unexpected(l, "a number");
  if (dtype_is_float(dtype)) return parse_float(l, dtype, t->data, i);
  return parse_integer(l, dtype, t->data, i);
}

/* Elements between the braces, without reading them: so that no memory is taken for what is not there. */
static int64_t count_elements(lexer l) {
  int64_t count = 0;
  lexer_next(&l);
  while (l.token.kind != TOKEN_SIGN && l.token.kind != TOKEN_END && l.token.kind != TOKEN_BAD) {
    count++;
    lexer_next(&l);
    if (!lexer_accept(&l, ",")) break;
  }
  return count;
}

static rlx_status parse_elements(lexer *l, rlx_tensor *t, rlx_dtype dtype, int64_t count, arena *scratch) {
  RLX_TRY(lexer_expect(l, "{"));
  for (int64_t i = 0; i < count; i++) {
    if (i) RLX_TRY(lexer_expect(l, ","));
    RLX_TRY(parse_element(l, t, dtype, scratch, i));
    lexer_next(l);
  }
  return lexer_expect(l, "}");
}

rlx_status tensor_parse_data(lexer *l, const rlx_type *type, arena *scratch, rlx_tensor **out) {
  char name[256];
  if (type->kind != RLX_KIND_TENSOR || !type_is_concrete(type))
    return lexer_fail(l, RLX_INVALID, "contents for %s, whose dims are not all known",
                      type_text(type, name, sizeof name));
  bool complex = is_complex(type->dtype);
  rlx_dtype dtype = type->dtype == RLX_COMPLEX64 ? RLX_FLOAT : complex ? RLX_DOUBLE : type->dtype;
  int64_t want = shape_count(type->rank, type->dims);
  int64_t found = count_elements(*l);
  if (want < 0 || found % (complex ? 2 : 1) || found / (complex ? 2 : 1) != want)
    return lexer_fail(l, RLX_INVALID, "%s has %" PRId64 " elements here", type_text(type, name, sizeof name), found);
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(type->dtype, type->rank, type->dims, &t);
  if (status != RLX_OK) return lexer_locate(l, status);
  status = parse_elements(l, t, dtype, found, scratch);
  if (status != RLX_OK) {
    rlx_tensor_destroy(t);
    return status;
  }
  *out = t;
  return RLX_OK;
}
