/* SPDX-License-Identifier: MIT */
/* chance.h - numbers that follow from a seed (splitmix64). */
#ifndef TORTURE_CHANCE_H
#define TORTURE_CHANCE_H

#include <stdint.h>

struct chance {
    uint64_t state;
};

static inline struct chance chance_of(uint64_t seed)
{
    return (struct chance){.state = seed};
}

static inline uint64_t chance_next(struct chance *chance)
{
    uint64_t z = (chance->state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline uint64_t chance_below(struct chance *chance, uint64_t below)
{
    return below < 2 ? 0 : chance_next(chance) % below;
}

/* Both ends are possible. */
static inline int64_t chance_between(struct chance *chance, int64_t least, int64_t most)
{
    return least + (int64_t)chance_below(chance, (uint64_t)(most - least) + 1);
}

#endif
