/* SPDX-License-Identifier: MIT */
/* hex.h - bytes as hexadecimal digits, and back. */
#ifndef LIB_HEX_H
#define LIB_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a digit, a capital or not; -1: no digit. */
int dl_hex_digit(char digit);

/* Writes 2 * len digits in lower case and a NUL to out. */
void dl_hex_encode(char *out, const void *bytes, size_t len);

/* Reads len bytes from 2 * len digits in lower case; text may go on after them. False: a character
 * is no such digit. */
bool dl_hex_decode(void *bytes, size_t len, const char *text);

#endif
