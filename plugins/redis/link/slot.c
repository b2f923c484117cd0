/* SPDX-License-Identifier: MIT */
#include "redis/link/slot.h"

#include <string.h>

#define POLYNOMIAL 0x1021u /* CRC16-CCITT (XMODEM) */

static unsigned crc16(const char *bytes, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = ((crc & 0x8000u) != 0 ? crc << 1 ^ POLYNOMIAL : crc << 1) & 0xffffu;
    }
    return crc;
}

unsigned redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    size_t rest = open != NULL ? len - (size_t)(open - key) - 1 : 0;
    const char *close = open != NULL ? memchr(open + 1, '}', rest) : NULL;

    if (close != NULL && close > open + 1)
        return crc16(open + 1, (size_t)(close - open) - 1) % REDIS_SLOTS;
    return crc16(key, len) % REDIS_SLOTS;
}
