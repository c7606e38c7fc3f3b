/* webp.c — WebP by libwebp. */
#include <webp/decode.h>

#include "images/images.h"

image_result image_webp(const uint8_t *data, size_t size, image *out) {
  int width, height;
  if (!WebPGetInfo(data, size, &width, &height)) return IMAGE_BROKEN;
  image_result result = image_create(height, width, out);
  if (result != IMAGE_DECODED) return result;
  size_t bytes = (size_t)(out->height * out->width) * 3;
  return WebPDecodeRGBInto(data, size, out->pixels, bytes, width * 3) ? IMAGE_DECODED : IMAGE_BROKEN;
}
