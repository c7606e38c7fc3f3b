/* png.c — PNG by libpng: 8 bits a channel, without alpha, colours as they are stored. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "images/images.h"

typedef struct png_source {
  const uint8_t *at, *end;
} png_source;

static void read_bytes(png_structp png, png_bytep to, size_t size) {
  png_source *s = png_get_io_ptr(png);
  if ((size_t)(s->end - s->at) < size) png_error(png, "too short");
  memcpy(to, s->at, size);
  s->at += size;
}

static void leave(png_structp png, png_const_charp text) {
  (void)text;
  png_longjmp(png, 1);
}
static void keep_silent(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static image_result read_rows(png_structp png, png_infop info, image *out, uint8_t **volatile *rows) {
  png_read_info(png, info);
  image_result result =
      image_create((int64_t)png_get_image_height(png, info), (int64_t)png_get_image_width(png, info), out);
  if (result != IMAGE_DECODED) return result;
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  (void)png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != (size_t)out->width * 3) return IMAGE_BROKEN;
  *rows = malloc((size_t)out->height * sizeof **rows);
  if (!*rows) return IMAGE_NO_MEMORY;
  for (int64_t i = 0; i < out->height; i++) (*rows)[i] = out->pixels + i * out->width * 3;
  png_read_image(png, (png_bytepp)*rows);
  return IMAGE_DECODED;
}

image_result image_png(const uint8_t *data, size_t size, image *out) {
  png_source source = {data, data + size};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, leave, keep_silent);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  uint8_t **volatile rows = NULL;
  volatile image_result result = IMAGE_NO_MEMORY;
  if (info) {
    if (setjmp(png_jmpbuf(png))) {
      result = IMAGE_BROKEN;
    } else {
      png_set_user_limits(png, 1 << 24, 1 << 24);
      png_set_read_fn(png, &source, read_bytes);
      result = read_rows(png, info, out, &rows);
    }
  }
  png_destroy_read_struct(&png, &info, NULL);
  free(rows);
  return result;
}
