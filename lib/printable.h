/* SPDX-License-Identifier: MIT */
/* printable.h - bytes of unknown origin, as printable ASCII. */
#ifndef LIB_PRINTABLE_H
#define LIB_PRINTABLE_H

#include <stddef.h>

/* Writes bytes to out and returns out. Other bytes, and the backslash, become \xHH. A text that
 * does not fit is cut with "...". */
const char *dl_printable_escape(char *out, size_t size, const void *bytes, size_t len);

/* The same between double quotes, where a backslash escapes: a quote becomes \", and what
 * dl_printable_escape writes as \xHH becomes \\xHH. */
const char *dl_printable_quote(char *out, size_t size, const void *bytes, size_t len);

/* Writes text to out. Other bytes become '?'. A text that does not fit is cut. */
void dl_printable_mask(char *out, size_t size, const char *text, size_t len);

#endif
