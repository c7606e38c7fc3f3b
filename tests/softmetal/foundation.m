/* foundation.m — NSObject, pools, strings and errors. */
#include "foundation.h"

#include <stdlib.h>
#include <string.h>

static __thread NSAutoreleasePool *pool; /* the innermost of this thread */

@interface NSAutoreleasePool (Adding)
- (void)add:(id)object;
@end

@implementation NSObject
+ (void)initialize {
}
+ (id)alloc {
  NSObject *o = class_createInstance(self, 0);
  if (!o) return nil;
  o->references = 1;
  soft_born(class_getName(self), 1);
  return o;
}
+ (id)new {
  return [[self alloc] init];
}
+ (Class)class {
  return self;
}
- (id)init {
  return self;
}
- (id)retain {
  __atomic_fetch_add(&references, 1, __ATOMIC_RELAXED);
  return self;
}
- (void)release {
  int left = __atomic_sub_fetch(&references, 1, __ATOMIC_ACQ_REL);
  if (left == 0) [self dealloc];
  if (left < 0) soft_misuse("%s: released more often than retained", class_getName(object_getClass(self)));
}
- (id)autorelease {
  if (pool)
    [pool add:self];
  else
    soft_misuse("%s: autoreleased with no pool in place: it leaks", class_getName(object_getClass(self)));
  return self;
}
- (unsigned long)retainCount {
  return (unsigned long)__atomic_load_n(&references, __ATOMIC_RELAXED);
}
- (void)dealloc {
  soft_born(class_getName(object_getClass(self)), -1);
  object_dispose(self);
}
- (Class)class {
  return object_getClass(self);
}
- (BOOL)respondsToSelector:(SEL)selector {
  return class_respondsToSelector(object_getClass(self), selector);
}
@end

@implementation NSAutoreleasePool
- (id)init {
  outer = pool;
  pool = self;
  return self;
}
- (void)add:(id)object {
  if (count == room) {
    size_t wanted = room ? 2 * room : 64;
    id *grown = realloc(items, wanted * sizeof *grown);
    if (!grown) return; /* leaks, as an allocation that fails in a pool must */
    items = grown;
    room = wanted;
  }
  items[count++] = object;
}
- (void)drain {
  [self release];
}
- (void)dealloc {
  if (pool != self) soft_misuse("NSAutoreleasePool: drained on another thread, or out of order");
  pool = outer;
  while (count > 0) [items[--count] release];
  free(items);
  [super dealloc];
}
@end

@implementation NSString
+ (id)stringWithUTF8String:(const char *)utf8 {
  if (!utf8) {
    soft_misuse("NSString: stringWithUTF8String: NULL");
    return nil;
  }
  NSString *s = [self alloc];
  if (s) s->text = strdup(utf8);
  return [s autorelease];
}
- (const char *)UTF8String {
  return text;
}
- (void)dealloc {
  free(text);
  [super dealloc];
}
@end

@implementation NSError
+ (id)errorWithCode:(long)number text:(const char *)text {
  NSError *e = [self alloc];
  if (e) {
    e->code = number;
    e->description = [[NSString stringWithUTF8String:text] retain];
  }
  return [e autorelease];
}
- (NSString *)localizedDescription {
  return description;
}
- (long)code {
  return code;
}
- (void)dealloc {
  [description release];
  [super dealloc];
}
@end
