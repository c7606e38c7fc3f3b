// cases.h — ONNX test-case folders: model.onnx with test_data_set_N/input_I.pb and output_I.pb.
#ifndef CLI_CASES_H
#define CLI_CASES_H

#include "cli/cli.h"

typedef struct test_case {
  char *folder;
  const char *name; // the folder's last component
  double rtol, atol;
  char *contested; // why its values cannot be compared, or NULL
} test_case;

typedef struct test_cases {
  test_case *items;
  int count;
} test_cases;

// Adds the cases at or below a folder whose names match filter (a glob; NULL: all), sorted, with their tolerances from
// the nearest tolerances.txt in the case's folder or the two above it: "default RTOL ATOL" and "NAME RTOL ATOL" lines.
int test_cases_find(const char *folder, const char *filter, test_cases *out);
// Marks the cases that a file names, "NAME REASON" a line, as contested: only dtype and shape of their outputs are
// compared. Every case of the folders is in *cases by now; names of others are no error.
int test_cases_contest(const char *path, test_cases *cases);
void test_cases_release(test_cases *cases);

// Loads, runs and compares one case on every data set. The failure is cli_message.
struct cli_target;
int test_case_run(const test_case *c, const struct cli_target *target, rlx_registry *registry);

// Dtype and dims must be equal.
int test_compare_type(const rlx_tensor *got, const rlx_tensor *want);
// These, and integers, bools and strings too; |got - want| <= atol + rtol * |want| for floats, NaN equal to NaN.
int test_compare(const rlx_tensor *got, const rlx_tensor *want, double rtol, double atol);

#endif
