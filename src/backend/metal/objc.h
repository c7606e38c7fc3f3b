/* objc.h — Objective-C from C: the runtime opened at run time, and typed calls of the methods in selectors.def.
 *
 * Every method is called through its implementation, cast to its exact type: never through a variadic prototype, whose
 * arguments arm64 would pass elsewhere. A message to nil gives zero, as in Objective-C. */
#ifndef BACKEND_METAL_OBJC_H
#define BACKEND_METAL_OBJC_H

#include <rlx/rlx.h>

typedef void *objc_id;
typedef void *objc_sel;
typedef void (*objc_imp)(void);

typedef enum objc_holder { /* who answers to a selector; LATER: an object that only use makes */
                           HOLDER_CLASS,
                           HOLDER_POOL,
                           HOLDER_STRING_CLASS,
                           HOLDER_STRING,
                           HOLDER_DEVICE,
                           HOLDER_OPTIONS,
                           HOLDER_QUEUE,
                           HOLDER_BUFFER,
                           HOLDER_COMMANDS,
                           HOLDER_EVENT,
                           HOLDER_ENCODER,
                           HOLDER_BLIT,
                           HOLDER_LATER
} objc_holder;

typedef enum objc_message {
#define SELECTOR(id, text, holder) MESSAGE_##id,
#include "backend/metal/selectors.def"
#undef SELECTOR
  MESSAGE_COUNT
} objc_message;

typedef struct objc_size { /* MTLSize */
  unsigned long width, height, depth;
} objc_size;

/* Opens the runtime and Metal, once a process. DEVICE with the reason if they are not here. */
rlx_status objc_open(void);
/* MTLCreateSystemDefaultDevice: a reference, or NULL. */
objc_id objc_default_device(void);
objc_id objc_class(const char *name);
objc_sel objc_selector(objc_message m);
const char *objc_selector_text(objc_message m);
objc_imp objc_method(objc_id object, objc_message m);
/* DEVICE, naming the selector, if the object does not answer to one that `holder` must. */
rlx_status objc_check(objc_id object, objc_holder holder);

/* A class like the object's own but for the methods given; made once a class and `suffix`. NULL: out of memory. */
typedef struct objc_override {
  objc_message message;
  objc_imp implementation;
  const char *types; /* in the runtime's encoding */
} objc_override;
objc_id objc_subclass(objc_id object, const char *suffix, const objc_override *overrides, int count);
objc_id objc_isa(objc_id object);
void objc_set_isa(objc_id object, objc_id class);

/* An autorelease pool of this thread: objects that methods give without a reference live until it is closed. */
objc_id objc_pool_open(void);
void objc_pool_close(objc_id pool);

objc_id objc_string(const char *utf8); /* autoreleased */

/* Calls by type: arguments after the message are those of the method. */
objc_id send_id(objc_id o, objc_message m);
void send_void(objc_id o, objc_message m);
bool send_bool(objc_id o, objc_message m);
unsigned long send_word(objc_id o, objc_message m);
const char *send_text(objc_id o, objc_message m);
void *send_pointer(objc_id o, objc_message m);
objc_id send_id_word(objc_id o, objc_message m, unsigned long a);
objc_id send_id_words(objc_id o, objc_message m, unsigned long a, unsigned long b);
objc_id send_id_id(objc_id o, objc_message m, objc_id a);
void send_void_id(objc_id o, objc_message m, objc_id a);
void send_void_bool(objc_id o, objc_message m, bool a);
void send_void_word(objc_id o, objc_message m, unsigned long a);
void send_void_id_word(objc_id o, objc_message m, objc_id a, unsigned long b);
void send_void_id_words(objc_id o, objc_message m, objc_id a, unsigned long b, unsigned long c);

static inline void objc_release(objc_id o) { send_void(o, MESSAGE_RELEASE); }
static inline objc_id objc_retain(objc_id o) { return send_id(o, MESSAGE_RETAIN); }

#endif
