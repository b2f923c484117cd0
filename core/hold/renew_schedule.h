/* SPDX-License-Identifier: MIT */
/*
 * renew_schedule.h - when the renewer of a client (renewer.h) has to check which handle, how long
 * its exchanges may last, and how it is woken.
 *
 * There are two heaps of moments: the next check of each handle, and the end of each lease. An
 * exchange ends with the earliest end of any lease of the client, so that a store that does not
 * answer delays no report of a loss. But it has 200 ms, or a sixth of the shortest lease: otherwise
 * leases that end one after the other would leave no time to renew the rest.
 *
 * The client's mutex guards all of it.
 */
#ifndef DL_RENEW_SCHEDULE_H
#define DL_RENEW_SCHEDULE_H

#include "hold/handle.h"

#define DL_RENEW_BATCH 128

/* An exchange has at least this time, even if a lease ends during it, or a handle that holds
 * nothing has a shorter ttl. So the report of a loss may be late by as much. */
#define DL_IO_LIMIT_LEAST_NS INT64_C(200000000)

struct dl_renewer {
    struct dl_schedule schedule; /* of handles: the next check of each */
    struct dl_schedule ends;     /* of handles that hold a lease: its end */
    int64_t io_limit_ns;         /* the longest exchange that delays no handle too much */
    int64_t io_limit_set_ns;     /* when io_limit_ns was computed from all handles */
    pthread_t thread;
    bool running, stop;
    int wake_fd, timer_fd;
    unsigned give_backs;   /* handles with must_give_back */
    int64_t busy_until_ns; /* an exchange is in progress that may last until then; 0: none is */
    int64_t armed_ns;      /* when the sleeping thread wakes by itself; INT64_MIN: it is awake */
    struct dlock_handle *batch[DL_RENEW_BATCH];
    struct dlock_lease_op ops[DL_RENEW_BATCH];
    int64_t sent_ns[DL_RENEW_BATCH];
};

/* NULL: no memory. */
struct dl_renewer *dl_renew_schedule_new(void);

/* Closes the descriptors. renewer may be NULL in both. */
void dl_renew_schedule_close(struct dl_renewer *renewer);
void dl_renew_schedule_free(struct dl_renewer *renewer);

/* Reserves room for one more handle, and gives it back. false: no memory. */
bool dl_renew_schedule_reserve_locked(struct dlock_client *client);
void dl_renew_schedule_unreserve_locked(struct dlock_client *client);

/* Sets the next check of the handle, and wakes the thread if it would wake later than that. */
void dl_renew_schedule_set_locked(struct dlock_handle *lock, int64_t at_ns);

/* Removes the handle from both heaps. */
void dl_renew_schedule_remove_locked(struct dlock_handle *lock);

/* The handle got a lease, or its lease another end: sets both of its moments. */
void dl_renew_schedule_hold_locked(struct dlock_handle *lock);

/* The renewer may renew the handle again: a renewal that came due meanwhile is due now. */
void dl_renew_schedule_resume_locked(struct dlock_handle *lock);

/* Lowers the limit of exchanges to what this handle needs. */
void dl_renew_schedule_limit_locked(const struct dlock_handle *lock);

/* How long an exchange that renews the lock may last, so that others fit in before the lease ends.
 */
int64_t dl_renew_schedule_exchange_ns_locked(const struct dlock_handle *lock);

/* The store has, or may have, a lease that the handle has lost: the renewer gives it back, or an
 * unlock of the handle. Does nothing if that is due already. */
void dl_renew_schedule_must_give_back_locked(struct dlock_handle *lock);

/* Ends must_give_back. true: the caller has to give the lease back. */
bool dl_renew_schedule_take_give_back_locked(struct dlock_handle *lock);

/* Wakes the thread, to check everything again. */
void dl_renew_schedule_wake_locked(struct dlock_client *client);

#endif
