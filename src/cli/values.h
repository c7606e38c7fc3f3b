// values.h — elements of tensors as numbers and text: reading, making, summing up.
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include "cli/cli.h"

#define CLI_VALUE_TEXT 80

// Floating-point types, including the small ones (complex ones are not).
bool value_is_float(rlx_dtype dtype);
bool value_is_complex(rlx_dtype dtype);
// Element i (packed for sub-byte types) as a number; 0 for strings, the real part of complex ones.
double value_number(rlx_dtype dtype, const void *data, int64_t i);
// The imaginary part.
double value_imaginary(rlx_dtype dtype, const void *data, int64_t i);
// Integers and bool as exact text comparisons need them: the value's bits, sign-extended.
int64_t value_integer(rlx_dtype dtype, const void *data, int64_t i);
// Element i as text; strings are quoted and cut.
void value_text(rlx_dtype dtype, const void *data, int64_t i, char text[CLI_VALUE_TEXT]);

// "float[1,N,3]": symbols may be NULL; unknown dims are "?".
char *value_type_text(const rlx_type *type, const char *const *symbols);
char *value_dims_text(int rank, const int64_t *dims);

// Fills with the number nearest to `number`, or with random values: floats in [0, 1), 8-bit and smaller integers over
// their range, wider ones 0 or 1. Fails for strings.
int value_fill(rlx_tensor *t, double number);
int value_fill_random(rlx_tensor *t, uint64_t *seed);

struct cJSON;
// Type, dims, min, max, mean, first values.
char *value_summary(const rlx_tensor *t);
struct cJSON *value_summary_json(const char *name, const rlx_tensor *t);
struct cJSON *value_type_json(const char *name, const rlx_type *type, const char *const *symbols);

#endif
