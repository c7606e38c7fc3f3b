/* execute.c — runs a dispatch: threadgroup after threadgroup; threads that meet at barriers are fibers of this thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include "private.h"

enum { STACK_BYTES = 64 * 1024 };

typedef enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_EXCHANGE, FIBER_DONE } fiber_state;

typedef struct fiber {
#ifdef __x86_64__
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  fiber_state state;
  uint32_t mask; /* of the last exchange */
  char value[16];
} fiber;

/* The threadgroup that a worker runs. Belongs to its thread. */
typedef struct crew {
  fiber fibers[SOFT_MAX_THREADS];
  soft_thread threads[SOFT_MAX_THREADS];
  char *stacks;
  int count, current;
  soft_entry *entry;
#ifdef __x86_64__
  void *scheduler;
#else
  ucontext_t scheduler;
#endif
  char *shared; /* [SOFT_SHARED_BYTES] */
  sigjmp_buf recover;
  volatile sig_atomic_t running;
  char problem[160];
} crew;

static __thread crew *me;

/* ---- switching ---- */

#ifdef __x86_64__
void softmetal_switch(void **save, void *to);
__asm__(
    ".text\n.globl softmetal_switch\n.hidden softmetal_switch\n.type softmetal_switch,@function\nsoftmetal_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size softmetal_switch,.-softmetal_switch\n");

static void to_scheduler(void) { softmetal_switch(&me->fibers[me->current].stack_pointer, me->scheduler); }
static void to_fiber(int i) {
  me->current = i;
  softmetal_switch(&me->scheduler, me->fibers[i].stack_pointer);
}
#else
static void to_scheduler(void) { swapcontext(&me->fibers[me->current].context, &me->scheduler); }
static void to_fiber(int i) {
  me->current = i;
  swapcontext(&me->scheduler, &me->fibers[i].context);
}
#endif

static void fiber_main(void) {
  me->entry(&me->threads[me->current]);
  me->fibers[me->current].state = FIBER_DONE;
  to_scheduler();
  abort(); /* a finished fiber is never resumed */
}

static void fiber_prepare(int i) {
  fiber *f = &me->fibers[i];
  char *stack = me->stacks + (size_t)i * STACK_BYTES;
  f->state = FIBER_READY;
#ifdef __x86_64__
  void **top = (void **)(void *)(stack + STACK_BYTES);
  *--top = NULL; /* alignment: at entry the stack is 8 past a multiple of 16 */
  *--top = (void *)fiber_main;
  for (int k = 0; k < 6; k++) *--top = NULL;
  f->stack_pointer = top;
#else
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = stack;
  f->context.uc_stack.ss_size = STACK_BYTES;
  makecontext(&f->context, fiber_main, 0);
#endif
}

/* ---- what kernels call ---- */

static void group_barrier(void) {
  me->fibers[me->current].state = FIBER_AT_BARRIER;
  to_scheduler();
}

static void meet(void) {
  me->fibers[me->current].state = FIBER_AT_EXCHANGE;
  to_scheduler();
}

static uint32_t exchange(const void *mine, uint32_t bytes, void *all, uint32_t *lane) {
  int i = me->current, first = i / SOFT_LANES * SOFT_LANES;
  *lane = (uint32_t)(i - first);
  memcpy(me->fibers[i].value, mine, bytes);
  meet();
  uint32_t mask = me->fibers[i].mask;
  for (int k = 0; k < SOFT_LANES && first + k < me->count; k++)
    memcpy((char *)all + 16 * k, me->fibers[first + k].value, 16);
  meet(); /* nobody may give a new value before all have read this one */
  return mask;
}

const soft_calls soft_executor_calls = {group_barrier, exchange};

/* ---- scheduling ---- */

/* Lets the threads of a SIMD group go on whose others all wait or are done. Returns whether any was. */
static bool release_exchanges(void) {
  bool any = false;
  for (int first = 0; first < me->count; first += SOFT_LANES) {
    uint32_t mask = 0;
    int end = first + SOFT_LANES < me->count ? first + SOFT_LANES : me->count;
    for (int i = first; i < end; i++)
      if (me->fibers[i].state == FIBER_AT_EXCHANGE) mask |= 1u << (i - first);
    for (int i = first; i < end; i++)
      if (mask >> (i - first) & 1) {
        me->fibers[i].state = FIBER_READY;
        me->fibers[i].mask = mask;
      }
    any = any || mask;
  }
  return any;
}

/* True once all threads are done. */
static bool release_barrier(void) {
  int waiting = 0, done = 0;
  for (int i = 0; i < me->count; i++) {
    waiting += me->fibers[i].state == FIBER_AT_BARRIER;
    done += me->fibers[i].state == FIBER_DONE;
  }
  if (waiting && done) {
    snprintf(me->problem, sizeof me->problem, "divergent barrier: %d threads of a group wait, %d are done", waiting,
             done);
    soft_misuse("%s", me->problem);
    return true;
  }
  for (int i = 0; i < me->count && waiting; i++) me->fibers[i].state = FIBER_READY;
  return !waiting;
}

static void run_group(void) {
  for (int i = 0; i < me->count; i++) fiber_prepare(i);
  for (bool done = false; !done;) {
    for (int i = 0; i < me->count; i++)
      if (me->fibers[i].state == FIBER_READY) to_fiber(i);
    done = !release_exchanges() && release_barrier();
  }
}

/* ---- faults ---- */

static void on_fault(int signal_number, siginfo_t *info, void *context) {
  (void)context;
  if (me && me->running) {
    snprintf(me->problem, sizeof me->problem, "page fault at address %p (signal %d)", info->si_addr, signal_number);
    siglongjmp(me->recover, 1);
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

/* Before every dispatch: test libraries put handlers of their own in place for each test. */
static void catch_faults(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGFPE, &action, NULL);
}

/* ---- a dispatch ---- */

static void crew_free(void *c) {
  crew *old = c;
  munmap(old->stacks, (size_t)SOFT_MAX_THREADS * STACK_BYTES);
  free(old->shared);
  free(old);
}

static pthread_key_t crew_key;
static void start_once(void) { pthread_key_create(&crew_key, crew_free); }

static bool crew_here(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_once);
  if (me) return true;
  crew *c = calloc(1, sizeof *c);
  if (!c) return false;
  c->stacks = mmap(NULL, (size_t)SOFT_MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  c->shared = malloc(SOFT_SHARED_BYTES);
  if (c->stacks == MAP_FAILED || !c->shared) return false;
  static __thread char signal_stack[64 * 1024];
  stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
  sigaltstack(&alternate, NULL);
  pthread_setspecific(crew_key, c);
  me = c;
  return true;
}

/* Fills in the threads of one group; threads past the grid's end do not exist. */
static void place_threads(const soft_dispatch *d, const uint32_t group[3]) {
  int n = 0;
  const uint32_t *size = d->group_size;
  for (uint32_t z = 0; z < size[2]; z++)
    for (uint32_t y = 0; y < size[1]; y++)
      for (uint32_t x = 0; x < size[0]; x++) {
        uint32_t at[3] = {x, y, z};
        bool inside = true;
        for (int i = 0; i < 3; i++) inside = inside && group[i] * size[i] + at[i] < d->grid[i];
        if (!inside) continue;
        soft_thread *t = &me->threads[n];
        for (int i = 0; i < 3; i++) {
          t->position_in_group[i] = at[i];
          t->group[i] = group[i];
          t->position_in_grid[i] = group[i] * size[i] + at[i];
        }
        t->index = x + size[0] * (y + size[1] * z);
        t->lane = (uint32_t)n % SOFT_LANES;
        t->simdgroup = (uint32_t)n / SOFT_LANES;
        n++;
      }
  me->count = n;
}

static void place_constants(const soft_dispatch *d) {
  int all = (int)(d->group_size[0] * d->group_size[1] * d->group_size[2]);
  for (int n = 0; n < all; n++) {
    soft_thread *t = &me->threads[n];
    t->simdgroups = ((uint32_t)all + SOFT_LANES - 1) / SOFT_LANES;
    memcpy(t->groups, d->groups, sizeof t->groups);
    memcpy(t->group_size, d->group_size, sizeof t->group_size);
    memcpy(t->grid_size, d->grid, sizeof t->grid_size);
    char *shared = me->shared;
    for (int i = 0; i < SOFT_BUFFERS; i++) {
      t->buffers[i] = d->buffers[i].data;
      t->shared[i] = d->shared_bytes[i] ? shared : NULL;
      shared += d->shared_bytes[i];
    }
  }
}

static void run_groups(const soft_dispatch *d) {
  uint32_t g[3];
  for (g[2] = 0; g[2] < d->groups[2]; g[2]++)
    for (g[1] = 0; g[1] < d->groups[1]; g[1]++)
      for (g[0] = 0; g[0] < d->groups[0]; g[0]++) {
        place_threads(d, g);
        memset(me->shared, 0xff, SOFT_SHARED_BYTES); /* NaN: nothing is zero at first */
        if (d->cooperative)
          run_group();
        else
          for (me->current = 0; me->current < me->count; me->current++) me->entry(&me->threads[me->current]);
        if (me->problem[0]) return;
      }
}

const char *soft_run(const soft_dispatch *d) {
  if (!crew_here()) return "out of memory";
  me->problem[0] = 0;
  me->entry = d->kernel->entry;
  place_constants(d);
  catch_faults();
  if (sigsetjmp(me->recover, 1) == 0) {
    me->running = 1;
    run_groups(d);
  }
  me->running = 0;
  __atomic_fetch_add(&soft_counts.dispatches, 1, __ATOMIC_RELAXED);
  return me->problem[0] ? me->problem : NULL;
}
