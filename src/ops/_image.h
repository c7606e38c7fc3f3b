/* _image.h — decoded images, and the library of decoders that onnx.ImageDecoder opens when it needs one: its
 * dependencies are many, and most programs load none of them. */
#ifndef OPS_IMAGE_H
#define OPS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows from the top, red, green, blue. The caller says how pixels are allocated, zeroed, and frees them, also after a
 * failure. */
typedef struct image {
  uint8_t *pixels;
  int64_t height, width;
  void *(*allocate)(size_t bytes);
} image;

/* How decoding ended. */
typedef enum image_result {
  IMAGE_DECODED = 0,
  IMAGE_BROKEN = 1,   /* the stream is not valid, or uses something that nobody here decodes */
  IMAGE_NO_MEMORY = 2 /* also: past IMAGE_MAX_PIXELS */
} image_result;

#define IMAGE_MAX_PIXELS (INT64_C(1) << 30)

typedef image_result image_decoder(const uint8_t *data, size_t size, image *out);

/* A library of decoders, librlx-images.so, exports `const image_library rlx_image_library`. */
typedef struct image_library {
  uint32_t version; /* IMAGE_LIBRARY_VERSION */
  /* NULL: built without the library that the format needs. */
  image_decoder *jpeg, *png, *webp, *tiff, *jpeg2000;
} image_library;
enum { IMAGE_LIBRARY_VERSION = 1 };

/* Formats that need no library. */
image_decoder image_bmp, image_pnm;

/* Room for height × width pixels, once; IMAGE_BROKEN for extents that are not positive. */
static inline image_result image_create(int64_t height, int64_t width, image *out) {
  if (height <= 0 || width <= 0) return IMAGE_BROKEN;
  if (height > IMAGE_MAX_PIXELS / width) return IMAGE_NO_MEMORY;
  out->pixels = out->allocate((size_t)(height * width) * 3);
  out->height = height;
  out->width = width;
  return out->pixels ? IMAGE_DECODED : IMAGE_NO_MEMORY;
}

#endif
