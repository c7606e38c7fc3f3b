/* _image_plain.c — the image formats that need no library: BMP, and the portable formats PBM, PGM and PPM. Nothing in a
 * stream is trusted: every offset is held against its size. */
#include <string.h>

#include "ops/_image.h"

/* ---- BMP ---------------------------------------------------------------------------------- */

typedef struct bmp {
  const uint8_t *data;
  size_t size;
  size_t pixels;           /* offset */
  size_t palette;          /* offset */
  uint32_t colours, entry; /* of the palette: how many, bytes each */
  int64_t width, height;
  bool top_down;
  uint32_t bits, compression;
  uint32_t masks[3];
} bmp;

enum { BMP_PLAIN = 0, BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_MASKS = 3, BMP_ALPHA_MASKS = 6 };

static uint32_t read_16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t read_32(const uint8_t *p) { return read_16(p) | read_16(p + 2) << 16; }

static bool bmp_sizes(bmp *b, uint32_t header) {
  bool old = header == 12; /* BITMAPCOREHEADER */
  const uint8_t *p = b->data + 14;
  b->width = old ? (int64_t)read_16(p + 4) : (int64_t)(int32_t)read_32(p + 4);
  b->height = old ? (int64_t)read_16(p + 6) : (int64_t)(int32_t)read_32(p + 8);
  b->bits = read_16(p + (old ? 10 : 14));
  b->compression = old ? BMP_PLAIN : read_32(p + 16);
  b->top_down = b->height < 0;
  if (b->top_down) b->height = -b->height;
  b->entry = old ? 3 : 4;
  b->palette = 14 + header;
  b->colours = old ? 0 : read_32(p + 32);
  if (b->bits <= 8 && (b->colours == 0 || b->colours > 1u << b->bits)) b->colours = 1u << b->bits;
  return b->width > 0 && b->height > 0;
}

static bool bmp_header(bmp *b) {
  if (b->size < 26 || b->data[0] != 'B' || b->data[1] != 'M') return false;
  uint32_t header = read_32(b->data + 14);
  b->pixels = read_32(b->data + 10);
  if ((header != 12 && header < 40) || header > 1024 || b->size < 14 + (size_t)header || b->pixels > b->size ||
      !bmp_sizes(b, header))
    return false;
  static const uint32_t masks_16[] = {0x7c00, 0x03e0, 0x001f}, masks_32[] = {0xff0000, 0xff00, 0xff};
  memcpy(b->masks, b->bits == 16 ? masks_16 : masks_32, sizeof b->masks);
  if (b->compression == BMP_MASKS || b->compression == BMP_ALPHA_MASKS) {
    if (b->size < 14 + 40 + 12) return false; /* in a longer header, or right after the short one */
    for (int i = 0; i < 3; i++) b->masks[i] = read_32(b->data + 14 + 40 + 4 * i);
    b->compression = BMP_PLAIN;
  }
  if (b->bits <= 8 && b->palette + (size_t)b->colours * b->entry > b->size) return false;
  bool run_length = (b->compression == BMP_RLE8 && b->bits == 8) || (b->compression == BMP_RLE4 && b->bits == 4);
  bool depth = b->bits == 1 || b->bits == 4 || b->bits == 8 || b->bits == 16 || b->bits == 24 || b->bits == 32;
  return depth && (run_length || b->compression == BMP_PLAIN);
}

static uint8_t *bmp_pixel(const bmp *b, const image *out, int64_t row, int64_t column) {
  return out->pixels + ((b->top_down ? row : b->height - 1 - row) * b->width + column) * 3;
}

static void put_colour(const bmp *b, uint32_t index, uint8_t *to) {
  if (index >= b->colours) return;
  const uint8_t *from = b->data + b->palette + (size_t)index * b->entry;
  for (int i = 0; i < 3; i++) to[i] = from[2 - i];
}

/* The bits under a mask, spread over 8. */
static uint8_t masked(uint32_t value, uint32_t mask) {
  if (!mask) return 0;
  int shift = __builtin_ctz(mask);
  uint64_t most = mask >> shift, part = (value & mask) >> shift;
  return (uint8_t)((part * 255 + most / 2) / most);
}

static void put_row(const bmp *b, const image *out, int64_t row, const uint8_t *p) {
  for (int64_t x = 0; x < b->width; x++) {
    uint8_t *to = bmp_pixel(b, out, row, x);
    if (b->bits <= 8) {
      int64_t bit = x * b->bits;
      put_colour(b, (uint32_t)p[bit / 8] >> (8 - b->bits - bit % 8) & ((1u << b->bits) - 1), to);
    } else if (b->bits == 24) {
      for (int i = 0; i < 3; i++) to[i] = p[x * 3 + 2 - i];
    } else {
      uint32_t value = b->bits == 16 ? read_16(p + x * 2) : read_32(p + x * 4);
      for (int i = 0; i < 3; i++) to[i] = masked(value, b->masks[i]);
    }
  }
}

static image_result bmp_plain(const bmp *b, image *out) {
  uint64_t stride = ((uint64_t)b->width * b->bits + 31) / 32 * 4;
  if (stride > (b->size - b->pixels) / (uint64_t)b->height) return IMAGE_BROKEN;
  image_result result = image_create(b->height, b->width, out);
  for (int64_t row = 0; row < b->height && result == IMAGE_DECODED; row++)
    put_row(b, out, row, b->data + b->pixels + (uint64_t)row * stride);
  return result;
}

/* Runs of indices; what is passed over keeps black. */
static void run_lengths(const bmp *b, image *out) {
  const uint8_t *p = b->data + b->pixels, *end = b->data + b->size;
  int64_t row = 0, x = 0;
  uint32_t per = 8 / b->bits, mask = (1u << b->bits) - 1;
  while (end - p >= 2 && row < b->height) {
    uint32_t count = p[0], code = p[1];
    p += 2;
    if (count == 0 && code == 1) return;
    if (count == 0 && code == 0) {
      row++;
      x = 0;
    } else if (count == 0 && code == 2) {
      if (end - p < 2) return;
      x += p[0];
      row += p[1];
      p += 2;
    } else {
      uint32_t plain = count ? 0 : code, n = count ? count : code;
      size_t bytes = plain ? (plain + per - 1) / per : 0;
      if ((size_t)(end - p) < bytes) return;
      for (uint32_t i = 0; i < n && x < b->width; i++, x++) {
        uint32_t from = plain ? p[i / per] : code;
        put_colour(b, from >> (8 - b->bits - i % per * b->bits) & mask, bmp_pixel(b, out, row, x));
      }
      size_t padded = bytes + bytes % 2;
      p += padded < (size_t)(end - p) ? padded : (size_t)(end - p);
    }
  }
}

image_result image_bmp(const uint8_t *data, size_t size, image *out) {
  bmp b = {.data = data, .size = size};
  if (!bmp_header(&b)) return IMAGE_BROKEN;
  if (b.compression == BMP_PLAIN) return bmp_plain(&b, out);
  image_result result = image_create(b.height, b.width, out);
  if (result == IMAGE_DECODED) run_lengths(&b, out);
  return result;
}

/* ---- PBM, PGM, PPM ------------------------------------------------------------------------ */

typedef struct pnm {
  const uint8_t *at, *end;
} pnm;

/* A number after blanks and comments; -1 if there is none. */
static int64_t pnm_number(pnm *p) {
  while (p->at < p->end && (*p->at == '#' || *p->at <= ' ')) {
    bool comment = *p->at == '#';
    while (comment && p->at < p->end && *p->at != '\n') p->at++;
    if (p->at < p->end) p->at++;
  }
  int64_t value = -1;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9' && value < 1000000000; p->at++)
    value = (value < 0 ? 0 : value) * 10 + (*p->at - '0');
  return value;
}

/* PBM's digits may stand without blanks. */
static int64_t pnm_bit(pnm *p) {
  while (p->at < p->end && *p->at != '0' && *p->at != '1') p->at++;
  return p->at < p->end ? *p->at++ == '0' : -1; /* 1 is black */
}

static uint8_t scaled(int64_t value, int64_t most) {
  if (value > most) value = most;
  return (uint8_t)((value * 255 + most / 2) / most);
}

static bool pnm_text(pnm *p, const image *out, int kind, int64_t most) {
  int64_t channels = kind == 3 ? 3 : 1;
  for (int64_t i = 0; i < out->height * out->width * channels; i++) {
    int64_t value = kind == 1 ? pnm_bit(p) : pnm_number(p);
    if (value < 0) return false;
    uint8_t sample = scaled(value, most);
    if (channels == 3)
      out->pixels[i] = sample;
    else
      memset(out->pixels + i * 3, sample, 3);
  }
  return true;
}

static bool pnm_binary(const pnm *p, const image *out, int kind, int64_t most) {
  int64_t channels = kind == 6 ? 3 : 1, wide = most > 255 ? 2 : 1;
  int64_t stride = kind == 4 ? (out->width + 7) / 8 : out->width * channels * wide;
  if (p->end - p->at < stride * out->height) return false;
  for (int64_t y = 0; y < out->height; y++)
    for (int64_t x = 0; x < out->width * channels; x++) {
      const uint8_t *row = p->at + y * stride;
      int64_t value = kind == 4   ? !(row[x / 8] >> (7 - x % 8) & 1)
                      : wide == 2 ? row[2 * x] << 8 | row[2 * x + 1]
                                  : row[x];
      uint8_t sample = scaled(value, most);
      if (channels == 3)
        out->pixels[y * out->width * 3 + x] = sample;
      else
        memset(out->pixels + (y * out->width + x) * 3, sample, 3);
    }
  return true;
}

image_result image_pnm(const uint8_t *data, size_t size, image *out) {
  if (size < 3 || data[0] != 'P' || data[1] < '1' || data[1] > '6') return IMAGE_BROKEN;
  int kind = data[1] - '0';
  pnm p = {data + 2, data + size};
  int64_t width = pnm_number(&p), height = pnm_number(&p), most = kind == 1 || kind == 4 ? 1 : pnm_number(&p);
  if (most < 1 || most > 65535 || width <= 0 || height <= 0) return IMAGE_BROKEN;
  if (kind > 3) p.at += p.at < p.end;                              /* one blank */
  if (height > (int64_t)size * 8 / width + 8) return IMAGE_BROKEN; /* a pixel takes a bit or more */
  image_result result = image_create(height, width, out);
  if (result != IMAGE_DECODED) return result;
  return (kind > 3 ? pnm_binary(&p, out, kind, most) : pnm_text(&p, out, kind, most)) ? IMAGE_DECODED : IMAGE_BROKEN;
}
