/* SPDX-License-Identifier: MIT */
/*
 * acquire.h - opens the store and takes the lock in a thread of its own, so that the main thread is
 * free for signals: the first one cancels the wait, a second one ends the process.
 */
#ifndef CLI_ACQUIRE_H
#define CLI_ACQUIRE_H

#include "args.h"
#include "holder.h"
#include "signals.h"

#include <pthread.h>
#include <stdatomic.h>

enum acquire_how { ACQUIRE_DEFAULT, ACQUIRE_TRY, ACQUIRE_TIMED };

struct acquire {
    /* what is wanted */
    struct cli *cli;
    const struct cli_name *name;
    struct dlock_options options;
    enum acquire_how how;
    int64_t wait_ms;
    bool shared;

    /* what came of it */
    enum dlock_status status;
    struct dlock_error err;
    bool nested;              /* INVALID because an enclosing run holds the name */
    char holder[HOLDER_SIZE]; /* BUSY, TIMEOUT: who held the name, "" if nobody can tell */
    struct dlock_client *client;
    struct dlock *lock;

    /* between the two threads */
    int done; /* an eventfd */
    atomic_bool canceled;
    _Atomic(struct dlock *) waiting; /* to be cancelled */
    pthread_t asker;                 /* of --verbose: says who holds the lock that is waited for */
    bool asked;                      /* there is an asker */
    atomic_bool asker_done;
};

/*
 * Returns 0 when status says how it went, or the number of the signal that arrived before. client
 * and lock are the caller's in either case: acquire_fini, which also gives back what was had too
 * late.
 */
int acquire_lock(struct acquire *acquire, const struct signals *signals);

/* Frees what is left: unlocks, disconnects. If the asker still waits for an answer of the store,
 * the client stays open: the process is about to end. */
void acquire_fini(struct acquire *acquire);

#endif
