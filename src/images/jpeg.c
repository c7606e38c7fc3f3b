/* jpeg.c — JPEG by libjpeg. */
#include <rlx/rlx.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "images/images.h"

/* libjpeg calls exit where it is not kept from it. */
typedef struct jpeg_failure {
  struct jpeg_error_mgr manager; /* first */
  jmp_buf out;
} jpeg_failure;

static void leave(j_common_ptr info) { longjmp(((jpeg_failure *)(void *)info->err)->out, 1); }
static void keep_silent(j_common_ptr info) { (void)info; }

/* Adobe writes CMYK inverted; the rest of the world follows. */
static void from_cmyk(const uint8_t *from, int64_t count, uint8_t *to) {
  for (int64_t i = 0; i < count; i++)
    for (int c = 0; c < 3; c++) to[i * 3 + c] = (uint8_t)((from[i * 4 + c] * from[i * 4 + 3] + 127) / 255);
}

static image_result read_rows(struct jpeg_decompress_struct *info, image *out, uint8_t *volatile *row) {
  bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  (void)jpeg_start_decompress(info);
  image_result result = image_create((int64_t)info->output_height, (int64_t)info->output_width, out);
  if (result != IMAGE_DECODED) return result;
  if (cmyk && !(*row = malloc((size_t)info->output_width * 4))) return IMAGE_NO_MEMORY;
  while (info->output_scanline < info->output_height) {
    uint8_t *to = out->pixels + (int64_t)info->output_scanline * out->width * 3;
    JSAMPROW rows[1] = {cmyk ? *row : to};
    (void)jpeg_read_scanlines(info, rows, 1);
    if (cmyk) from_cmyk(*row, out->width, to);
  }
  (void)jpeg_finish_decompress(info);
  return IMAGE_DECODED;
}

image_result image_jpeg(const uint8_t *data, size_t size, image *out) {
  struct jpeg_decompress_struct info = {0};
  jpeg_failure failure;
  uint8_t *volatile row = NULL;
  volatile image_result result = IMAGE_BROKEN;
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave;
  failure.manager.output_message = keep_silent;
  if (setjmp(failure.out)) {
    result = IMAGE_BROKEN;
  } else {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, data, (unsigned long)size);
    if (jpeg_read_header(&info, TRUE) == JPEG_HEADER_OK) {
      bool small = (int64_t)info.image_height <= IMAGE_MAX_PIXELS / ((int64_t)info.image_width + 1);
      result = small ? read_rows(&info, out, &row) : IMAGE_NO_MEMORY;
    }
  }
  jpeg_destroy_decompress(&info);
  free(row);
  return result;
}
