/* SPDX-License-Identifier: MIT */
/*
 * race.h - threads that do to a few names all that can be done, at random, and write down what they
 * did and were told; afterwards the checker of tests/stress/history says whether that was a lock.
 */
#ifndef DLT_RACE_H
#define DLT_RACE_H

#include "kit.h"

#include <log.h>

#define DLT_RACE_NAMES   3 /* the last one is a semaphore where the store has them */
#define DLT_RACE_RECORDS (1u << 19)

struct dlt_race {
    const char *prefix; /* of the names */
    struct dlock_client **clients;
    unsigned client_count;
    unsigned threads; /* in turn of each client */
    int64_t duration_ms;
    uint64_t seed;
    struct dlt_log *log;
};

/* Returns when all threads have ended. */
void dlt_race_run(const struct dlt_race *race);

/* Fails unless the histories of all files together are those of a lock. */
void dlt_race_check(const struct dlt_run *run, char (*paths)[300], int count);

#endif
