/* SPDX-License-Identifier: MIT */
/*
 * set.h - several names that are held together: all of them, or none.
 *
 * A set has one handle for each name, in the order of the bytes of the names. All sets acquire in
 * this order, so that sets never wait for each other in a circle. set.c makes and frees a set and
 * answers questions about it; set_acquire.c acquires and unlocks its members.
 *
 * LOCK ORDER: set->mutex, then client->mutex. set->mutex is never held during an exchange.
 */
#ifndef DL_SET_H
#define DL_SET_H

#include "hold/handle.h"

#include <dlock/set.h>

enum dl_set_phase { DL_SET_FREE, DL_SET_BUSY, DL_SET_ACQUIRING, DL_SET_HELD };

struct dlock_set {
    /* constant after dlock_set_new */
    struct dlock_client *client;
    size_t count;
    struct dlock *members[DLOCK_SET_MAX]; /* in the order of the names */
    unsigned char order[DLOCK_SET_MAX];   /* where in members the name of this index is */

    _Atomic bool held; /* an acquire succeeded, and no unlock began */

    pthread_mutex_t mutex;
    pthread_cond_t changed;  /* of phase and calls */
    enum dl_set_phase phase; /* BUSY: it is unlocked or renewed now */
    unsigned calls;          /* functions that run on the set now; dlock_set_free waits for them */
    bool canceled;           /* the acquire in progress, or the next one, has to end */
    struct dlock *acquiring; /* the member that is being acquired; NULL: none */
};

#endif
