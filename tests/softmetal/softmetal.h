/* softmetal.h — control of the software Metal: what tests ask of it beyond Metal's own interface.
 *
 * The software Metal is a shared library with Objective-C classes that answer to the selectors of Metal and Foundation
 * that rlx uses. MSL text is compiled as C++ with clang; a kernel's threads are fibers on one worker thread a queue.
 * It proves that the calls are right, in number, order, ownership and arguments, and that the kernels' text computes
 * what it should. It does not prove that Apple's compiler accepts the text, nor anything about speed, memory ordering
 * between threadgroups, or limits of real devices. */
#ifndef SOFTMETAL_H
#define SOFTMETAL_H

#include <stdbool.h>
#include <stdint.h>

/* Faults to inject. */
typedef enum softmetal_fault {
  SOFTMETAL_NO_FAULT,
  SOFTMETAL_NO_DEVICE,      /* MTLCreateSystemDefaultDevice gives nil */
  SOFTMETAL_COMPILE_FAILS,  /* newLibraryWithSource fails with an error */
  SOFTMETAL_PIPELINE_FAILS, /* newComputePipelineStateWithFunction fails with an error */
  SOFTMETAL_COMMAND_FAILS,  /* a command buffer ends with status Error */
  SOFTMETAL_PAGE_FAULT,     /* the same, with the error of a page fault */
  SOFTMETAL_OUT_OF_MEMORY,  /* newBufferWithLength gives nil */
  SOFTMETAL_DEVICE_REMOVED, /* every command buffer from now on fails */
  SOFTMETAL_FAULTS
} softmetal_fault;

/* The `after`-th next occasion (0: the next one) fails, once; DEVICE_REMOVED until it is cleared with NO_FAULT. */
void softmetal_inject(softmetal_fault fault, int after);

/* Objects of the software Metal that are alive: everything retained or in a pool; by class name, or NULL for all. */
int64_t softmetal_alive(const char *class_name);

/* What was done wrong since the last call: lines, "" if nothing. The text is valid until the next call. */
const char *softmetal_misuse(void);

/* Counters since the process began. */
typedef struct softmetal_counts {
  int64_t committed;  /* command buffers */
  int64_t dispatches; /* executed */
  int64_t compiled;   /* libraries that clang compiled, not found in the cache */
  int64_t waits;      /* waitUntilCompleted */
} softmetal_counts;
softmetal_counts softmetal_count(void);

/* Dispatches of a concurrent encoder that no barrier separates run in a random order; the seed of it. */
void softmetal_shuffle(uint32_t seed);

#endif
