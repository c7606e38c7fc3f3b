/* log.h — lines to the log callback. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <rlx/rlx.h>

__attribute__((format(printf, 2, 3))) void log_line(int level, const char *format, ...);
/* Several lines, one call of the callback each. */
void log_text(int level, const char *text);

#endif
