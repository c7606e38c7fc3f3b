/* dispatch.c — portable kernels while they run: what encode asks and sets, argument blocks, launches. */
#include "backend/gpu/frame.h"

rlx_status gpu_encode_portable(gpu_frame *f, gpu_list *list, int t) {
  (void)f;
  (void)list;
  (void)t;
  return RLX_FAIL(UNSUPPORTED, "portable kernels are not there yet");
}

rlx_status gpu_rewrite_arguments(gpu_frame *f) {
  (void)f;
  return RLX_OK;
}

void gpu_arguments_finish(gpu_frame *f) { (void)f; }
