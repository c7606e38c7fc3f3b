/* image_decoder.c — onnx.ImageDecoder: an encoded image as pixels. */
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/_image.h"

typedef struct decoder_params {
  uint64_t given;
  rlx_string format;
} decoder_params;

typedef enum pixel_format { PIXELS_RGB, PIXELS_BGR, PIXELS_GREY } pixel_format;

static rlx_status parse_format(const void *ctx, rlx_string word, pixel_format *out) {
  static const char *const words[] = {"RGB", "BGR", "Grayscale"};
  for (int i = 0; i < 3; i++)
    if (word.size == strlen(words[i]) && memcmp(word.data, words[i], word.size) == 0) {
      *out = (pixel_format)i;
      return RLX_OK;
    }
  return rlx_fail(ctx, RLX_INVALID, "pixel_format '%.*s'", (int)(word.size < 40 ? word.size : 40), word.data);
}

static rlx_status infer(rlx_infer *ctx) {
  const decoder_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  pixel_format format = PIXELS_RGB;
  RLX_TRY(parse_format(ctx, p->format, &format));
  if (x->rank >= 0 && x->rank != 1) return rlx_fail(ctx, RLX_INVALID, "the stream has rank %d, not 1", x->rank);
  rlx_infer_set(ctx, 0, 3, (const int64_t[]){RLX_UNKNOWN, RLX_UNKNOWN, format == PIXELS_GREY ? 1 : 3});
  return RLX_OK;
}

/* ---- formats ------------------------------------------------------------------------------ */

/* What a stream begins with. `in_library` is the place of the decoder in image_library, for formats that need one. */
typedef struct image_format {
  const char *name, *needs;
  const char *magic;
  size_t size, at;
  image_decoder *own;
  size_t in_library;
} image_format;

#define LIBRARY(member) offsetof(image_library, member)
static const image_format formats[] = {
    {"BMP", NULL, "BM", 2, 0, image_bmp, 0},
    {"PNM", NULL, "P1", 2, 0, image_pnm, 0},
    {"PNM", NULL, "P2", 2, 0, image_pnm, 0},
    {"PNM", NULL, "P3", 2, 0, image_pnm, 0},
    {"PNM", NULL, "P4", 2, 0, image_pnm, 0},
    {"PNM", NULL, "P5", 2, 0, image_pnm, 0},
    {"PNM", NULL, "P6", 2, 0, image_pnm, 0},
    {"JPEG", "libjpeg", "\xff\xd8\xff", 3, 0, NULL, LIBRARY(jpeg)},
    {"PNG", "libpng", "\x89PNG", 4, 0, NULL, LIBRARY(png)},
    {"WebP", "libwebp", "WEBP", 4, 8, NULL, LIBRARY(webp)},
    {"TIFF", "libtiff", "II*\0", 4, 0, NULL, LIBRARY(tiff)},
    {"TIFF", "libtiff", "MM\0*", 4, 0, NULL, LIBRARY(tiff)},
    {"TIFF", "libtiff", "II+\0", 4, 0, NULL, LIBRARY(tiff)},
    {"TIFF", "libtiff", "MM\0+", 4, 0, NULL, LIBRARY(tiff)},
    {"JPEG 2000", "OpenJPEG", "jP  ", 4, 4, NULL, LIBRARY(jpeg2000)},
    {"JPEG 2000", "OpenJPEG", "\xff\x4f\xff\x51", 4, 0, NULL, LIBRARY(jpeg2000)},
};

static const image_format *find_format(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const image_format *f = &formats[i];
    if (size >= f->at + f->size && memcmp(data + f->at, f->magic, f->size) == 0) return f;
  }
  return NULL;
}

/* Beside librlx.so as built, or in rlx/ there as installed. */
static rlx_status find_library(char *path, size_t size) {
  char folder[PATH_MAX];
  if (!library_own_folder(folder, sizeof folder)) return RLX_FAIL(NOT_FOUND, "the folder of librlx.so is not known");
  static const char *const below[] = {"", "rlx/"};
  for (size_t i = 0; i < 2; i++) {
    int length = snprintf(path, size, "%s/%slibrlx-images.so", folder, below[i]);
    if (length > 0 && (size_t)length < size && access(path, R_OK) == 0) return RLX_OK;
  }
  return RLX_FAIL(NOT_FOUND, "it is neither in %s nor in rlx/ below it", folder);
}

/* Opened once and for good. */
static rlx_status open_library(const image_library **out) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const image_library *opened;
  char path[PATH_MAX];
  void *handle = NULL;
  pthread_mutex_lock(&lock);
  rlx_status status = opened ? RLX_OK : find_library(path, sizeof path);
  if (status == RLX_OK && !opened) status = library_open(path, &handle);
  if (status == RLX_OK && !opened) {
    const image_library *found = library_symbol(handle, "rlx_image_library");
    if (found && found->version == IMAGE_LIBRARY_VERSION) opened = found;
    if (!opened) status = RLX_FAIL(INVALID, "%s is no library of image decoders of this version", path);
  }
  *out = opened;
  pthread_mutex_unlock(&lock);
  return status;
}

static rlx_status find_decoder(rlx_ctx *ctx, const image_format *f, image_decoder **out) {
  const image_library *library;
  *out = f->own;
  if (f->own) return RLX_OK;
  rlx_status status = open_library(&library);
  if (status != RLX_OK)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "%s needs librlx-images.so with %s: %s", f->name, f->needs,
                    rlx_error_message());
  memcpy(out, (const char *)library + f->in_library, sizeof *out);
  if (*out) return RLX_OK;
  return rlx_fail(ctx, RLX_UNSUPPORTED, "%s needs %s, which librlx-images.so was built without", f->name, f->needs);
}

/* ---- pixels ------------------------------------------------------------------------------- */

static rlx_status give_pixels(rlx_ctx *ctx, const image *from, pixel_format format) {
  int64_t channels = format == PIXELS_GREY ? 1 : 3, count = from->height * from->width;
  uint8_t *to = rlx_output_shape(ctx, 0, 3, (const int64_t[]){from->height, from->width, channels});
  if (!to) return RLX_KERNEL;
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *p = from->pixels + i * 3;
    if (format == PIXELS_GREY) /* ITU-R 601-2 luma, in 16 bits of fraction, rounded */
      to[i] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
    else
      for (int c = 0; c < 3; c++) to[i * 3 + c] = p[format == PIXELS_BGR ? 2 - c : c];
  }
  return RLX_OK;
}

/* ONNX: what cannot be decoded gives an empty matrix. */
static rlx_status eval(rlx_ctx *ctx) {
  const decoder_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  image decoded = {.allocate = mem_zalloc};
  pixel_format format = PIXELS_RGB;
  image_decoder *decoder;
  RLX_TRY(parse_format(ctx, p->format, &format));
  const image_format *f = x->count ? find_format(x->data, (size_t)x->count) : NULL;
  if (!f) return give_pixels(ctx, &(image){0}, format);
  RLX_TRY(find_decoder(ctx, f, &decoder));
  image_result result = decoder(x->data, (size_t)x->count, &decoded);
  rlx_status status = result == IMAGE_NO_MEMORY
                          ? rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for the pixels of a %s image", f->name)
                          : give_pixels(ctx, result == IMAGE_DECODED ? &decoded : &(image){0}, format);
  mem_free(decoded.pixels);
  return status;
}

static const rlx_op decoder = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ImageDecoder",
    .version = 20,
    .doc = "The pixels of an encoded image, as height, width, channels; nothing of what cannot be decoded. BMP and PNM "
           "are "
           "decoded here, JPEG, PNG, WebP, TIFF and JPEG 2000 by librlx-images.so.",
    .inputs = (const rlx_port[]){{.name = "encoded_stream", .dtypes = RLX_SET(RLX_UINT8)}, {0}},
    .outputs = (const rlx_port[]){{.name = "image", .dtypes = RLX_SET(RLX_UINT8)}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "pixel_format",
                                     .kind = RLX_ATTR_STRING,
                                     .offset = offsetof(decoder_params, format),
                                     .default_string = "RGB"},
                                    {0}},
    .params_size = sizeof(decoder_params),
    .traits = RLX_PURE,
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_image_decoder = {.ops = (const rlx_op *const[]){&decoder, NULL}};
