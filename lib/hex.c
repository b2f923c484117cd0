/* SPDX-License-Identifier: MIT */
#include "lib/hex.h"

#include <string.h>

static const char lower[] = "0123456789abcdef";

int dl_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int dl_hex_byte(const char *digits)
{
    int high = dl_hex_digit(digits[0]), low = high < 0 ? -1 : dl_hex_digit(digits[1]);

    return low < 0 ? -1 : high * 16 + low;
}

void dl_hex_encode(char *out, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;

    for (size_t i = 0; i < len; i++) {
        *out++ = lower[in[i] >> 4];
        *out++ = lower[in[i] & 15];
    }
    *out = '\0';
}

bool dl_hex_decode(void *bytes, size_t len, const char *text)
{
    unsigned char *out = bytes;

    if (strspn(text, lower) != 2 * len || text[2 * len] != '\0')
        return false;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)dl_hex_byte(text + 2 * i);
    return true;
}
