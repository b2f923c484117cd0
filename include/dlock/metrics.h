/* SPDX-License-Identifier: MIT */
/*
 * metrics.h - what a client has counted since it was opened: as numbers, and as text for
 * monitoring.
 *
 * Counting costs no lock, no clock and no exchange of its own. Both functions may be called at any
 * time from any thread, and wait for no call that is in progress.
 *
 * WHAT IS COUNTED. Each call that began to acquire counts once, when it has ended, whichever
 * function made it: dlock_acquire, dlock_op_start, dlock_set_acquire (each name of the set). Not
 * counted are calls that are refused at once for their arguments or for the state of the handle, an
 * acquire of a recursive handle that holds the lock, and dlock_adopt; the time for which an adopted
 * lock is held counts.
 *
 * CLASSES. Names are many, so the text has a series for each class of names, not for each name. The
 * class is the name up to its first ':' or '/': "order:4711" is of the class "order". A name with
 * neither is of the class "". A client has DLOCK_STATS_CLASSES classes; the first ones that it sees
 * have a series of their own, and the rest, and classes of more than 64 bytes, are "other".
 */
#ifndef DLOCK_METRICS_H
#define DLOCK_METRICS_H

#include <dlock/dlock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLOCK_STATS_CLASSES     32 /* with "other" */
#define DLOCK_STATS_STATUSES    32 /* room for each enum dlock_status */
#define DLOCK_STATS_REASONS     8  /* room for each enum dlock_reason */
#define DLOCK_HISTOGRAM_BUCKETS 32

/*
 * Times, in classes whose upper bounds double: bucket i has the times up to 16 us << i that are in
 * no lower bucket; the last bucket has all longer ones.
 */
struct dlock_histogram {
    uint64_t count; /* of all buckets */
    uint64_t sum_us;
    uint64_t buckets[DLOCK_HISTOGRAM_BUCKETS];
};

/* All classes together. Each number is exact at some moment during the call; different numbers need
 * not be of the same moment. */
struct dlock_stats {
    uint32_t struct_size;                        /* sizeof(struct dlock_stats) */
    uint32_t classes;                            /* that have been used */
    uint64_t acquisitions[DLOCK_STATS_STATUSES]; /* by their outcome, an enum dlock_status */
    uint64_t unlocks[DLOCK_STATS_STATUSES];      /* of claims that ended; repeated ones, too */
    uint64_t renewals[DLOCK_STATS_STATUSES];     /* each answer about one lease, or its absence */
    uint64_t losses[DLOCK_STATS_REASONS];        /* by enum dlock_reason */
    uint64_t handoffs; /* acquisitions that another thread's unlock gave, without the store */
    uint64_t unknowns; /* exchanges of locks that ended without a conclusive answer */
    uint64_t sessions_opened; /* connections to the store, with those of reconnecting. A connection
                                 that only brings notices of the store does not count; those to the
                                 nodes of redlock count together as one */
    uint64_t sessions_failed; /* attempts to open one */
    uint64_t sessions_broken; /* that were closed because an exchange failed */
    uint64_t held;            /* now */
    uint64_t waiting;         /* now: calls that acquire */
    struct dlock_histogram waits; /* of acquisitions with DLOCK_OK: from the call to the grant */
    struct dlock_histogram holds; /* from the grant to the unlock or the loss */
};

/* An initialiser: zeroes, and the size. */
#ifdef __cplusplus
#define DLOCK_STATS_INIT                                                                \
    {                                                                                   \
        sizeof(struct dlock_stats), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, \
            dlock_histogram()                                                           \
    }
#else
#define DLOCK_STATS_INIT                          \
    {                                             \
        .struct_size = sizeof(struct dlock_stats) \
    }
#endif

/*
 * Copies the numbers.
 *
 * out: begins as DLOCK_STATS_INIT, and is filled as far as its struct_size says.
 * DLOCK_OK, DLOCK_INVALID, DLOCK_FORKED.
 */
DLOCK_API enum dlock_status dlock_client_stats(const struct dlock_client *client,
                                               struct dlock_stats *out, struct dlock_error *err);

/* Gets whole lines, which are valid during the call. Returns true to end the text. */
typedef bool dlock_text_fn(void *arg, const char *text, size_t len);

/*
 * Writes the numbers of each class as OpenMetrics text 1.0, from the first line to "# EOF".
 *
 * labels: names and values in turn, ended by NULL: labels that all series get. NULL: none. They
 * keep the series of several clients and programs apart. A name is as in Prometheus, is there once,
 * and is none of the library's own: class, outcome, reason, event, le. Values may be any text;
 * bytes that are not printable ASCII become \xHH. fn: called for each line or for several; not with
 * a lock held.
 *
 * Parsers of the older text format of Prometheus accept the text, too, as the textfile collector
 * has one: they read all numbers, and know no type of the counters.
 *
 * DLOCK_OK, also if fn ended the text; DLOCK_INVALID, DLOCK_FORKED.
 */
DLOCK_API enum dlock_status dlock_client_metrics(const struct dlock_client *client,
                                                 const char *const *labels, dlock_text_fn *fn,
                                                 void *arg, struct dlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
