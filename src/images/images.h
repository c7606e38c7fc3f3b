/* images.h — the decoders of librlx-images.so. Each needs a library, and is built only where that was found. */
#ifndef IMAGES_IMAGES_H
#define IMAGES_IMAGES_H

#include "ops/_image.h"

image_decoder image_jpeg, image_png, image_webp, image_tiff, image_jpeg2000;

#endif
