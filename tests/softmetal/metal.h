/* metal.h — the classes of the software Metal. Names of selectors, values and rules of ownership are Metal's: methods
 * that begin with `new`, and MTLCreateSystemDefaultDevice, give a reference to the caller; all others a borrowed or
 * autoreleased one. */
#ifndef SOFTMETAL_METAL_H
#define SOFTMETAL_METAL_H

#include <pthread.h>

#include "foundation.h"

typedef unsigned long NSUInteger;
typedef struct MTLSize {
  NSUInteger width, height, depth;
} MTLSize;
typedef struct NSRange {
  NSUInteger location, length;
} NSRange;

enum { /* MTLCommandBufferStatus */
       STATUS_NOT_ENQUEUED,
       STATUS_ENQUEUED,
       STATUS_COMMITTED,
       STATUS_SCHEDULED,
       STATUS_COMPLETED,
       STATUS_ERROR
};
enum { DISPATCH_SERIAL, DISPATCH_CONCURRENT };

@class SoftQueue, SoftCommandBuffer;

@interface SoftBuffer : NSObject {
@public
  char *memory; /* whole pages, then some that nobody may touch */
  size_t length, mapped;
  uint32_t options;
}
- (id)initWithLength:(size_t)bytes options:(NSUInteger)o;
- (void)check:(const char *)when;
@end

@interface SoftEvent : NSObject {
@public
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t value;
}
- (uint64_t)signaledValue;
- (void)setSignaledValue:(uint64_t)v;
- (BOOL)waitUntilSignaledValue:(uint64_t)v timeoutMS:(uint64_t)ms;
@end

@interface SoftFunction : NSObject {
@public
  const soft_module *module;
  const soft_kernel *kernel;
}
@end

@interface SoftLibrary : NSObject {
@public
  const soft_module *module;
}
@end

@interface SoftPipeline : NSObject {
@public
  const soft_module *module;
  const soft_kernel *kernel;
}
@end

@interface MTLCompileOptions : NSObject {
@public
  BOOL fast;
}
@end

@interface SoftDevice : NSObject
@end

/* What a command buffer holds. Objects are retained until it is done. */
typedef enum soft_command_kind {
  COMMAND_DISPATCH,
  COMMAND_COPY,
  COMMAND_FILL,
  COMMAND_SIGNAL,
  COMMAND_WAIT
} soft_command_kind;
typedef struct soft_command {
  soft_command_kind kind;
  int group; /* commands of equal group may run in any order; see COMMAND order in commands.m */
  bool unordered;
  soft_dispatch dispatch;
  char *copied; /* setBytes: the bytes, one after the other */
  SoftBuffer *from, *to;
  size_t from_offset, to_offset, bytes;
  int fill;
  SoftEvent *event;
  uint64_t value;
} soft_command;

@interface SoftCommandBuffer : NSObject {
@public
  SoftQueue *queue;
  soft_command *commands;
  size_t count, room;
  id *held;
  size_t held_count, held_room;
  int group;
  id encoder; /* the open one; borrowed */
  int status;
  NSError *error;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  SoftCommandBuffer *next;
}
- (id)initWithQueue:(SoftQueue *)q;
- (soft_command *)add:(soft_command_kind)kind;
- (void)hold:(id)object;
- (int)status;
- (void)execute;
@end

@interface SoftQueue : NSObject {
@public
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t worker;
  bool stop;
  SoftCommandBuffer *first, *last;
}
- (void)push:(SoftCommandBuffer *)buffer;
@end

@interface SoftEncoder : NSObject {
@public
  SoftCommandBuffer *buffer; /* retained */
  BOOL open, compute, concurrent;
  int labels;
}
- (id)initWithBuffer:(SoftCommandBuffer *)b;
- (BOOL)may:(const char *)what;
@end

@interface SoftComputeEncoder : SoftEncoder {
  SoftPipeline *pipeline;
  struct {
    SoftBuffer *buffer;
    size_t offset;
    char *bytes;
    size_t length;
  } arguments[SOFT_BUFFERS];
  uint32_t shared[SOFT_BUFFERS];
}
@end

@interface SoftBlitEncoder : SoftEncoder
@end

#endif
