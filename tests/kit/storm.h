/* SPDX-License-Identifier: MIT */
/*
 * storm.h - threads of a few clients take turns on a few names, while a test does to the store what
 * it likes. What they must see all the same is counted: nobody else inside, fences that rise, calls
 * that return, answers that a fault of the store explains.
 */
#ifndef DLT_STORM_H
#define DLT_STORM_H

#include <dlock/dlock.h>
#include <stdatomic.h>
#include <stdbool.h>

#define DLT_STORM_CLIENTS 8
#define DLT_STORM_NAMES   8
#define DLT_STORM_THREADS 256

struct dlt_storm_worker;

struct dlt_storm {
    const char *uri;
    unsigned clients, threads, names; /* threads: in all */
    int64_t ttl_ms, wait_ms;          /* 0: 20 s, 3 s */
    unsigned readers_every;           /* of so many threads one reads; 0: none does */
    bool calm;                        /* no fault explains anything */

    /* Results. late: calls that took 10 s longer than they may. */
    _Atomic long acquisitions;
    _Atomic int overlaps, fences_fallen, late, oddities;

    struct dlock_client *client[DLT_STORM_CLIENTS];
    _Atomic int inside[DLT_STORM_NAMES];
    _Atomic uint64_t fence[DLT_STORM_NAMES];
    struct dlt_storm_worker *workers;
    _Atomic int stop;
};

/* storm is zero but for the first part, and does not move. False: why is on standard output. */
bool dlt_storm_start(struct dlt_storm *storm);
/* Each thread gets a lock once more, within a minute. */
bool dlt_storm_goes_on(struct dlt_storm *storm);
/* Waits for all of them, and closes the clients. */
void dlt_storm_end(struct dlt_storm *storm);

/* Of this process. */
int dlt_descriptors(void);

#endif
