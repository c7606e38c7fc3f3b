/* commands.m — queues, command buffers and encoders: what they record, how it is executed, and what is misuse. */
#include "metal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- command buffers ---- */

@implementation SoftCommandBuffer
- (id)initWithQueue:(SoftQueue *)q {
  queue = [q retain];
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&changed, NULL);
  return self;
}
- (soft_command *)add:(soft_command_kind)kind {
  if (count == room) {
    size_t wanted = room ? 2 * room : 16;
    soft_command *grown = realloc(commands, wanted * sizeof *grown);
    if (!grown) abort(); /* of the test's machine, not of the code under test */
    commands = grown;
    room = wanted;
  }
  memset(&commands[count], 0, sizeof *commands);
  commands[count].kind = kind;
  commands[count].group = group;
  return &commands[count++];
}
- (void)hold:(id)object {
  if (!object) return;
  if (held_count == held_room) {
    size_t wanted = held_room ? 2 * held_room : 32;
    id *grown = realloc(held, wanted * sizeof *grown);
    if (!grown) abort();
    held = grown;
    held_room = wanted;
  }
  held[held_count++] = [object retain];
}
- (void)dealloc {
  if (encoder) soft_misuse("MTLCommandBuffer: freed with an encoder that was not ended");
  for (size_t i = 0; i < count; i++) free(commands[i].copied);
  free(commands);
  for (size_t i = 0; i < held_count; i++) [held[i] release];
  free(held);
  [error release];
  [queue release];
  pthread_cond_destroy(&changed);
  pthread_mutex_destroy(&lock);
  [super dealloc];
}
- (BOOL)mayEncode:(const char *)what {
  if ([self status] >= STATUS_COMMITTED) soft_misuse("MTLCommandBuffer: %s after commit", what);
  if (encoder) soft_misuse("MTLCommandBuffer: %s while another encoder is open", what);
  return [self status] < STATUS_COMMITTED && !encoder;
}
- (id)encoderOf:(Class)kind concurrent:(BOOL)concurrent {
  if (![self mayEncode:"an encoder"]) return nil;
  group++;
  SoftEncoder *e = [[kind alloc] initWithBuffer:self];
  e->concurrent = concurrent;
  encoder = e;
  return [e autorelease];
}
- (id)computeCommandEncoder {
  return [self encoderOf:[SoftComputeEncoder class] concurrent:NO];
}
- (id)computeCommandEncoderWithDispatchType:(NSUInteger)type {
  return [self encoderOf:[SoftComputeEncoder class] concurrent:type == DISPATCH_CONCURRENT];
}
- (id)blitCommandEncoder {
  return [self encoderOf:[SoftBlitEncoder class] concurrent:NO];
}
- (void)event:(SoftEvent *)e value:(uint64_t)v kind:(soft_command_kind)kind {
  if (![self mayEncode:"an event"]) return;
  if (!e) {
    soft_misuse("MTLCommandBuffer: an event that is nil");
    return;
  }
  group++;
  [self hold:e];
  soft_command *c = [self add:kind];
  c->event = e;
  c->value = v;
  group++;
}
- (void)encodeSignalEvent:(SoftEvent *)e value:(uint64_t)v {
  [self event:e value:v kind:COMMAND_SIGNAL];
}
- (void)encodeWaitForEvent:(SoftEvent *)e value:(uint64_t)v {
  [self event:e value:v kind:COMMAND_WAIT];
}
- (void)setLabel:(NSString *)label {
  (void)label;
}
- (void)set:(int)s {
  pthread_mutex_lock(&lock);
  status = s;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
- (int)status {
  pthread_mutex_lock(&lock);
  int s = status;
  pthread_mutex_unlock(&lock);
  return s;
}
- (NSError *)error {
  return error;
}
- (void)enqueue {
}
- (void)commit {
  if (encoder) soft_misuse("MTLCommandBuffer: commit with an encoder that was not ended");
  if ([self status] >= STATUS_COMMITTED) {
    soft_misuse("MTLCommandBuffer: commit twice");
    return;
  }
  __atomic_fetch_add(&soft_counts.committed, 1, __ATOMIC_RELAXED);
  [self set:STATUS_COMMITTED];
  [queue push:self];
}
- (void)waitUntilCompleted {
  __atomic_fetch_add(&soft_counts.waits, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&lock);
  if (status < STATUS_COMMITTED) soft_misuse("MTLCommandBuffer: waitUntilCompleted before commit");
  while (status >= STATUS_COMMITTED && status < STATUS_COMPLETED) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

/* NULL, or what failed. */
- (const char *)executeOne:(const soft_command *)c {
  switch (c->kind) {
  case COMMAND_DISPATCH:
    return soft_run(&c->dispatch);
  case COMMAND_COPY:
    memmove(c->to->memory + c->to_offset, c->from->memory + c->from_offset, c->bytes);
    return NULL;
  case COMMAND_FILL:
    memset(c->to->memory + c->to_offset, c->fill, c->bytes);
    return NULL;
  case COMMAND_SIGNAL:
    [c->event setSignaledValue:c->value];
    return NULL;
  case COMMAND_WAIT:
    if (![c->event waitUntilSignaledValue:c->value timeoutMS:20000]) return "an event was not signalled in 20 seconds";
    return NULL;
  }
  return NULL;
}
/* What no barrier separates in a concurrent encoder is put in a random order. */
- (void)shuffle {
  for (size_t i = 0; i < count;) {
    size_t end = i + 1;
    while (end < count && commands[end].group == commands[i].group) end++;
    for (size_t k = end - i; commands[i].unordered && k > 1; k--) {
      size_t j = soft_random() % k;
      soft_command other = commands[i + j];
      commands[i + j] = commands[i + k - 1];
      commands[i + k - 1] = other;
    }
    i = end;
  }
}
- (void)execute {
  NSAutoreleasePool *pool = [NSAutoreleasePool new];
  const char *failed = NULL;
  long code = 1;
  if (soft_fails(SOFTMETAL_DEVICE_REMOVED)) {
    failed = "device removed: injected by the test";
    code = 11;
  } else if (soft_fails(SOFTMETAL_COMMAND_FAILS)) {
    failed = "internal error: injected by the test";
  } else if (soft_fails(SOFTMETAL_PAGE_FAULT)) {
    failed = "page fault: injected by the test";
    code = 3;
  }
  [self shuffle];
  for (size_t i = 0; i < count && !failed; i++) failed = [self executeOne:&commands[i]];
  if (failed) error = [[NSError errorWithCode:code text:failed] retain];
  for (size_t i = 0; i < held_count; i++)
    if ([held[i] class] == [SoftBuffer class]) [held[i] check:"after a command buffer"];
  [self set:failed ? STATUS_ERROR : STATUS_COMPLETED];
  [pool drain];
}
@end

/* ---- queues ---- */

static void *work(void *arg) {
  SoftQueue *q = arg;
  for (;;) {
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->stop) pthread_cond_wait(&q->changed, &q->lock);
    SoftCommandBuffer *b = q->first;
    if (b) {
      q->first = b->next;
      if (!q->first) q->last = NULL;
    }
    pthread_mutex_unlock(&q->lock);
    if (!b) return NULL;
    [b execute];
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    [b release];
    [pool drain];
  }
}

@implementation SoftQueue
- (id)init {
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&changed, NULL);
  if (pthread_create(&worker, NULL, work, self) != 0) abort();
  return self;
}
- (id)commandBuffer {
  return [[[SoftCommandBuffer alloc] initWithQueue:self] autorelease];
}
- (void)setLabel:(NSString *)label {
  (void)label;
}
- (void)push:(SoftCommandBuffer *)buffer {
  [buffer retain];
  pthread_mutex_lock(&lock);
  if (last)
    last->next = buffer;
  else
    first = buffer;
  last = buffer;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}
- (void)dealloc {
  pthread_mutex_lock(&lock);
  stop = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
  /* The last reference may be the one of a command buffer that the worker lets go of. */
  if (pthread_equal(pthread_self(), worker))
    pthread_detach(worker);
  else
    pthread_join(worker, NULL);
  pthread_cond_destroy(&changed);
  pthread_mutex_destroy(&lock);
  [super dealloc];
}
@end

/* ---- encoders ---- */

@implementation SoftEncoder
- (id)initWithBuffer:(SoftCommandBuffer *)b {
  buffer = [b retain];
  open = YES;
  return self;
}
- (void)dealloc {
  if (open) {
    soft_misuse("encoder: freed without endEncoding");
    if (buffer->encoder == self) buffer->encoder = nil;
  }
  [buffer release];
  [super dealloc];
}
- (BOOL)may:(const char *)what {
  if (!open) soft_misuse("encoder: %s after endEncoding", what);
  return open;
}
- (void)endEncoding {
  if (!open) {
    soft_misuse("encoder: endEncoding twice");
    return;
  }
  if (labels != 0) soft_misuse("encoder: %d debug groups were not popped", labels);
  open = NO;
  if (buffer->encoder == self) buffer->encoder = nil;
  buffer->group++;
}
- (void)setLabel:(NSString *)label {
  (void)label;
}
- (void)pushDebugGroup:(NSString *)text {
  (void)text;
  labels++;
}
- (void)popDebugGroup {
  if (labels-- == 0) soft_misuse("encoder: popDebugGroup without a group");
}
@end

@implementation SoftComputeEncoder
- (void)setComputePipelineState:(SoftPipeline *)p {
  if (![self may:"setComputePipelineState"]) return;
  if (!p) soft_misuse("encoder: setComputePipelineState: nil");
  [p retain];
  [pipeline release];
  pipeline = p;
}
- (BOOL)index:(NSUInteger)i what:(const char *)what {
  if (![self may:what]) return NO;
  if (i >= SOFT_BUFFERS) soft_misuse("encoder: %s at index %lu", what, i);
  return i < SOFT_BUFFERS;
}
- (void)forget:(NSUInteger)i {
  free(arguments[i].bytes);
  [arguments[i].buffer release];
  memset(&arguments[i], 0, sizeof arguments[i]);
}
- (void)setBuffer:(SoftBuffer *)b offset:(NSUInteger)offset atIndex:(NSUInteger)i {
  if (![self index:i what:"setBuffer"]) return;
  [b retain];
  [self forget:i];
  arguments[i].buffer = b;
  arguments[i].offset = offset;
  if (b && offset >= b->length) soft_misuse("encoder: setBuffer: offset %lu of %zu bytes", offset, b->length);
}
- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)i {
  if (![self index:i what:"setBufferOffset"]) return;
  if (!arguments[i].buffer || offset >= arguments[i].buffer->length)
    soft_misuse("encoder: setBufferOffset: %lu of no buffer, or past its end", offset);
  else
    arguments[i].offset = offset;
}
- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)i {
  if (![self index:i what:"setBytes"]) return;
  if (length == 0 || length > 4096) {
    soft_misuse("encoder: setBytes: %lu bytes, the limit is 4096", length);
    return;
  }
  [self forget:i];
  arguments[i].bytes = malloc(length);
  if (!arguments[i].bytes) abort();
  memcpy(arguments[i].bytes, bytes, length);
  arguments[i].length = length;
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)i {
  if (![self index:i what:"setThreadgroupMemoryLength"]) return;
  if (length % 16) soft_misuse("encoder: setThreadgroupMemoryLength: %lu is no multiple of 16", length);
  shared[i] = (uint32_t)length;
}
- (void)useResource:(SoftBuffer *)b usage:(NSUInteger)usage {
  (void)usage;
  if ([self may:"useResource"]) [buffer hold:b];
}
- (void)useResources:(SoftBuffer *const *)b count:(NSUInteger)n usage:(NSUInteger)usage {
  for (NSUInteger i = 0; i < n; i++) [self useResource:b[i] usage:usage];
}
- (void)memoryBarrierWithScope:(NSUInteger)scope {
  if (![self may:"memoryBarrierWithScope"]) return;
  if (scope != 1) soft_misuse("encoder: memoryBarrierWithScope: %lu, buffers are 1", scope);
  buffer->group++;
}

/* Copies what setBytes gave and holds what setBuffer gave until the command has run. */
- (void)takeArguments:(soft_command *)c {
  size_t bytes = 0;
  for (int i = 0; i < SOFT_BUFFERS; i++) bytes += (arguments[i].length + 15) / 16 * 16;
  c->copied = bytes ? aligned_alloc(16, bytes) : NULL;
  if (bytes && !c->copied) abort();
  char *at = c->copied;
  for (int i = 0; i < SOFT_BUFFERS; i++) {
    soft_binding *b = &c->dispatch.buffers[i];
    c->dispatch.shared_bytes[i] = shared[i];
    if (arguments[i].bytes) {
      memcpy(at, arguments[i].bytes, arguments[i].length);
      *b = (soft_binding){at, arguments[i].length};
      at += (arguments[i].length + 15) / 16 * 16;
    } else if (arguments[i].buffer) {
      [buffer hold:arguments[i].buffer];
      *b = (soft_binding){arguments[i].buffer->memory + arguments[i].offset,
                          arguments[i].buffer->length - arguments[i].offset};
    }
  }
}
- (BOOL)mayDispatch:(MTLSize)g size:(MTLSize)t {
  if (![self may:"dispatch"]) return NO;
  if (!pipeline) soft_misuse("encoder: dispatch without a pipeline");
  NSUInteger threads = t.width * t.height * t.depth, bytes = 0;
  for (int i = 0; i < SOFT_BUFFERS; i++) bytes += shared[i];
  if (threads == 0 || threads > SOFT_MAX_THREADS) soft_misuse("encoder: dispatch with %lu threads a group", threads);
  if (g.width == 0 || g.height == 0 || g.depth == 0) soft_misuse("encoder: dispatch of no groups");
  if (bytes > SOFT_SHARED_BYTES) soft_misuse("encoder: dispatch with %lu bytes of threadgroup memory", bytes);
  return pipeline && threads > 0 && threads <= SOFT_MAX_THREADS && g.width && g.height && g.depth &&
         bytes <= SOFT_SHARED_BYTES;
}
- (void)dispatch:(MTLSize)groups size:(MTLSize)t grid:(MTLSize)grid {
  if (![self mayDispatch:groups size:t]) return;
  [buffer hold:pipeline];
  soft_command *c = [buffer add:COMMAND_DISPATCH];
  c->unordered = concurrent;
  if (!concurrent) c->group = ++buffer->group;
  soft_dispatch *d = &c->dispatch;
  d->kernel = pipeline->kernel;
  d->cooperative = pipeline->module->cooperative;
  const MTLSize from[3] = {groups, t, grid};
  uint32_t *const to[3] = {d->groups, d->group_size, d->grid};
  for (int i = 0; i < 3; i++) {
    to[i][0] = (uint32_t)from[i].width;
    to[i][1] = (uint32_t)from[i].height;
    to[i][2] = (uint32_t)from[i].depth;
  }
  [self takeArguments:c];
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)t {
  MTLSize grid = {groups.width * t.width, groups.height * t.height, groups.depth * t.depth};
  [self dispatch:groups size:t grid:grid];
}
- (void)dispatchThreads:(MTLSize)grid threadsPerThreadgroup:(MTLSize)t {
  if (t.width == 0 || t.height == 0 || t.depth == 0) {
    soft_misuse("encoder: dispatchThreads with no threads a group");
    return;
  }
  MTLSize groups = {(grid.width + t.width - 1) / t.width, (grid.height + t.height - 1) / t.height,
                    (grid.depth + t.depth - 1) / t.depth};
  [self dispatch:groups size:t grid:grid];
}
- (void)dealloc {
  for (NSUInteger i = 0; i < SOFT_BUFFERS; i++) [self forget:i];
  [pipeline release];
  [super dealloc];
}
@end

@implementation SoftBlitEncoder
- (BOOL)inside:(SoftBuffer *)b offset:(size_t)offset bytes:(size_t)bytes {
  if (b && bytes && offset <= b->length && bytes <= b->length - offset) return YES;
  soft_misuse("blit: %zu bytes at %zu of a buffer of %zu", bytes, offset, b ? b->length : 0);
  return NO;
}
- (void)copyFromBuffer:(SoftBuffer *)from
          sourceOffset:(NSUInteger)from_offset
              toBuffer:(SoftBuffer *)to
     destinationOffset:(NSUInteger)to_offset
                  size:(NSUInteger)bytes {
  if (![self may:"copy"] || ![self inside:from offset:from_offset bytes:bytes] ||
      ![self inside:to offset:to_offset bytes:bytes])
    return;
  [buffer hold:from];
  [buffer hold:to];
  soft_command *c = [buffer add:COMMAND_COPY];
  c->group = ++buffer->group;
  c->from = from;
  c->to = to;
  c->from_offset = from_offset;
  c->to_offset = to_offset;
  c->bytes = bytes;
}
- (void)fillBuffer:(SoftBuffer *)to range:(NSRange)range value:(uint8_t)value {
  if (![self may:"fill"] || ![self inside:to offset:range.location bytes:range.length]) return;
  [buffer hold:to];
  soft_command *c = [buffer add:COMMAND_FILL];
  c->group = ++buffer->group;
  c->to = to;
  c->to_offset = range.location;
  c->bytes = range.length;
  c->fill = value;
}
@end
