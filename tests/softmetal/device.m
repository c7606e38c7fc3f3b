/* device.m — device, buffers, events, libraries, functions and pipelines. */
#include "metal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  FILLER = 0xa5,      /* behind a buffer's last byte, to its page's end */
  GUARD_BYTES = 1 << 20 /* behind that: nobody may touch it */
};

@implementation SoftBuffer
- (id)initWithLength:(size_t)bytes options:(NSUInteger)o {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  length = bytes;
  options = (uint32_t)o;
  mapped = (bytes + page - 1) / page * page;
  void *m = mmap(NULL, mapped + GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED || mprotect((char *)m + mapped, GUARD_BYTES, PROT_NONE) != 0) {
    mapped = 0;
    [self release];
    return nil;
  }
  memory = m;
  memset(memory + length, FILLER, mapped - length);
  return self;
}
- (void *)contents {
  if (options & 0x20) soft_misuse("MTLBuffer: contents of a buffer with private storage");
  return options & 0x20 ? NULL : memory;
}
- (NSUInteger)length {
  return length;
}
- (uint64_t)gpuAddress {
  return (uint64_t)(uintptr_t)memory;
}
- (void)setLabel:(NSString *)label {
  (void)label;
}
- (void)check:(const char *)when {
  for (size_t i = length; i < mapped; i++)
    if ((unsigned char)memory[i] != FILLER) {
      soft_misuse("MTLBuffer: %zu bytes, and byte %zu was written (%s)", length, i, when);
      memory[i] = (char)FILLER;
    }
}
- (void)dealloc {
  if (mapped) {
    [self check:"found when it was freed"];
    munmap(memory, mapped + GUARD_BYTES);
  }
  [super dealloc];
}
@end

@implementation SoftEvent
- (id)init {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&changed, &attributes);
  pthread_condattr_destroy(&attributes);
  return self;
}
- (uint64_t)signaledValue {
  pthread_mutex_lock(&lock);
  uint64_t v = value;
  pthread_mutex_unlock(&lock);
  return v;
}
- (void)setSignaledValue:(uint64_t)v {
  pthread_mutex_lock(&lock);
  if (v < value)
    soft_misuse("MTLSharedEvent: value set from %llu back to %llu", (unsigned long long)value, (unsigned long long)v);
  value = v;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
- (BOOL)waitUntilSignaledValue:(uint64_t)v timeoutMS:(uint64_t)ms {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(ms / 1000);
  until.tv_nsec += (long)(ms % 1000) * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&lock);
  while (value < v && pthread_cond_timedwait(&changed, &lock, &until) != ETIMEDOUT) continue;
  BOOL reached = value >= v;
  pthread_mutex_unlock(&lock);
  return reached;
}
- (void)dealloc {
  pthread_cond_destroy(&changed);
  pthread_mutex_destroy(&lock);
  [super dealloc];
}
@end

@implementation MTLCompileOptions
- (id)init {
  fast = YES;
  return self;
}
- (void)setFastMathEnabled:(BOOL)yes {
  fast = yes;
}
- (void)setLanguageVersion:(NSUInteger)version {
  (void)version;
}
@end

@implementation SoftFunction
- (NSString *)name {
  return [NSString stringWithUTF8String:kernel->name];
}
@end

@implementation SoftLibrary
- (id)newFunctionWithName:(NSString *)name {
  for (int i = 0; name && i < module->kernel_count; i++)
    if (strcmp(module->kernels[i].name, [name UTF8String]) == 0) {
      SoftFunction *f = [SoftFunction new];
      f->module = module;
      f->kernel = &module->kernels[i];
      return f;
    }
  return nil;
}
@end

@implementation SoftPipeline
- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return SOFT_MAX_THREADS;
}
- (NSUInteger)threadExecutionWidth {
  return SOFT_LANES;
}
- (NSUInteger)staticThreadgroupMemoryLength {
  return 0;
}
@end

@implementation SoftDevice
- (NSString *)name {
  return [NSString stringWithUTF8String:"Software Metal"];
}
- (BOOL)hasUnifiedMemory {
  return YES;
}
- (MTLSize)maxThreadsPerThreadgroup {
  return (MTLSize){SOFT_MAX_THREADS, SOFT_MAX_THREADS, SOFT_MAX_THREADS};
}
- (NSUInteger)maxThreadgroupMemoryLength {
  return SOFT_SHARED_BYTES;
}
- (NSUInteger)maxBufferLength {
  return (NSUInteger)1 << 40;
}
- (uint64_t)recommendedMaxWorkingSetSize {
  return (uint64_t)1 << 40;
}
- (BOOL)supportsFamily:(long)family {
  return family <= 1007 || (family >= 3001 && family <= 3003) || family == 5001;
}
- (id)newCommandQueue {
  return [SoftQueue new];
}
- (id)newBufferWithLength:(NSUInteger)bytes options:(NSUInteger)o {
  if (bytes == 0 || bytes > [self maxBufferLength]) {
    soft_misuse("MTLDevice: newBufferWithLength: %lu", bytes);
    return nil;
  }
  if (soft_fails(SOFTMETAL_OUT_OF_MEMORY)) return nil;
  return [[SoftBuffer alloc] initWithLength:bytes options:o];
}
- (id)newSharedEvent {
  return [SoftEvent new];
}
- (id)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error {
  char *log = NULL;
  const soft_module *m = NULL;
  if (soft_fails(SOFTMETAL_COMPILE_FAILS))
    log = strdup("error: injected by the test");
  else
    m = soft_compile([source UTF8String], options ? options->fast : YES, &log);
  if (!m) {
    if (error) *error = [NSError errorWithCode:3 text:log ? log : "out of memory"];
    free(log);
    return nil;
  }
  SoftLibrary *library = [SoftLibrary new];
  library->module = m;
  return library;
}
- (id)newComputePipelineStateWithFunction:(SoftFunction *)function error:(NSError **)error {
  if (!function || soft_fails(SOFTMETAL_PIPELINE_FAILS)) {
    if (!function) soft_misuse("MTLDevice: newComputePipelineStateWithFunction: nil");
    if (error) *error = [NSError errorWithCode:2 text:"pipeline: injected by the test, or no function"];
    return nil;
  }
  SoftPipeline *p = [SoftPipeline new];
  p->module = function->module;
  p->kernel = function->kernel;
  return p;
}
@end

id MTLCreateSystemDefaultDevice(void);
id MTLCreateSystemDefaultDevice(void) { return soft_fails(SOFTMETAL_NO_DEVICE) ? nil : [SoftDevice new]; }
