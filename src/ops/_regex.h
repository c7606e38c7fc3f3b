/* _regex.h — whether a regular expression matches a whole text: RE2's syntax, time linear in the text. */
#ifndef OPS_REGEX_H
#define OPS_REGEX_H

#include <rlx/extend.h>

/* A compiled pattern. Owned: regex_finish. */
typedef struct regex regex;

/* Fails with RLX_INVALID and says where the pattern is wrong, or RLX_UNSUPPORTED (Unicode classes, \C). */
rlx_status regex_compile(const void *context, rlx_string pattern, regex **out);
void regex_finish(regex *r);
/* Uses scratch memory of r: one thread at a time. */
bool regex_matches(regex *r, rlx_string text);

/* The next character of UTF-8 text, U+FFFD for a byte that begins none; advances *at. */
uint32_t utf8_next(const char *text, size_t size, size_t *at);
/* Writes at most 4 bytes; returns how many. */
size_t utf8_put(uint32_t c, char *to);

#endif
