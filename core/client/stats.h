/* SPDX-License-Identifier: MIT */
/*
 * stats.h - what a client counts of its locks, for each class of names (dlock/metrics.h).
 *
 * A counter is written with the client's mutex held, by a plain store; `unknowns` alone is not, and
 * is added to atomically. All of them are read without the mutex. Times come from clocks that the
 * engine has read anyway.
 */
#ifndef DL_STATS_H
#define DL_STATS_H

#include <dlock/metrics.h>
#include <stdatomic.h>

#define DL_STATS_CLASS_MOST 64 /* bytes of a class with a series of its own */

struct dl_stats_histogram {
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t buckets[DLOCK_HISTOGRAM_BUCKETS];
};

struct dl_stats_class {
    _Atomic uint64_t acquisitions[DLOCK_STATS_STATUSES], unlocks[DLOCK_STATS_STATUSES],
        renewals[DLOCK_STATS_STATUSES], losses[DLOCK_STATS_REASONS];
    _Atomic uint64_t handoffs, unknowns, held, waiting;
    struct dl_stats_histogram waits, holds;

    /* constant once the class is in the list */
    uint32_t len;
    unsigned char bytes[DL_STATS_CLASS_MOST];
};

/* Classes are added, and never removed before the client is. */
struct dl_stats {
    struct dl_stats_class *_Atomic classes[DLOCK_STATS_CLASSES - 1];
    struct dl_stats_class other;
    _Atomic bool other_used;
};

/* The class of a name, which is made at its first use. Without memory it is "other". */
struct dl_stats_class *dl_stats_class_locked(struct dl_stats *stats, const unsigned char *name,
                                             size_t len);

/* Class number i that was used; NULL: there are no more. */
const struct dl_stats_class *dl_stats_class_at(const struct dl_stats *stats, unsigned i);

void dl_stats_fini(struct dl_stats *stats);

static inline uint64_t dl_stats_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void dl_stats_add_locked(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, dl_stats_get(counter) + n, memory_order_relaxed);
}

static inline void dl_stats_count_locked(_Atomic uint64_t *counter)
{
    dl_stats_add_locked(counter, 1);
}

static inline void dl_stats_uncount_locked(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, dl_stats_get(counter) - 1, memory_order_relaxed);
}

/* by: a status or a reason. */
static inline void dl_stats_outcome_locked(_Atomic uint64_t *counters, int by)
{
    dl_stats_count_locked(&counters[by]);
}

/* An exchange has ended without a conclusive answer. */
static inline void dl_stats_unknown(struct dl_stats_class *stats)
{
    (void)atomic_fetch_add_explicit(&stats->unknowns, 1, memory_order_relaxed);
}

/* The bucket for a time. */
static inline unsigned dl_stats_bucket(int64_t ns)
{
    uint64_t units = ns > 0 ? ((uint64_t)ns - 1) / 16000 : 0;
    unsigned bucket = units == 0 ? 0 : 64 - (unsigned)__builtin_clzll(units);

    return bucket < DLOCK_HISTOGRAM_BUCKETS ? bucket : DLOCK_HISTOGRAM_BUCKETS - 1;
}

static inline void dl_stats_time_locked(struct dl_stats_histogram *histogram, int64_t ns)
{
    dl_stats_count_locked(&histogram->buckets[dl_stats_bucket(ns)]);
    dl_stats_add_locked(&histogram->sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

#endif
