/* SPDX-License-Identifier: MIT */
/*
 * acquire.h - opens the store and takes the lock in a thread of its own, so that the main thread is
 * free for signals: the first one cancels the wait, a second one ends the process.
 */
#ifndef CLI_ACQUIRE_H
#define CLI_ACQUIRE_H

#include "args.h"
#include "signals.h"

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdatomic.h>

/* Now, on the clock of the leases. */
int64_t acquire_now_ms(void);

/* ---- what a command holds: the lock of one name, or a set of names ---- */

/* At most one of them; neither: nothing was made so far. */
struct held {
    struct dlock_handle *lock;
    struct dlock_set *set;
};

enum dlock_status held_unlock(const struct held *held, struct dlock_error *err);
enum dlock_state held_state(const struct held *held);
int64_t held_remaining_ms(const struct held *held);

/* The handle of the index'th name; NULL: there are not as many. */
const struct dlock_handle *held_member(const struct held *held, size_t index);

/* True: the lock is one of them. */
bool held_has(const struct held *held, const struct dlock_handle *lock);

#define HOLDER_SIZE 512 /* size of a buffer for the words */

struct acquire {
    /* the request */
    struct cli *cli;
    const struct cli_name *name;  /* the first of names; at the end: the one that is refused */
    size_t name_count;            /* 0 is 1; more: a set */
    struct dlock_options options; /* on_expiry: REPORT after the acquire if this store or its
                                   * options do not allow KILL */
    int64_t timeout_ms;           /* as of dlock_acquire */
    bool shared, timed, nowait;   /* --wait, --nowait were given */
    bool until_input;             /* of hold: it ends with its standard input */
    int parent; /* of hold: a pidfd, whose end ends the wait as SIGTERM; -1: none */
    bool join;  /* names that enclosing runs hold are not acquired */

    /* the result */
    enum dlock_status status;
    struct dlock_error err;
    struct dlock_node_error nodes[DLOCK_NODE_ERRORS_MAX]; /* of err */
    bool nested;   /* INVALID because an enclosing run holds the name */
    size_t joined; /* so many names are held by enclosing runs. OK and not 0: all are,
                    * and nothing was acquired */
    struct acquire_joined {
        char token[DLOCK_TOKEN_CHARS];
        uint64_t fence;
    } joins[DLOCK_SET_MAX];   /* in the order of the names */
    char holder[HOLDER_SIZE]; /* BUSY, TIMEOUT: the holder of the name; "": not known */
    struct dlock_client *client;
    struct held held;

    /* between the two threads */
    int done; /* an eventfd */
    atomic_bool canceled;
    atomic_bool waiting;        /* `held` is made, and can be cancelled */
    pthread_mutex_t held_mutex; /* while it is cancelled, `held` is not freed */
    pthread_t asker;            /* thread of --verbose: prints the holder during the wait */
    bool asked;                 /* asker was started */
    atomic_bool asker_done;
};

/* Returns 0, with the result in status; or the number of the signal that arrived before. The caller
 * calls acquire_fini in both cases: it also unlocks a lock that was acquired too late. */
int acquire_lock(struct acquire *acquire, const struct signals *signals);

/* Makes the request for a second acquire_lock, after acquire_fini. */
void acquire_reset(struct acquire *acquire, const struct cli_name *names);

/* Unlocks, disconnects, frees. If the asker still waits for an answer of the store, the client
 * stays open, because the process is about to end. */
void acquire_fini(struct acquire *acquire);

/* Prints the token and the fence of the lock, on one line in either form: "TOKEN FENCE", with "-"
 * for a store without fencing tokens; with --json an object. Returns the exit code: of a failed
 * write, else 0. */
int acquire_print(const struct acquire *acquire);

/* What the command prints when a lock was not acquired, and its exit code. */
struct refusal {
    bool skip_quietly;  /* nothing is printed if another owner holds the lock */
    long conflict_code; /* the exit code then; -1: that of the status */
};

/* True: another owner holds the lock. */
bool refusal_is_conflict(const struct acquire *acquire);

/* Prints why the lock was not acquired, and returns the exit code. rules: NULL: the usual ones. */
int refusal_report(struct acquire *acquire, const struct refusal *rules);

/* What a command does with its lock. Returns the exit code. */
typedef int refusal_use_fn(struct acquire *acquire, const struct signals *signals);

/* Acquires the lock and calls use; or prints why not. Frees what it acquired. Returns the exit
 * code. */
int refusal_or_use(struct acquire *acquire, refusal_use_fn *use);

#endif
