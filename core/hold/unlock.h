/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - the end of a claim: the lease goes to another handle of the client (a
 * hand-off), or back to the store.
 */
#ifndef DL_UNLOCK_H
#define DL_UNLOCK_H

#include "hold/handle.h"
#include "hold/release_fsm.h"

/* What decides on a hand-off; all of it is known without I/O. */
struct dl_unlock_handoff {
    uint32_t handoffs, handoffs_most;   /* hand-offs so far, and the limit of both handles */
    uint64_t fence;                     /* of the grant; 0: none */
    uint32_t fence_room;                /* number of fences after it that belong to the grant */
    int64_t now_ns, contended_since_ns; /* see name_state.h */
    int64_t left_ns, ttl_ns;            /* of the lease */
    int64_t confirmed_ns;               /* when the store confirmed the lease last */
};

/* Pure; for tests. */
bool dl_unlock_handoff_allowed(const struct dl_unlock_handoff *input);

/* Most elements of a batch: what is sent together is answered together, and a store with one thread
 * serves others only before and after it. */
#define DL_BATCH_MOST 64

/* Deadlines of one batch differ by this at most [BAT-3]. An exchange that begins at the deadline of
 * a call and one to withdraw the request have 40 ms each: with this they fit into the 100 ms of C8.
 */
#define DL_BATCH_SPREAD_NS (DL_GRACE_NS / 2)

/* One release. */
struct dl_release {
    struct dlock_handle *lock;
    struct dlock_error *err;
    struct dl_release_fsm fsm;
    bool alone; /* a thread of the driver makes it, which must not wait for others */
};

/* Whether the plugin has the slots, and the client can use them. */
bool dl_unlock_batch_is_there(const struct dlock_client *client);

/* Of each deadline to that of the first element of a batch: no two differ by more than the spread.
 */
bool dl_unlock_batch_is_close(int64_t a_ns, int64_t b_ns);

/* Makes one exchange for n releases of one client, at most DL_BATCH_MOST. All are in
 * DL_RELEASE_SEND, with deadlines that are close. */
void dl_unlock_batch_send(struct dl_release *const *releases, size_t n);

/* Both functions end within op_timeout and by until_ns, or 40 ms after a renewal for which they had
 * to wait. If until_ns has passed, the claim ends and the store is not asked: UNAVAILABLE. */
enum dlock_status dl_unlock(struct dlock_handle *lock, int64_t until_ns, struct dlock_error *err);

/* Releases the lock at any depth of recursion, also while an operation is under way. Releases the
 * mutex meanwhile. */
enum dlock_status dl_unlock_whole_locked(struct dlock_handle *lock, int64_t until_ns,
                                         struct dlock_error *err);

/*
 * The same in parts, for an exchange that many unlocks share. After begin the
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

/* Whether the release is to be sent, by dl_unlock_batch_send. */
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
