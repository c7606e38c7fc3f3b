/* tiff.c — TIFF by libtiff: the first image of a file. */
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "images/images.h"

typedef struct tiff_source {
  const uint8_t *data;
  uint64_t size, at;
} tiff_source;

static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t size) {
  tiff_source *s = handle;
  if (size < 0 || s->at >= s->size) return 0;
  uint64_t left = s->size - s->at, n = (uint64_t)size < left ? (uint64_t)size : left;
  memcpy(to, s->data + s->at, n);
  s->at += n;
  return (tmsize_t)n;
}

static tmsize_t write_bytes(thandle_t handle, void *from, tmsize_t size) {
  (void)handle;
  (void)from;
  (void)size;
  return 0;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence) {
  tiff_source *s = handle;
  s->at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? s->at + offset : s->size + offset;
  return s->at;
}

static toff_t size_of(thandle_t handle) { return ((tiff_source *)handle)->size; }
static int close_source(thandle_t handle) {
  (void)handle;
  return 0;
}

static image_result read_image(TIFF *tiff, image *out) {
  uint32_t width = 0, height = 0;
  if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) || !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height))
    return IMAGE_BROKEN;
  image_result result = image_create(height, width, out);
  if (result != IMAGE_DECODED) return result;
  size_t count = (size_t)(out->height * out->width);
  uint32_t *raster = malloc(count * sizeof *raster);
  if (!raster) return IMAGE_NO_MEMORY;
  if (!TIFFReadRGBAImageOriented(tiff, width, height, raster, ORIENTATION_TOPLEFT, 1)) result = IMAGE_BROKEN;
  for (size_t i = 0; i < count && result == IMAGE_DECODED; i++) {
    out->pixels[i * 3] = (uint8_t)TIFFGetR(raster[i]);
    out->pixels[i * 3 + 1] = (uint8_t)TIFFGetG(raster[i]);
    out->pixels[i * 3 + 2] = (uint8_t)TIFFGetB(raster[i]);
  }
  free(raster);
  return result;
}

image_result image_tiff(const uint8_t *data, size_t size, image *out) {
  tiff_source source = {data, size, 0};
  TIFFErrorHandler errors = TIFFSetErrorHandler(NULL), warnings = TIFFSetWarningHandler(NULL);
  TIFF *tiff = TIFFClientOpen("image", "rm", &source, read_bytes, write_bytes, seek, close_source, size_of, NULL, NULL);
  image_result result = tiff ? read_image(tiff, out) : IMAGE_BROKEN;
  if (tiff) TIFFClose(tiff);
  (void)TIFFSetErrorHandler(errors);
  (void)TIFFSetWarningHandler(warnings);
  return result;
}
