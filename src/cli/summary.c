// summary.c — what a tensor holds, in a line of text or a JSON object.
#include "cli/values.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_VALUES = 6 };

typedef struct statistics {
  double min, max, mean;
  int64_t numbers, nans, infinities;
} statistics;

static statistics measure(const rlx_tensor *t) {
  statistics s = {INFINITY, -INFINITY, 0.0, 0, 0, 0};
  rlx_dtype dtype = rlx_tensor_dtype(t);
  const void *data = rlx_tensor_data(t);
  int64_t count = rlx_tensor_count(t);
  double sum = 0.0;
  if (dtype == RLX_STRING || value_is_complex(dtype) || !data) return s;
  for (int64_t i = 0; i < count; i++) {
    double value = value_number(dtype, data, i);
    if (isnan(value)) {
      s.nans++;
    } else {
      if (isinf(value)) s.infinities++;
      s.numbers++;
      s.min = fmin(s.min, value);
      s.max = fmax(s.max, value);
      sum += value;
    }
  }
  if (s.numbers) s.mean = sum / (double)s.numbers;
  return s;
}

static char *first_values(const rlx_tensor *t) {
  char text[FIRST_VALUES * (CLI_VALUE_TEXT + 2) + 16];
  size_t used = 0;
  int64_t count = rlx_tensor_data(t) ? rlx_tensor_count(t) : 0;
  text[0] = '\0';
  for (int64_t i = 0; i < count && i < FIRST_VALUES; i++) {
    char value[CLI_VALUE_TEXT];
    value_text(rlx_tensor_dtype(t), rlx_tensor_data(t), i, value);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", value);
  }
  if (count > FIRST_VALUES) snprintf(text + used, sizeof text - used, ", …");
  return cli_format("[%s]", text);
}

char *value_summary(const rlx_tensor *t) {
  if (rlx_tensor_kind(t) == RLX_KIND_MAP)
    return cli_format("%lld keys", (long long)rlx_tensor_count(rlx_tensor_item(t, 0)));
  if (rlx_tensor_kind(t) != RLX_KIND_TENSOR) return cli_format("%lld items", (long long)rlx_tensor_count(t));
  statistics s = measure(t);
  char *first = first_values(t), *text;
  char odd[64] = "";
  if (s.nans || s.infinities)
    snprintf(odd, sizeof odd, "  %lld NaN, %lld infinite", (long long)s.nans, (long long)s.infinities);
  if (s.numbers)
    text = cli_format("min %.6g  max %.6g  mean %.6g%s  %s", s.min, s.max, s.mean, odd, first);
  else
    text = cli_format("%s%s", first, odd);
  free(first);
  return text;
}

static cJSON *value_json(const rlx_tensor *t, int64_t i) {
  rlx_dtype dtype = rlx_tensor_dtype(t);
  const void *data = rlx_tensor_data(t);
  char text[CLI_VALUE_TEXT];
  if (dtype == RLX_BOOL) return cJSON_CreateBool(value_integer(dtype, data, i) != 0);
  if (dtype != RLX_STRING && !value_is_complex(dtype) && isfinite(value_number(dtype, data, i)))
    return cJSON_CreateNumber(value_number(dtype, data, i));
  value_text(dtype, data, i, text); // JSON has no word for these
  return cJSON_CreateString(text);
}

cJSON *value_summary_json(const char *name, const rlx_tensor *t) {
  statistics s = measure(t);
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", name);
  cJSON_AddStringToObject(object, "dtype", rlx_dtype_name(rlx_tensor_dtype(t)));
  cJSON *dims = cJSON_AddArrayToObject(object, "dims");
  for (int i = 0; i < rlx_tensor_rank(t); i++)
    cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)rlx_tensor_dims(t)[i]));
  if (s.numbers) {
    cJSON_AddNumberToObject(object, "min", s.min);
    cJSON_AddNumberToObject(object, "max", s.max);
    cJSON_AddNumberToObject(object, "mean", s.mean);
    cJSON_AddNumberToObject(object, "nan", (double)s.nans);
  }
  cJSON *first = cJSON_AddArrayToObject(object, "first");
  int64_t count = rlx_tensor_data(t) ? rlx_tensor_count(t) : 0;
  for (int64_t i = 0; i < count && i < FIRST_VALUES; i++) cJSON_AddItemToArray(first, value_json(t, i));
  return object;
}

cJSON *value_type_json(const char *name, const rlx_type *type, const char *const *symbols) {
  static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", name);
  cJSON_AddStringToObject(object, "kind", type->kind <= RLX_KIND_MAP ? kinds[type->kind] : "unknown");
  cJSON_AddStringToObject(object, "dtype", rlx_dtype_name(type->dtype));
  if (type->kind != RLX_KIND_TENSOR) {
    char *text = value_type_text(type, NULL);
    cJSON_AddStringToObject(object, "type", text);
    free(text);
    return object;
  }
  if (type->rank == RLX_UNKNOWN) return object;
  cJSON *dims = cJSON_AddArrayToObject(object, "dims");
  for (int i = 0; i < type->rank; i++) {
    if (type->dims[i] != RLX_UNKNOWN)
      cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)type->dims[i]));
    else if (symbols && symbols[i])
      cJSON_AddItemToArray(dims, cJSON_CreateString(symbols[i]));
    else
      cJSON_AddItemToArray(dims, cJSON_CreateNull());
  }
  return object;
}
