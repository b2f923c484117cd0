/* SPDX-License-Identifier: MIT */
/*
 * rivals.h - a holder that looks at its claim all the time, and a rival that waits for the same
 * name, each with a client of its own: until when did the one claim the name, and since when has
 * the other had it? (C1, C2, C5) They abort if something of their own fails.
 */
#ifndef DLT_ZK_RIVALS_H
#define DLT_ZK_RIVALS_H

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)

struct holder {
    struct dlock_client *client;
    struct dlock_handle *lock;
    pthread_t thread;
    uint64_t fence;
    _Atomic int64_t
        claimed_ns;           /* it had the lock at this moment, as it thinks; the last one seen */
    _Atomic int64_t until_ns; /* the end of its lease, as told then */
    _Atomic int64_t told_ns;  /* when it was told of the loss; 0: it was not */
    _Atomic bool over;
};

struct rival {
    struct dlock_client *client;
    struct dlock_handle *lock;
    pthread_t thread;
    enum dlock_status status;
    char message[256];          /* when it is not OK */
    _Atomic int64_t granted_ns; /* 0: not yet */
};

int64_t rivals_now_ns(void);
void rivals_sleep_ms(int64_t ms);

/* Takes the name; its client renews it by itself. The struct does not move until the end. */
void holder_begin(struct holder *holder, const char *uri, const char *name);
/* It claims the name now. */
bool holder_claims(const struct holder *holder);
/* Gives the name back, if it has it. */
void holder_end(struct holder *holder);

/* Waits for the name in a thread, for a minute at most. */
void rival_begin(struct rival *rival, const char *uri, const char *name);
/* True: it has the name, within so many ms from now. */
bool rival_granted(const struct rival *rival, int64_t ms);
/* Gives the name back. Returns its fence; 0: it never had it. */
uint64_t rival_end(struct rival *rival);

#endif
