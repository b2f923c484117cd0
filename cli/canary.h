/* SPDX-License-Identifier: MIT */
/*
 * canary.h - a lock that is taken and released again and again, to see whether the store serves
 * locks, and how fast. Its name is "dlock-doctor:HOST".
 */
#ifndef CLI_CANARY_H
#define CLI_CANARY_H

#include <dlock/dlock.h>

struct canary {
    struct dlock_handle *lock;

    /* of the last round */
    enum dlock_status status; /* the first failure of the two calls */
    struct dlock_error err;
    int64_t lock_ns, unlock_ns; /* how long the calls took */

    /* of all rounds */
    uint64_t rounds, failures;
};

enum dlock_status canary_init(struct canary *canary, struct dlock_client *client,
                              struct dlock_error *err);
void canary_fini(struct canary *canary);

/* Takes the lock, for timeout_ms at most, and releases it. */
void canary_round(struct canary *canary, int64_t timeout_ms);

#endif
