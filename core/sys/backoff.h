/* SPDX-License-Identifier: MIT */
/*
 * backoff.h - the pause before the next try. Pure.
 */
#ifndef DL_BACKOFF_H
#define DL_BACKOFF_H

#include <stdint.h>

/*
 * Exponential with half of it random ("equal jitter"): the n-th delay, n from 0, is between half
 * and all of min(first * 2^n, most). first >= 1, most >= first; any unit.
 */
int64_t dl_backoff_delay(unsigned n, int64_t first, int64_t most, uint64_t random);

/* Between 7/8 and all of `whole`: enough to separate threads that would come at the same time. */
int64_t dl_backoff_spread(int64_t whole, uint64_t random);

#endif
