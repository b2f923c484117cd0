/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - the end of a claim: the lease goes to another handle of the client (handoff.h), or
 * back to the store.
 */
#ifndef DL_UNLOCK_H
#define DL_UNLOCK_H

#include "hold/unlock_batch.h"

/* Both functions end within op_timeout and by until_ns, or 40 ms after a renewal for which they had
 * to wait. If until_ns has passed, the claim ends and the store is not asked: UNAVAILABLE. */
enum dlock_status dl_unlock(struct dlock_handle *lock, int64_t until_ns, struct dlock_error *err);

/* Releases the lock at any depth of recursion, also while an operation is under way. Releases the
 * mutex meanwhile. */
enum dlock_status dl_unlock_whole_locked(struct dlock_handle *lock, int64_t until_ns,
                                         struct dlock_error *err);

/*
 * The same in parts, for an exchange that many unlocks share (unlock_batch.h). After begin the
 * unlock is over, or needs an exchange of the release alone, or has other work, which rest does.
 */
enum dl_unlock_ending {
    DL_UNLOCK_NOTHING,   /* no work: the status is known */
    DL_UNLOCK_RELEASE,   /* release the lease in the store */
    DL_UNLOCK_LOST,      /* none: the loss is acknowledged */
    DL_UNLOCK_GIVE_BACK, /* the same, and give back a lease that the store may keep */
    DL_UNLOCK_HANDED     /* another handle has the lease; clean up its old claim */
};

struct dl_unlock {
    struct dlock_handle *lock;
    struct dlock_error *err;
    enum dl_unlock_ending ending;
    enum dlock_status status;
    struct dl_release release; /* of RELEASE, if the store is asked */
    int64_t deadline_ns;
    bool asks;  /* the store */
    bool again; /* an unlock before this one ended without an answer */
};

/* Whether begin would wait for another call on the handle, or for a renewal. */
bool dl_unlock_waits_locked(const struct dlock_handle *lock);

/* Whether the unlock may have an exchange of its own to make, besides a release: it gives back what
 * the store may keep after a loss, or withdraws a queue entry after a hand-off. */
bool dl_unlock_withdraws_locked(struct dlock_handle *lock);

void dl_unlock_begin_locked(struct dl_unlock *unlock, struct dlock_handle *lock, bool whole,
                            int64_t until_ns, struct dlock_error *err);

/* Whether the release is to be sent, and by unlock_batch.h. */
bool dl_unlock_is_release(const struct dl_unlock *unlock);

/* Does what begin has left, with the exchanges that it takes. Without the mutex. */
void dl_unlock_rest(struct dl_unlock *unlock);

/* What comes after the release, if that had its exchanges. Without the mutex. A release that should
 * have kept the name, and may be repeated, leaves the attempt as it is (C22). */
void dl_unlock_released(struct dl_unlock *unlock);

/* Whether there is such an attempt: the handle is free, and no call is made on it. */
bool dl_unlock_pends_locked(const struct dlock_handle *lock);

/* Ends it: the unlock will not be repeated. Releases the mutex meanwhile. */
void dl_unlock_give_up_locked(struct dlock_handle *lock);

/* Ends the phase. Returns the status. */
enum dlock_status dl_unlock_end_locked(struct dl_unlock *unlock);

#endif
