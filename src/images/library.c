/* library.c — what librlx-images.so exports: the decoders that this build has. */
#include <rlx/rlx.h>

#include "images/images.h"

RLX_API extern const image_library rlx_image_library;
const image_library rlx_image_library = {
    .version = IMAGE_LIBRARY_VERSION,
#ifdef RLX_HAVE_JPEG
    .jpeg = image_jpeg,
#endif
#ifdef RLX_HAVE_PNG
    .png = image_png,
#endif
#ifdef RLX_HAVE_WEBP
    .webp = image_webp,
#endif
#ifdef RLX_HAVE_TIFF
    .tiff = image_tiff,
#endif
#ifdef RLX_HAVE_JPEG2000
    .jpeg2000 = image_jpeg2000,
#endif
};
