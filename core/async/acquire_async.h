/* SPDX-License-Identifier: MIT */
/*
 * acquire_async.h - the second driver of the state machine of an acquire: an attempt on which no
 * thread waits.
 *
 * A thread of driver.h runs the attempt until it has to wait, and goes on when the wait is over or
 * dl_handle_changed_locked was called for the handle. It waits in the local queue and for a handle
 * of the client as a thread would. It does not wait in the store: slots that block (lock, watch)
 * are not used. If the plugin has wait_any, a thread of the driver waits there for all attempts,
 * and sets `news`; else the store is polled, with a queue entry where the store has a queue.
 */
#ifndef DL_ACQUIRE_ASYNC_H
#define DL_ACQUIRE_ASYNC_H

#include "acquire/acquire_steps.h"

enum dl_acquire_async_wait {
    DL_ACQUIRE_ASYNC_RUNS,
    DL_ACQUIRE_ASYNC_SLEEPS,  /* a step SLEEP */
    DL_ACQUIRE_ASYNC_WATCHES, /* a step WATCH */
    DL_ACQUIRE_ASYNC_HANDOFF, /* a handle of the client may hand its claim on */
    DL_ACQUIRE_ASYNC_SESSION  /* all sessions of the client are in use */
};

struct dl_acquire_async {
    struct dl_acquire a;
    int64_t until_ns;         /* of the wait; before the start: the deadline of the call */
    enum dlock_status status; /* of the entry into the local queue */
    unsigned polls;           /* for a session */
    uint8_t waits;            /* enum dl_acquire_async_wait */
    bool wait, started, held; /* held: by a handle of the client, during the wait */
    bool apart;               /* dl_acquire_async_prepare leaves the exchange to its caller */
    bool news; /* the store has said since the last try that another one is worth it */

    /* of op.h */
    bool watching; /* is counted in the run queue */
    bool alone;    /* its next exchange is one that no batch has */
};

/* Begins: checks, and enters the local queue. OK: run it. Another status: nothing was begun.
 * waiter: the number for wait_any; 0: the plugin has no such slot. */
enum dlock_status dl_acquire_async_begin_locked(struct dl_acquire_async *async,
                                                struct dlock_handle *lock, enum dlock_mode mode,
                                                int64_t timeout_ms, uint32_t waiter,
                                                struct dlock_error *err);

/*
 * Goes on. false: it waits until async->until_ns or a change of the handle. true: it has ended with
 * *status, and dl_acquire_steps_end_locked has to follow.
 *
 * stalled: the store has not answered an exchange that began after this attempt became ready: the
 * next exchange is not made, and counts as failed.
 */
bool dl_acquire_async_run(struct dl_acquire_async *async, bool stalled, enum dlock_status *status,
                          struct dlock_error *err);

enum dl_acquire_async_next {
    DL_ACQUIRE_ASYNC_WAITS, /* as false of run */
    DL_ACQUIRE_ASYNC_ENDED, /* as true of run */
    DL_ACQUIRE_ASYNC_TRIES, /* a TRY or REFRESH is to be made, by try_batch.h */
    DL_ACQUIRE_ASYNC_TALKS  /* another exchange is to be made, by run */
};

/* The same without an exchange: goes on until one is to be made. */
enum dl_acquire_async_next dl_acquire_async_prepare(struct dl_acquire_async *async,
                                                    enum dlock_status *status,
                                                    struct dlock_error *err);

#endif
