/* number.h — numbers as text that reads back to the same bits, whatever the process's locale. */
#ifndef IR_NUMBER_H
#define IR_NUMBER_H

#include <rlx/rlx.h>

#define NUMBER_TEXT 40

/* The shortest decimal that reads back to the same value, with a point or an exponent unless `bare`; "inf", "-inf",
 * "nan", "-nan", or "nan(0x…)" with the bits of any other NaN. Returns text. */
const char *number_print_float(float value, bool bare, char text[NUMBER_TEXT]);
const char *number_print_double(double value, bool bare, char text[NUMBER_TEXT]);

/* The inverses. False: no number of that form, or it is outside the type. */
bool number_parse_float(const char *text, size_t size, float *out);
bool number_parse_double(const char *text, size_t size, double *out);
bool number_parse_int(const char *text, size_t size, int64_t *out);
bool number_parse_uint(const char *text, size_t size, uint64_t *out);

#endif
