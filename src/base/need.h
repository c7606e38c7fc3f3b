/* need.h — what public functions say to a pointer that must not be NULL. */
#ifndef BASE_NEED_H
#define BASE_NEED_H

#include "base/status.h"

#define RLX_NEED(pointer)                                                                                              \
  do {                                                                                                                 \
    if (!(pointer)) return RLX_FAIL(INVALID, "%s: %s is NULL", __func__, #pointer);                                    \
  } while (0)

#endif
