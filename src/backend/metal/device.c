/* device.c — opens the device; its buffers and compiled kernels. */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/render.h"
#include "backend/metal/metal.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"

enum { STORAGE_SHARED = 0, STORAGE_PRIVATE = 32 }; /* MTLResourceOptions */

static metal_device *device_of(gpu_device *head) { return (metal_device *)head; }

/* ---- opening ------------------------------------------------------------------------------ */

/* Everything that this backend will send is sent to somebody who answers: a missing selector would crash later. */
static rlx_status check_selectors(metal_device *d) {
  RLX_TRY(objc_check(objc_class("NSString"), HOLDER_STRING_CLASS));
  RLX_TRY(objc_check(objc_string("rlx"), HOLDER_STRING));
  RLX_TRY(objc_check(d->device, HOLDER_DEVICE));
  RLX_TRY(objc_check(d->queue, HOLDER_QUEUE));
  RLX_TRY(objc_check(d->event, HOLDER_EVENT));
  objc_id options = send_id(objc_class("MTLCompileOptions"), MESSAGE_NEW);
  objc_id buffer = send_id_words(d->device, MESSAGE_NEW_BUFFER, 256, STORAGE_SHARED);
  objc_id commands = send_id(d->queue, MESSAGE_COMMAND_BUFFER);
  objc_id encoder = send_id_word(commands, MESSAGE_COMPUTE, 1), blit = NULL;
  rlx_status status = objc_check(options, HOLDER_OPTIONS);
  if (status == RLX_OK) status = objc_check(buffer, HOLDER_BUFFER);
  if (status == RLX_OK) status = objc_check(commands, HOLDER_COMMANDS);
  if (status == RLX_OK) status = objc_check(encoder, HOLDER_ENCODER);
  send_void(encoder, MESSAGE_END);
  blit = send_id(commands, MESSAGE_BLIT);
  if (status == RLX_OK) status = objc_check(blit, HOLDER_BLIT);
  send_void(blit, MESSAGE_END);
  objc_release(options);
  objc_release(buffer);
  return status;
}

static rlx_status open_objects(metal_device *d) {
  d->device = objc_default_device();
  if (!d->device) return RLX_FAIL(DEVICE, "Metal: the system has no device");
  d->queue = send_id(d->device, MESSAGE_NEW_QUEUE);
  d->event = send_id(d->device, MESSAGE_NEW_EVENT);
  if (!d->queue || !d->event) return RLX_FAIL(DEVICE, "Metal: no command queue or no shared event");
  RLX_TRY(check_selectors(d));
  d->largest = send_word(d->device, MESSAGE_MAX_BUFFER);
  const char *name = send_text(send_id(d->device, MESSAGE_NAME), MESSAGE_UTF8);
  snprintf(d->head.name, sizeof d->head.name, "%s", name ? name : "Metal");
  return RLX_OK;
}

rlx_status metal_open(int index, const gpu_open_options *options, gpu_device **out) {
  RLX_TRY(objc_open());
  if (index != 0) return RLX_FAIL(DEVICE, "Metal: device %d: only the system's default device is used", index);
  metal_device *d = mem_zalloc(sizeof *d);
  if (!d) return status_no_memory(sizeof *d);
  pthread_mutex_init(&d->lock, NULL);
  d->debug = options->debug != 0;
  d->hidden = options->discrete;
  d->head.unified = !options->discrete;
  objc_id pool = objc_pool_open();
  rlx_status status = open_objects(d);
  objc_pool_close(pool);
  if (status != RLX_OK) {
    metal_close(&d->head);
    return status;
  }
  *out = &d->head;
  return RLX_OK;
}

static void pipelines_close(metal_device *d) {
  size_t at = 0;
  for (metal_pipeline *p; (p = map_next(&d->pipelines, &at, NULL));)
    for (metal_pipeline *next; p; p = next) {
      next = p->next;
      objc_release(p->state);
      mem_free(p->source);
      mem_free(p->entry);
      mem_free(p);
    }
  map_finish(&d->pipelines);
}

void metal_close(gpu_device *head) {
  metal_device *d = device_of(head);
  for (size_t i = 0; i < d->pending.count; i++) objc_release(d->pending.data[i].commands);
  vector_finish(&d->pending);
  pipelines_close(d);
  objc_release(d->event);
  objc_release(d->queue);
  objc_release(d->device);
  pthread_mutex_destroy(&d->lock);
  mem_free(d);
}

/* ---- memory ------------------------------------------------------------------------------- */

rlx_status metal_buffer_create(gpu_device *head, gpu_memory_kind kind, int64_t bytes, gpu_buffer *out) {
  metal_device *d = device_of(head);
  bool hidden = d->hidden && kind == GPU_MEMORY_DEVICE;
  if (bytes <= 0 || (uint64_t)bytes > d->largest)
    return RLX_FAIL(OUT_OF_MEMORY, "Metal: a buffer of %lld bytes, the device allows %lu", (long long)bytes,
                    d->largest);
  objc_id b =
      send_id_words(d->device, MESSAGE_NEW_BUFFER, (unsigned long)bytes, hidden ? STORAGE_PRIVATE : STORAGE_SHARED);
  if (!b) return RLX_FAIL(OUT_OF_MEMORY, "Metal: the device has no memory for %lld bytes", (long long)bytes);
  *out = (gpu_buffer){.native = b,
                      .host = hidden ? NULL : send_pointer(b, MESSAGE_CONTENTS),
                      .address = send_word(b, MESSAGE_GPU_ADDRESS),
                      .bytes = bytes};
  return RLX_OK;
}

void metal_buffer_destroy(gpu_device *head, gpu_buffer *b) {
  (void)head;
  objc_release(b->native);
  *b = (gpu_buffer){0};
}

/* ---- kernels ------------------------------------------------------------------------------ */

static rlx_status compile_failed(const char *what, const char *entry, objc_id error) {
  const char *log = send_text(send_id(error, MESSAGE_DESCRIPTION), MESSAGE_UTF8);
  return RLX_FAIL(KERNEL, "Metal: %s of '%s' failed: %s", what, entry, log ? log : "no reason was given");
}

typedef objc_id (*new_library)(objc_id self, objc_sel selector, objc_id source, objc_id options, objc_id *error);
typedef objc_id (*new_pipeline)(objc_id self, objc_sel selector, objc_id function, objc_id *error);

static rlx_status compile(metal_device *d, const char *source, const char *entry, objc_id *state) {
  objc_id options = send_id(objc_class("MTLCompileOptions"), MESSAGE_NEW), error = NULL;
  send_void_bool(options, MESSAGE_FAST_MATH, false); /* NaN, infinities and signed zeros count */
  objc_id library = ((new_library)objc_method(d->device, MESSAGE_NEW_LIBRARY))(
      d->device, objc_selector(MESSAGE_NEW_LIBRARY), objc_string(source), options, &error);
  objc_release(options);
  if (!library) return compile_failed("compiling", entry, error);
  objc_id function = send_id_id(library, MESSAGE_NEW_FUNCTION, objc_string(entry));
  objc_release(library);
  if (!function) return RLX_FAIL(KERNEL, "Metal: the text has no kernel '%s'", entry);
  *state = ((new_pipeline)objc_method(d->device, MESSAGE_NEW_PIPELINE))(d->device, objc_selector(MESSAGE_NEW_PIPELINE),
                                                                        function, &error);
  objc_release(function);
  return *state ? RLX_OK : compile_failed("making the pipeline", entry, error);
}

static metal_pipeline *find(const metal_device *d, uint64_t key, const char *source, const char *entry) {
  metal_pipeline *p = map_get_bytes(&d->pipelines, &key, sizeof key);
  while (p && (strcmp(p->source, source) != 0 || strcmp(p->entry, entry) != 0)) p = p->next;
  return p;
}

static rlx_status add(metal_device *d, uint64_t key, const char *source, const char *entry, metal_pipeline **out) {
  metal_pipeline *p = mem_zalloc(sizeof *p);
  if (!p) return status_no_memory(sizeof *p);
  p->source = mem_strdup(source);
  p->entry = mem_strdup(entry);
  rlx_status status = p->source && p->entry ? compile(d, source, entry, &p->state) : status_no_memory(strlen(source));
  if (status == RLX_OK) {
    p->next = map_get_bytes(&d->pipelines, &key, sizeof key);
    if (!map_put_bytes(&d->pipelines, &key, sizeof key, p)) status = status_no_memory(sizeof *p);
  }
  if (status != RLX_OK) {
    objc_release(p->state);
    mem_free(p->source);
    mem_free(p->entry);
    mem_free(p);
    return status;
  }
  *out = p;
  return RLX_OK;
}

rlx_status metal_pipeline_get(metal_device *d, const char *source, const char *entry, objc_id *state) {
  uint64_t key = hash_bytes(source, strlen(source), hash_bytes(entry, strlen(entry), 0));
  objc_id pool = objc_pool_open();
  pthread_mutex_lock(&d->lock); /* while compiling: a text is compiled once */
  metal_pipeline *p = find(d, key, source, entry);
  rlx_status status = p ? RLX_OK : add(d, key, source, entry, &p);
  pthread_mutex_unlock(&d->lock);
  objc_pool_close(pool);
  if (status == RLX_OK) *state = p->state;
  return status;
}

rlx_status metal_kernel_create(gpu_device *head, const gpu_source *source, void **kernel) {
  metal_device *d = device_of(head);
  const gpu_target target = {.dialect = GPU_MSL, .subgroup = 32, .float_controls = true};
  uint32_t size[3];
  text msl = {0};
  gpu_workgroup(source->function, size);
  metal_kernel *k = mem_zalloc(sizeof *k);
  rlx_status status = k ? gpu_render(source->function, source->node, &target, &msl) : status_no_memory(sizeof *k);
  if (status == RLX_OK && (msl.failed || !msl.data)) status = status_no_memory(msl.size);
  if (status == RLX_OK) status = metal_pipeline_get(d, msl.data, source->function->name, &k->state);
  text_finish(&msl);
  if (status == RLX_OK) {
    k->threads = (objc_size){size[0], size[1], size[2]};
    unsigned long most = send_word(k->state, MESSAGE_MAX_THREADS),
                  wanted = k->threads.width * k->threads.height * k->threads.depth;
    if (wanted > most)
      status = RLX_FAIL(UNSUPPORTED, "Metal: '%s' wants %lu threads a group, the device allows %lu",
                        source->function->name, wanted, most);
  }
  if (status != RLX_OK) {
    mem_free(k);
    return status;
  }
  *kernel = k;
  return RLX_OK;
}

void metal_kernel_destroy(gpu_device *head, void *kernel) {
  (void)head;
  mem_free(kernel);
}
