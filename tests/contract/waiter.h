/* SPDX-License-Identifier: MIT */
/* waiter.h - an acquire in a thread of its own, and who waits for a name. */
#ifndef DLT_WAITER_H
#define DLT_WAITER_H

#include "kit.h"

struct dlt_waiter {
    struct dlock_handle *lock;
    enum dlock_mode mode;
    int64_t timeout_ms; /* of dlock_timedlock, dlock_timedrdlock */
    int64_t hold_ms;    /* when it is acquired: unlocks after so long; -1: leaves it held */
    pthread_t thread;
    enum dlock_status status; /* after dlt_waiter_join */
    int64_t done_ns;          /* when the call returned */
    uint64_t fence;           /* if it is OK */
    _Atomic int done;         /* the call has returned */
};

/* Begins, and returns before or after the call. */
void dlt_waiter_go(struct dlt_waiter *waiter, struct dlock_handle *lock, enum dlock_mode mode,
                   int64_t timeout_ms, int64_t hold_ms);

/*
 * Returns when the call was entered: in its client the thread stands in line. The name has to be
 * held by another, as this asks by dlock_unlock.
 */
void dlt_waiter_enter(struct dlt_waiter *waiter, struct dlock_handle *lock, enum dlock_mode mode,
                      int64_t timeout_ms, int64_t hold_ms);

/* The same for an exclusive lock that stays held, and a little later: most likely it sleeps. */
void dlt_waiter_start(struct dlt_waiter *waiter, struct dlock_handle *lock, int64_t timeout_ms);

enum dlock_status dlt_waiter_join(struct dlt_waiter *waiter);

/* The same, when it has to come back within limit_ms. */
enum dlock_status dlt_waiter_join_within(struct dlt_waiter *waiter, int64_t limit_ms);

/* Non-zero: what a wait may say that ran out: TIMEOUT, or, on a busy machine, that the last look at
 * the store got no answer in time. */
int dlt_ran_out(enum dlock_status status);

/* Another client holds the name: the wait has to end with TIMEOUT. A wait whose last look got no
 * answer in time is made again, for longer. */
void dlt_times_out(struct dlock_handle *lock, int64_t timeout_ms);

/* Returns when inspect shows a number of waiters from least to most of a name that is held. Needs
 * DLOCK_CAP_QUEUE. */
void dlt_waiters_await(struct dlock_client *client, const struct dlt_name *name, uint32_t least,
                       uint32_t most);

/*
 * Options for dlt_client and dlt_child_start by which a place in the store's queue lasts for ms, as
 * far as the store can set that. Long: what the end of a place would repair must not happen. Short:
 * it has to.
 */
struct dlt_text {
    char text[64];
};
struct dlt_text dlt_waiter_lease(const struct dlt_run *run, int64_t ms);

/* Of a client that is in no hurry: who waits for a lock looks at the store by himself once in 10 s
 * at most, so that whatever ends his wait sooner than that was told to him. */
#define DLT_PATIENT_MS 5000
struct dlock_client *dlt_client_patient(const struct dlt_run *run);

/* The time that was set: ms, or 3000, which is the default. */
int64_t dlt_waiter_lease_ms(const struct dlt_text *lease, int64_t ms);

#endif
