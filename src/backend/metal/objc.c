/* objc.c — opens the Objective-C runtime and Metal, and calls methods. */
#include "backend/metal/objc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "base/options.h"
#include "base/status.h"

/* Of libobjc; names and types are the runtime's. object_getClass is inline in GNU's and then missing here. */
static struct {
  objc_id (*objc_getClass)(const char *name);
  objc_sel (*sel_registerName)(const char *name);
  objc_imp (*class_getMethodImplementation)(objc_id class, objc_sel selector);
  signed char (*class_respondsToSelector)(objc_id class, objc_sel selector);
  objc_id (*objc_allocateClassPair)(objc_id super, const char *name, size_t extra);
  void (*objc_registerClassPair)(objc_id class);
  signed char (*class_addMethod)(objc_id class, objc_sel selector, objc_imp imp, const char *types);
  const char *(*class_getName)(objc_id class);
  objc_id (*object_getClass)(objc_id object);
  objc_id (*object_setClass)(objc_id object, objc_id class);
  objc_id (*MTLCreateSystemDefaultDevice)(void);
} runtime;

static objc_sel selectors[MESSAGE_COUNT];
static rlx_status opened;
static char reason[256];

static const struct {
  const char *text;
  objc_holder holder;
} messages[MESSAGE_COUNT] = {
#define SELECTOR(id, text, holder) {text, HOLDER_##holder},
#include "backend/metal/selectors.def"
#undef SELECTOR
};

/* Which libraries to open, in order; the last ones may be needed for their side effects alone: without CoreGraphics a
 * command-line program has no default device. */
#ifdef __APPLE__
static const char *const libraries[] = {"/usr/lib/libobjc.A.dylib",
                                        "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
                                        "/System/Library/Frameworks/Foundation.framework/Foundation",
                                        "/System/Library/Frameworks/Metal.framework/Metal", NULL};
#else
static const char *const libraries[] = {NULL};
#endif

typedef void (*symbol)(void);

/* Symbol by symbol, from whichever of the open libraries has it. */
static bool find(void *const *handles, int count, const char *name, symbol *to) {
  void *found = NULL;
  for (int i = 0; i < count && !found; i++) found = library_symbol(handles[i], name);
  memcpy(to, &found, sizeof found);
  return found;
}

static rlx_status load_symbols(void *const *handles, int count) {
#define NEED(name) \
  if (!find(handles, count, #name, (symbol *)&runtime.name)) return RLX_FAIL(DEVICE, "Metal: %s is missing", #name)
  NEED(objc_getClass);
  NEED(sel_registerName);
  NEED(class_getMethodImplementation);
  NEED(class_respondsToSelector);
  NEED(objc_allocateClassPair);
  NEED(objc_registerClassPair);
  NEED(class_addMethod);
  NEED(class_getName);
  NEED(object_setClass);
  NEED(MTLCreateSystemDefaultDevice);
#undef NEED
  (void)find(handles, count, "object_getClass", (symbol *)&runtime.object_getClass);
  for (int i = 0; i < MESSAGE_COUNT; i++) selectors[i] = runtime.sel_registerName(messages[i].text);
  return RLX_OK;
}

static rlx_status open_libraries(void) {
  enum { MOST = 8 };
  void *handles[MOST];
  int count = 0;
  const char *own = option_get(OPTION_METAL_LIBRARY);
  if (own && *own) {
    RLX_TRY(library_open(own, &handles[count++]));
  } else {
    for (const char *const *path = libraries; *path && count < MOST; path++)
      RLX_TRY(library_open(*path, &handles[count++]));
    if (!count)
      return RLX_FAIL(DEVICE, "Metal is part of macOS; here RLX_METAL_LIBRARY may name a library that stands in");
  }
  return load_symbols(handles, count);
}

static void open_once(void) {
  opened = open_libraries();
  if (opened != RLX_OK) snprintf(reason, sizeof reason, "%s", rlx_error_message());
}

rlx_status objc_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_once);
  return opened == RLX_OK ? RLX_OK : RLX_FAIL(DEVICE, "%s", reason);
}

objc_id objc_default_device(void) { return runtime.MTLCreateSystemDefaultDevice(); }
objc_id objc_class(const char *name) { return runtime.objc_getClass(name); }
objc_sel objc_selector(objc_message m) { return selectors[m]; }
const char *objc_selector_text(objc_message m) { return messages[m].text; }

objc_id objc_isa(objc_id object) {
  if (runtime.object_getClass) return runtime.object_getClass(object);
  objc_id isa;
  memcpy(&isa, object, sizeof isa);
  return isa;
}

void objc_set_isa(objc_id object, objc_id class) { (void)runtime.object_setClass(object, class); }

objc_imp objc_method(objc_id object, objc_message m) {
  return runtime.class_getMethodImplementation(objc_isa(object), selectors[m]);
}

rlx_status objc_check(objc_id object, objc_holder holder) {
  for (int i = 0; i < MESSAGE_COUNT; i++) {
    if (messages[i].holder != holder) continue;
    if (!object) return RLX_FAIL(DEVICE, "Metal: no object that would answer to '%s'", messages[i].text);
    if (!runtime.class_respondsToSelector(objc_isa(object), selectors[i]))
      return RLX_FAIL(DEVICE, "Metal: %s does not answer to '%s'", runtime.class_getName(objc_isa(object)),
                      messages[i].text);
  }
  return RLX_OK;
}

objc_id objc_subclass(objc_id object, const char *suffix, const objc_override *overrides, int count) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  objc_id super = objc_isa(object);
  char name[200];
  snprintf(name, sizeof name, "%s_%s", runtime.class_getName(super), suffix);
  pthread_mutex_lock(&lock);
  objc_id class = runtime.objc_getClass(name);
  if (!class && (class = runtime.objc_allocateClassPair(super, name, 0))) {
    for (int i = 0; i < count; i++)
      (void)runtime.class_addMethod(class, selectors[overrides[i].message], overrides[i].implementation,
                                    overrides[i].types);
    runtime.objc_registerClassPair(class);
  }
  pthread_mutex_unlock(&lock);
  return class;
}

objc_id objc_pool_open(void) { return send_id(objc_class("NSAutoreleasePool"), MESSAGE_NEW); }
void objc_pool_close(objc_id pool) { send_void(pool, MESSAGE_DRAIN); }

objc_id objc_string(const char *utf8) {
  objc_id class = objc_class("NSString");
  return ((objc_id(*)(objc_id, objc_sel, const char *))objc_method(class, MESSAGE_STRING))(
      class, selectors[MESSAGE_STRING], utf8);
}

/* ---- calls -------------------------------------------------------------------------------- */

#define IMPLEMENTATION(type) ((type)objc_method(o, m))

objc_id send_id(objc_id o, objc_message m) {
  return o ? IMPLEMENTATION(objc_id(*)(objc_id, objc_sel))(o, selectors[m]) : NULL;
}
void send_void(objc_id o, objc_message m) {
  if (o) IMPLEMENTATION(void (*)(objc_id, objc_sel))(o, selectors[m]);
}
bool send_bool(objc_id o, objc_message m) {
  return o && IMPLEMENTATION(signed char (*)(objc_id, objc_sel))(o, selectors[m]) != 0;
}
unsigned long send_word(objc_id o, objc_message m) {
  return o ? IMPLEMENTATION(unsigned long (*)(objc_id, objc_sel))(o, selectors[m]) : 0;
}
const char *send_text(objc_id o, objc_message m) {
  return o ? IMPLEMENTATION(const char *(*)(objc_id, objc_sel))(o, selectors[m]) : NULL;
}
void *send_pointer(objc_id o, objc_message m) {
  return o ? IMPLEMENTATION(void *(*)(objc_id, objc_sel))(o, selectors[m]) : NULL;
}
objc_id send_id_word(objc_id o, objc_message m, unsigned long a) {
  return o ? IMPLEMENTATION(objc_id(*)(objc_id, objc_sel, unsigned long))(o, selectors[m], a) : NULL;
}
objc_id send_id_words(objc_id o, objc_message m, unsigned long a, unsigned long b) {
  return o ? IMPLEMENTATION(objc_id(*)(objc_id, objc_sel, unsigned long, unsigned long))(o, selectors[m], a, b) : NULL;
}
objc_id send_id_id(objc_id o, objc_message m, objc_id a) {
  return o ? IMPLEMENTATION(objc_id(*)(objc_id, objc_sel, objc_id))(o, selectors[m], a) : NULL;
}
void send_void_id(objc_id o, objc_message m, objc_id a) {
  if (o) IMPLEMENTATION(void (*)(objc_id, objc_sel, objc_id))(o, selectors[m], a);
}
void send_void_bool(objc_id o, objc_message m, bool a) {
  if (o) IMPLEMENTATION(void (*)(objc_id, objc_sel, signed char))(o, selectors[m], (signed char)a);
}
void send_void_word(objc_id o, objc_message m, unsigned long a) {
  if (o) IMPLEMENTATION(void (*)(objc_id, objc_sel, unsigned long))(o, selectors[m], a);
}
void send_void_id_word(objc_id o, objc_message m, objc_id a, unsigned long b) {
  if (o) IMPLEMENTATION(void (*)(objc_id, objc_sel, objc_id, unsigned long))(o, selectors[m], a, b);
}
void send_void_id_words(objc_id o, objc_message m, objc_id a, unsigned long b, unsigned long c) {
  if (o) IMPLEMENTATION(void (*)(objc_id, objc_sel, objc_id, unsigned long, unsigned long))(o, selectors[m], a, b, c);
}
