/* SPDX-License-Identifier: MIT */
#include "lib/hex.h"

int dl_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

void dl_hex_encode(char *out, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;

    for (size_t i = 0; i < len; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    *out = '\0';
}

bool dl_hex_decode(void *bytes, size_t len, const char *text)
{
    unsigned char *out = bytes;

    for (size_t i = 0; i < 2 * len; i++) {
        int value = dl_hex_digit(text[i]);

        if (value < 0 || (text[i] >= 'A' && text[i] <= 'F'))
            return false;
        out[i / 2] = (unsigned char)(i % 2 == 0 ? value << 4 : out[i / 2] | value);
    }
    return true;
}
