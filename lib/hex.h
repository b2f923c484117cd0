/* SPDX-License-Identifier: MIT */
/* hex.h - bytes as hexadecimal digits, and back. */
#ifndef LIB_HEX_H
#define LIB_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a digit in lower or upper case; -1: no digit. */
int dl_hex_digit(char digit);

/* The value of two digits; -1: there are none. Reads no further than the first NUL. */
int dl_hex_byte(const char *digits);

/* Writes 2 * len digits in lower case and a NUL to out. */
void dl_hex_encode(char *out, const void *bytes, size_t len);

/* Reads len bytes from text. False: text is not exactly 2 * len digits in lower case. */
bool dl_hex_decode(void *bytes, size_t len, const char *text);

#endif
