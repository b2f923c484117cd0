/* SPDX-License-Identifier: MIT */
/* hammer.h - a thread that tries for a lock all the time, and must not get it before a waiter. */
#ifndef DLT_HAMMER_H
#define DLT_HAMMER_H

#include "waiter.h"

struct dlt_hammer {
    struct dlock_handle *lock;
    const struct dlt_waiter *waiter; /* who unlocks by himself */
    int spins;                       /* no rest between two attempts: the store bears it */
    pthread_t thread;
    _Atomic int stop;
};

/* The name has to be held, and the waiter to stand in line. */
void dlt_hammer_start(struct dlt_hammer *hammer, const struct dlt_run *run,
                      struct dlock_handle *lock, const struct dlt_waiter *waiter);
void dlt_hammer_stop(struct dlt_hammer *hammer);

#endif
