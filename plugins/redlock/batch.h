/* SPDX-License-Identifier: MIT */
/* batch.h - the size of a batch: a longer one is executed in parts. */
#ifndef REDLOCK_BATCH_H
#define REDLOCK_BATCH_H

#include <stddef.h>

#define REDLOCK_BATCH_MOST 64 /* names that leave in one write to each node */

/* How many of n elements are the next part, after `done` of them. */
static inline size_t redlock_batch_part(size_t n, size_t done)
{
    return n - done < REDLOCK_BATCH_MOST ? n - done : REDLOCK_BATCH_MOST;
}

#endif
