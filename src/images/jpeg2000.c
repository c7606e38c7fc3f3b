/* jpeg2000.c — JPEG 2000 by OpenJPEG: a file (JP2) or a bare codestream; grey, RGB or YCC, any depth scaled to 8 bits.
 */
#include <string.h>

#include <openjpeg.h>

#include "images/images.h"

typedef struct stream_source {
  const uint8_t *data;
  size_t size, at;
} stream_source;

static OPJ_SIZE_T read_bytes(void *to, OPJ_SIZE_T size, void *user) {
  stream_source *s = user;
  size_t left = s->size - s->at, n = size < left ? size : left;
  if (!n) return (OPJ_SIZE_T)-1;
  memcpy(to, s->data + s->at, n);
  s->at += n;
  return n;
}

static OPJ_OFF_T skip_bytes(OPJ_OFF_T count, void *user) {
  stream_source *s = user;
  if (count < 0 || (uint64_t)count > s->size - s->at) return -1;
  s->at += (size_t)count;
  return count;
}

static OPJ_BOOL seek(OPJ_OFF_T offset, void *user) {
  stream_source *s = user;
  if (offset < 0 || (uint64_t)offset > s->size) return OPJ_FALSE;
  s->at = (size_t)offset;
  return OPJ_TRUE;
}

static uint8_t sample(const opj_image_comp_t *c, int64_t x, int64_t y, int64_t height, int64_t width) {
  int64_t column = x * (int64_t)c->w / width, row = y * (int64_t)c->h / height;
  int64_t value = c->data[row * (int64_t)c->w + column];
  if (c->sgnd) value += INT64_C(1) << (c->prec - 1);
  if (c->prec > 8) value >>= c->prec - 8;
  if (c->prec < 8) value = value * 255 / ((1 << c->prec) - 1);
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static uint8_t clamped(double v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5); }

static void from_ycc(uint8_t *p) {
  double y = p[0], cb = p[1] - 128.0, cr = p[2] - 128.0;
  p[0] = clamped(y + 1.402 * cr);
  p[1] = clamped(y - 0.344136 * cb - 0.714136 * cr);
  p[2] = clamped(y + 1.772 * cb);
}

static image_result take_pixels(const opj_image_t *from, image *out) {
  if (!from->numcomps) return IMAGE_BROKEN;
  int64_t height = (int64_t)from->y1 - from->y0, width = (int64_t)from->x1 - from->x0;
  int colours = from->numcomps >= 3 ? 3 : 1;
  for (int c = 0; c < colours; c++)
    if (!from->comps[c].data || !from->comps[c].w || !from->comps[c].h || from->comps[c].prec > 31 ||
        from->comps[c].prec < 1)
      return IMAGE_BROKEN;
  image_result result = image_create(height, width, out);
  if (result != IMAGE_DECODED) return result;
  bool ycc = from->color_space == OPJ_CLRSPC_SYCC && colours == 3;
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++) {
      uint8_t *to = out->pixels + (y * width + x) * 3;
      for (int c = 0; c < 3; c++) to[c] = sample(&from->comps[colours == 3 ? c : 0], x, y, height, width);
      if (ycc) from_ycc(to);
    }
  return IMAGE_DECODED;
}

static image_result decode(opj_codec_t *codec, opj_stream_t *stream, image *out) {
  opj_dparameters_t parameters;
  opj_image_t *made = NULL;
  opj_set_default_decoder_parameters(&parameters);
  image_result result = IMAGE_BROKEN;
  if (opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, &made)) {
    int64_t height = (int64_t)made->y1 - made->y0, width = (int64_t)made->x1 - made->x0;
    bool small = width > 0 && height > 0 && height <= IMAGE_MAX_PIXELS / width;
    result = small ? IMAGE_BROKEN : IMAGE_NO_MEMORY;
    if (small && opj_decode(codec, stream, made) && opj_end_decompress(codec, stream)) result = take_pixels(made, out);
  }
  opj_image_destroy(made);
  return result;
}

image_result image_jpeg2000(const uint8_t *data, size_t size, image *out) {
  stream_source source = {data, size, 0};
  bool bare = size > 1 && data[0] == 0xff && data[1] == 0x4f;
  opj_codec_t *codec = opj_create_decompress(bare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
  opj_stream_t *stream = opj_stream_default_create(OPJ_TRUE);
  image_result result = IMAGE_NO_MEMORY;
  if (codec && stream) {
    opj_stream_set_user_data(stream, &source, NULL);
    opj_stream_set_user_data_length(stream, size);
    opj_stream_set_read_function(stream, read_bytes);
    opj_stream_set_skip_function(stream, skip_bytes);
    opj_stream_set_seek_function(stream, seek);
    result = decode(codec, stream, out);
  }
  if (stream) opj_stream_destroy(stream);
  if (codec) opj_destroy_codec(codec);
  return result;
}
