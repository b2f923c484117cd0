/* SPDX-License-Identifier: MIT */
/* watcher.h - hears of the next change of a node. */
#ifndef ZK_WATCHER_H
#define ZK_WATCHER_H

#include "link.h"

/*
 * The library keeps a watcher until its node changes, its user has gone, or the session ends; so it
 * has memory of its own and outlives its user. A watcher is for one call that is sent.
 */
struct zk_watcher {
    struct zk_watcher *next, **link; /* the link's list */
    bool fired;                      /* the node changed, or the session ended; under the mutex */
    bool pending;                    /* the library has it, or may keep it with the answer */
    bool kept;                       /* the library has answered, and keeps it */
    bool unused;                     /* its user has gone */
    bool children;                   /* of the node, and not of its value */
    char *path;                      /* of the node, while it is pending; NULL: not known */
    struct zk_wait *wait;            /* woken by it; NULL: nobody. Under the mutex */
};

/* NULL: no memory. */
struct zk_watcher *zk_watcher_new(struct zk_link *link);
/* Nobody waits for it any more. NULL is fine. */
void zk_watcher_free(struct zk_link *link, struct zk_watcher *watcher);

/* A thread that waits for a watcher or an interrupt. */
struct zk_wait {
    struct zk_link *link;
    pthread_cond_t cond;
    bool interrupted;
};
/* Sleeps until the watcher has fired (OK), the wait is interrupted (CANCELED) or the deadline
 * (TIMEOUT). wait->cond is made and destroyed by it. *where: under the mutex, set to wait
 * meanwhile, for the one who interrupts. *interrupted: sticky, under the mutex. */
enum dlock_status zk_watcher_await(struct zk_link *link, struct zk_watcher *watcher,
                                   struct zk_wait **where, const bool *interrupted,
                                   int64_t deadline_ns);
/* Wakes it. With the mutex held. */
void zk_watcher_interrupt(struct zk_wait *wait);

/* ---- for link.c, connection.c and flight.c, with the mutex held ---- */

/* watcher_fn of the library; context: the watcher. */
void zk_watcher_hear(zhandle_t *handle, int type, int state, const char *path, void *context);
/* It is about to be given to the library. */
void zk_watcher_begin(struct zk_watcher *watcher, const char *path, bool children);
/* Its call has ended. kept: the library keeps it. */
void zk_watcher_answer(struct zk_link *link, struct zk_watcher *watcher, bool kept);
/* The session has ended. */
void zk_watcher_fire_all(struct zk_link *link);
/* The library's handle is gone. */
void zk_watcher_forget_all(struct zk_link *link);

#endif
