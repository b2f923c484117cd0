/* SPDX-License-Identifier: MIT */
#include "sys/random.h"

#include <errno.h>
#include <sys/random.h>

int dl_random_bytes(void *buf, size_t len)
{
    unsigned char *at = buf;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += got;
        len -= (size_t)got;
    }
    return 0;
}

/* xorshift64*: Marsaglia 2003, Vigna 2016. */
uint64_t dl_random_jitter(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}
