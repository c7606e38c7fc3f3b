/* report.h — what runs where and why, for people and programs. */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "base/text.h"
#include "ir/graph.h"

typedef struct report_input {
  const rlx_graph *graph; /* compiled */
  const char *device;
  rlx_policy policy;
  const rlx_session_stats *stats;
  bool policy_from_environment;
  const rlx_counter *counters;
  int counter_count;
  const rlx_session_options *options; /* policy and exceptions */
  bool gpu;                           /* then, of one run of the newest bound main program: */
  int trips, submits, device_steps;
  int64_t staged;
  double trip_us; /* what a trip takes at least: measured */
} report_input;

rlx_status report_write(const report_input *in, rlx_report_format format, text *out);

#endif
