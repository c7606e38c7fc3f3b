/* npy_type.c — NumPy's type strings, and UTF-32 against UTF-8. */
#include "onnx/npy_type.h"

#include <string.h>

static const struct {
  const char *name; /* without byte order */
  rlx_dtype dtype;
  size_t size, unit;
} types[] = {
    {"f4", RLX_FLOAT, 4, 4},     {"f8", RLX_DOUBLE, 8, 8},       {"f2", RLX_FLOAT16, 2, 2}, {"i1", RLX_INT8, 1, 1},
    {"i2", RLX_INT16, 2, 2},     {"i4", RLX_INT32, 4, 4},        {"i8", RLX_INT64, 8, 8},   {"u1", RLX_UINT8, 1, 1},
    {"u2", RLX_UINT16, 2, 2},    {"u4", RLX_UINT32, 4, 4},       {"u8", RLX_UINT64, 8, 8},  {"b1", RLX_BOOL, 1, 1},
    {"c8", RLX_COMPLEX64, 8, 4}, {"c16", RLX_COMPLEX128, 16, 8},
};

static bool parse_string_type(const char *name, bool big_endian, npy_type *out) {
  size_t length = 0;
  if ((*name != 'U' && *name != 'S') || !name[1]) return false;
  for (const char *p = name + 1; *p; p++) {
    if (*p < '0' || *p > '9' || length > (1u << 26)) return false;
    length = length * 10 + (size_t)(*p - '0');
  }
  if (length == 0) return false; /* an element of no bytes: nothing would bound their number */
  bool unicode = *name == 'U';
  *out = (npy_type){RLX_STRING, unicode ? 4 * length : length, unicode ? 4 : 1, big_endian, unicode};
  return true;
}

rlx_status npy_type_parse(const char *descr, npy_type *out) {
  const char *name = descr;
  bool big_endian = *name == '>';
  if (*name && strchr("<>|=", *name)) name++;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(name, types[i].name) != 0) continue;
    *out = (npy_type){types[i].dtype, types[i].size, types[i].unit, big_endian, false};
    return RLX_OK;
  }
  if (parse_string_type(name, big_endian, out)) return RLX_OK;
  return RLX_FAIL(UNSUPPORTED, "npy: arrays of type '%s'", descr);
}

const char *npy_type_name(rlx_dtype dtype) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (types[i].dtype == dtype) return types[i].name;
  }
  return NULL;
}

static char *put_code_point(char *to, uint32_t c) {
  if (c < 0x80) {
    *to++ = (char)c;
    return to;
  }
  int rest = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (char)(lead[rest] | c >> (6 * rest));
  while (rest--) *to++ = (char)(0x80 | ((c >> (6 * rest)) & 0x3f));
  return to;
}

rlx_status npy_decode_string(const npy_type *type, const uint8_t *from, char *to, size_t *size) {
  size_t count = type->size / type->unit, unit = type->unit;
  static const uint8_t padding[4];
  while (count && memcmp(from + (count - 1) * unit, padding, unit) == 0) count--;
  if (!type->unicode) {
    memcpy(to, from, count);
    *size = count;
    return RLX_OK;
  }
  char *at = to;
  for (size_t i = 0; i < count; i++) {
    uint32_t c;
    memcpy(&c, from + i * 4, 4);
    if (type->big_endian) c = __builtin_bswap32(c);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return RLX_FAIL(INVALID, "npy: U+%X is no character", c);
    at = put_code_point(at, c);
  }
  *size = (size_t)(at - to);
  return RLX_OK;
}

/* One code point; 0 bytes used if it is not valid UTF-8. */
static size_t next_code_point(const uint8_t *s, size_t size, uint32_t *out) {
  if (s[0] < 0x80) {
    *out = s[0];
    return 1;
  }
  size_t rest = s[0] >= 0xf0 && s[0] < 0xf5 ? 3 : s[0] >= 0xe0 && s[0] < 0xf0 ? 2 : s[0] >= 0xc2 && s[0] < 0xe0 ? 1 : 0;
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (rest == 0 || rest >= size) return 0;
  uint32_t c = s[0] & (0x3fu >> rest);
  for (size_t i = 1; i <= rest; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (s[i] & 0x3fu);
  }
  if (c < least[rest] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
  *out = c;
  return rest + 1;
}

int64_t npy_count_code_points(const char *s, size_t size) {
  int64_t count = 0;
  uint32_t c;
  for (size_t i = 0, used; i < size; i += used, count++) {
    used = next_code_point((const uint8_t *)s + i, size - i, &c);
    if (used == 0) return -1;
  }
  return count;
}

size_t npy_encode_string(const char *s, size_t size, uint32_t *to) {
  size_t count = 0;
  for (size_t i = 0, used; i < size; i += used) {
    used = next_code_point((const uint8_t *)s + i, size - i, &to[count]);
    if (used == 0) break;
    count++;
  }
  return count;
}
