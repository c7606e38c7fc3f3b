// settings.c — the public view of the tables of debug switches and environment variables.
#include "base/options.h"

const char *rlx_debug_switch(int i, const char **help) {
  const char *name = debug_option_name(i);
  if (name && help) *help = debug_option_help(i);
  return name;
}

const char *rlx_environment(int i, const char **help) {
  if (i < 0 || i >= OPTION_COUNT) return NULL;
  if (help) *help = option_help((option_name)i);
  return option_env((option_name)i);
}
