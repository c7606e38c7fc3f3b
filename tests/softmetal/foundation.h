/* foundation.h — the few classes of Foundation that Metal's interface needs, over GNU's Objective-C runtime. */
#ifndef SOFTMETAL_FOUNDATION_H
#define SOFTMETAL_FOUNDATION_H

#include <objc/objc.h>
#include <objc/runtime.h>

#include "private.h"

/* The root: reference counts, pools, and a census of what is alive. */
__attribute__((objc_root_class))
@interface NSObject {
  Class isa;
  int references;
}
+ (id)alloc;
+ (id)new;
+ (Class)class;
- (id)init;
- (id)retain;
- (void)release;
- (id)autorelease;
- (unsigned long)retainCount;
- (void)dealloc;
- (Class)class;
- (BOOL)respondsToSelector:(SEL)selector;
@end

@interface NSAutoreleasePool : NSObject {
  NSAutoreleasePool *outer;
  id *items;
  size_t count, room;
}
- (void)drain;
@end

@interface NSString : NSObject {
  char *text;
}
+ (id)stringWithUTF8String:(const char *)utf8;
- (const char *)UTF8String;
@end

@interface NSError : NSObject {
  NSString *description;
  long code;
}
+ (id)errorWithCode:(long)number text:(const char *)text;
- (NSString *)localizedDescription;
- (long)code;
@end

#endif
