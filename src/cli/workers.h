// workers.h — runs numbered tasks in child processes, so that one that crashes or hangs is only a failed task.
#ifndef CLI_WORKERS_H
#define CLI_WORKERS_H

#include "cli/cli.h"

typedef struct worker_task {
  bool passed;
  char *message; // of a failed one; released by the caller
  double ms;
} worker_task;

typedef struct workers {
  int jobs;
  int task_count;
  double timeout_s;                                              // of one task; 0: none
  int (*run)(void *user, int task);                              // in a child; the message of a failure is cli_message
  void (*done)(void *user, int task, const worker_task *result); // in the parent, in the order of tasks
  void *user;
} workers;

// Fills tasks[task_count].
int workers_run(const workers *w, worker_task *tasks);

#endif
