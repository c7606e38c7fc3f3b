/* control.c — injected faults, the list of misuses, counters of objects and events. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fault_after[SOFTMETAL_FAULTS]; /* 0: none; n: the n-th occasion from now */
static bool removed;
static char misuse[2][8192];
static int misuse_bank;
static uint32_t random_state = 1;

typedef struct population {
  char name[48];
  int64_t alive;
} population;
static population populations[32];

softmetal_counts soft_counts;

void softmetal_inject(softmetal_fault fault, int after) {
  pthread_mutex_lock(&lock);
  if (fault == SOFTMETAL_NO_FAULT) {
    memset(fault_after, 0, sizeof fault_after);
    removed = false;
  } else if (fault == SOFTMETAL_DEVICE_REMOVED) {
    removed = true;
  } else {
    fault_after[fault] = after + 1;
  }
  pthread_mutex_unlock(&lock);
}

bool soft_fails(softmetal_fault fault) {
  pthread_mutex_lock(&lock);
  bool fails = fault == SOFTMETAL_DEVICE_REMOVED ? removed : fault_after[fault] > 0 && --fault_after[fault] == 0;
  pthread_mutex_unlock(&lock);
  return fails;
}

void soft_misuse(const char *format, ...) {
  va_list args;
  va_start(args, format);
  pthread_mutex_lock(&lock);
  char *text = misuse[misuse_bank];
  size_t used = strlen(text), room = sizeof misuse[0] - used;
  int n = vsnprintf(text + used, room, format, args);
  if (n > 0 && (size_t)n + 1 < room) memcpy(text + used + n, "\n", 2);
  pthread_mutex_unlock(&lock);
  va_end(args);
}

const char *softmetal_misuse(void) {
  pthread_mutex_lock(&lock);
  const char *text = misuse[misuse_bank];
  misuse_bank = !misuse_bank;
  misuse[misuse_bank][0] = 0;
  pthread_mutex_unlock(&lock);
  return text;
}

void soft_born(const char *class_name, int change) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof populations / sizeof *populations; i++) {
    population *p = &populations[i];
    if (!p->name[0]) snprintf(p->name, sizeof p->name, "%s", class_name);
    if (strcmp(p->name, class_name) == 0) {
      p->alive += change;
      break;
    }
  }
  pthread_mutex_unlock(&lock);
}

int64_t softmetal_alive(const char *class_name) {
  int64_t alive = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof populations / sizeof *populations; i++)
    if (!class_name || strcmp(populations[i].name, class_name) == 0) alive += populations[i].alive;
  pthread_mutex_unlock(&lock);
  return alive;
}

softmetal_counts softmetal_count(void) {
  softmetal_counts c;
  c.committed = __atomic_load_n(&soft_counts.committed, __ATOMIC_RELAXED);
  c.dispatches = __atomic_load_n(&soft_counts.dispatches, __ATOMIC_RELAXED);
  c.compiled = __atomic_load_n(&soft_counts.compiled, __ATOMIC_RELAXED);
  c.waits = __atomic_load_n(&soft_counts.waits, __ATOMIC_RELAXED);
  return c;
}

void softmetal_shuffle(uint32_t seed) {
  pthread_mutex_lock(&lock);
  random_state = seed ? seed : 1;
  pthread_mutex_unlock(&lock);
}

uint32_t soft_random(void) {
  pthread_mutex_lock(&lock);
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  uint32_t value = random_state;
  pthread_mutex_unlock(&lock);
  return value;
}
