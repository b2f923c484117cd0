/* SPDX-License-Identifier: MIT */
/* text.h - texts: bytes as hexadecimal digits and as printable ASCII, numbers with a unit, secrets.
 */
#ifndef LIB_TEXT_H
#define LIB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- bytes as hexadecimal digits, and back ---- */

/* The value of a digit in lower or upper case; -1: no digit. */
int dl_hex_digit(char digit);

/* The value of two digits; -1: there are none. Reads no further than the first NUL. */
int dl_hex_byte(const char *digits);

/* Writes 2 * len digits in lower case and a NUL to out. */
void dl_hex_encode(char *out, const void *bytes, size_t len);

/* Reads len bytes from text. False: text is not exactly 2 * len digits in lower case. */
bool dl_hex_decode(void *bytes, size_t len, const char *text);

/* ---- bytes of unknown origin, as printable ASCII ---- */

/* Writes bytes to out and returns out. Other bytes, and the backslash, become \xHH. A text that
 * does not fit is cut with "...". */
const char *dl_printable_escape(char *out, size_t size, const void *bytes, size_t len);

/* The same between double quotes, where a backslash escapes: a quote becomes \", and what
 * dl_printable_escape writes as \xHH becomes \\xHH. */
const char *dl_printable_quote(char *out, size_t size, const void *bytes, size_t len);

/* Writes text to out. Other bytes become '?'. A text that does not fit is cut. */
void dl_printable_mask(char *out, size_t size, const char *text, size_t len);

/* ---- numbers with a unit, as options of a URI and of the command have them ---- */

/* Each returns NULL and sets *number, or returns why the text is refused: "has no unit (...)". */

const char *dl_quantity_int(const char *text, int64_t *number);

/* "500ms", "30s", "5m", "2h", "7d" or "0". */
const char *dl_quantity_duration(const char *text, int64_t *ms);

/* "4096", "64k", "1M" or "2G", by 1024. */
const char *dl_quantity_size(const char *text, int64_t *bytes);

/* ---- texts with a secret in them ---- */

/* text: the name of an option, or a whole query. True: it has a word that tells of a secret. */
bool dl_secret_is_named(const char *text);

/* Overwrites a string and frees it; NULL is fine. */
void dl_secret_free(char *text);

#endif
