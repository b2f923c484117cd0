/* SPDX-License-Identifier: MIT */
/*
 * renewer.h - the one thread of a client: renews what is due, in batches, notices what has run out,
 * and tells the application (C5, C14).
 *
 * It starts with the first acquisition. It sleeps on a timer of CLOCK_BOOTTIME until the earliest
 * due time, so that it is up right after a suspend; an uncontended lock and unlock does not wake
 * it. An exchange ends with the earliest end of any lease of the client, so that a store that does
 * not answer delays no news of a loss; but it has 200 ms, or a fifth of the shortest lease, or
 * leases that end one after the other would leave no time to renew the rest.
 *
 * Its priority and processors are those of the process' main thread, as far as the system allows,
 * and not those of the thread that happened to take the first lock.
 *
 * What it does for one lease does not depend on how many others there are, but for two heaps, and a
 * look at all handles now and then: a client may hold 100,000.
 */
#ifndef DL_RENEWER_H
#define DL_RENEWER_H

#include "hold/schedule.h"

#include <dlock/plugin.h>
#include <pthread.h>
#include <stdbool.h>

struct dlock;
struct dlock_client;

#define DL_KEEPER_BATCH 128

/* Exchanges get this long at least for the sake of leases that end, and of handles that hold
 * nothing, whose ttl may be milliseconds: the news of such a loss may come as much later. */
#define DL_EXCHANGE_LEAST_NS INT64_C(200000000)

struct dl_renewer {
    struct dl_schedule schedule; /* of handles: the next moment to look at each */
    struct dl_schedule ends;     /* of those that hold a lease: when it ends */
    int64_t bound_ns; /* no handle wants an exchange of others to last longer; it may want
                         less than it did since bound_seen_ns */
    int64_t bound_seen_ns;
    pthread_t thread;
    bool running, stop;
    int wake_fd, timer_fd;
    unsigned late;         /* handles that are `late` */
    int64_t busy_until_ns; /* an exchange is under way that may last until then; 0: none is */
    int64_t armed_ns;      /* when it will wake by itself; INT64_MIN: it is awake */
    struct dlock *batch[DL_KEEPER_BATCH];
    struct dlock_lease_op ops[DL_KEEPER_BATCH];
    int64_t sent_ns[DL_KEEPER_BATCH];
};

void dl_renewer_init(struct dl_renewer *keeper);
void dl_renewer_fini(struct dl_renewer *keeper);

/* Starts the thread unless it runs. With the client's mutex held. OK or NOMEM. */
enum dlock_status dl_renewer_start(struct dlock_client *client, struct dlock_error *err);

/* Ends and joins it. Without the mutex. */
void dl_renewer_stop(struct dlock_client *client);

/* Room in the schedules for one more handle, and giving that back. false: no memory. With the mutex
 * held. */
bool dl_renewer_reserve(struct dlock_client *client);
void dl_renewer_unreserve(struct dlock_client *client);

/* Puts lock into the schedule at at_ns, waking the thread if that is earlier than it would wake.
 * With the mutex held. */
void dl_renewer_set(struct dlock_client *client, struct dlock *lock, int64_t at_ns);
void dl_renewer_remove(struct dlock_client *client, struct dlock *lock);

/* lock has a lease, or another end of it: it is looked at when a renewal is due, and exchanges end
 * with it. dl_renewer_remove undoes that. With the mutex held. */
void dl_renewer_hold(struct dlock_client *client, struct dlock *lock);

/* A handle was made. With the mutex held. */
void dl_renewer_heed(struct dlock_client *client, const struct dlock *lock);

/* Whether a callback has to be told of a loss. With the mutex held. */
bool dl_renewer_losses_wait(const struct dlock_client *client);

/* true: the store may keep a lease for this lost handle, which came too late; to give it back is
 * the caller's now. With the mutex held. */
bool dl_renewer_take_late(struct dlock_client *client, struct dlock *lock);

/* Wakes the thread, to look at everything again. With the mutex held. */
void dl_renewer_wake(struct dlock_client *client);

/* The calling thread is the keeper: it may not wait for itself. With the mutex held. */
bool dl_renewer_is_self(const struct dlock_client *client);

#endif
