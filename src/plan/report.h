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
  bool gpu;
  const rlx_session_options *options; /* policy and exceptions */
} report_input;

rlx_status report_write(const report_input *in, rlx_report_format format, text *out);

#endif
