/* SPDX-License-Identifier: MIT */
#include "sys/backoff.h"

static int64_t less_at_random(int64_t whole, int64_t part, uint64_t random)
{
    return whole - (int64_t)(random % (uint64_t)(part + 1));
}

int64_t dl_backoff_delay(unsigned n, int64_t first, int64_t most, uint64_t random)
{
    int64_t delay = first;

    while (n-- > 0 && delay < most)
        delay = delay > most / 2 ? most : delay * 2;
    return less_at_random(delay, delay / 2, random);
}

int64_t dl_backoff_spread(int64_t whole, uint64_t random)
{
    return less_at_random(whole, whole / 8, random);
}
