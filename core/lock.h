/* SPDX-License-Identifier: MIT */
/*
 * lock.h - a handle: one name, its options and, while held, the lease. The handle is the owner.
 *
 *   FREE --acquire.c--> HELD --(renewals: hold.c)--> HELD ...
 *                        |--unlock--> FREE
 *                        `--loss----> LOST --unlock acknowledges--> FREE
 *
 * Besides its state a handle has a phase: what call is being made on it just now. One at a time.
 */
#ifndef DL_LOCK_H
#define DL_LOCK_H

#include "client.h"
#include "lease.h"

enum dl_phase { DL_PHASE_IDLE, DL_PHASE_ACQUIRING, DL_PHASE_RENEWING, DL_PHASE_RELEASING };

struct dlock {
    /* constant after dlock_new */
    struct dlock_client *client;
    int64_t ttl_ms, wait_ms, op_timeout_ms, max_hold_ms, poll_max_ms;
    bool auto_renew, must_fence;
    void *user;

    /* atomic */
    struct dl_lease lease;
    _Atomic uint64_t fence;

    /* guarded by client->mutex */
    struct dlock *prev, *next;
    pthread_cond_t changed; /* phase, keeper_busy, in_callback, cancel */
    enum dl_phase phase;
    enum dlock_status cancel;   /* what the waiting call is to return; OK: go on waiting */
    struct dl_session *watched; /* the session that a watch or lock of req runs on now */
    struct dl_session *pinned;  /* SESSION backends, while acquiring and held */
    bool keeper_busy;           /* the keeper is renewing req */
    bool in_callback;
    bool repeatable; /* an unlock ended without an answer and may be repeated */
    bool told;       /* the loss of the present acquisition has been reported */
    unsigned queued; /* calls that wait for another one's phase to end */
    enum dlock_reason reason;
    int64_t hold_until_ns; /* end of max_hold; DL_NEVER */
    int64_t renew_at_ns;   /* DL_NEVER: no renewal */
    int64_t lease_ms;      /* what the store counts; it may be less than the ttl */
    unsigned renew_failures;
    struct dl_due due;
    struct dl_event_node event;

    /* The attempt. Written by the thread that is in the phase; name and slot are constant. */
    struct dlock_request req;
    bool slot_used; /* the plugin may keep something there: unlock or forget is due [FGT-1] */
};

enum dlock_status dl_lock_new(struct dlock_client *client, const void *name, size_t name_len,
                              const struct dlock_options *options, struct dlock **out,
                              struct dlock_error *err);
void dl_lock_free(struct dlock *lock);

/* In a forked child: memory only. */
void dl_lock_free_forked(struct dlock *lock);

enum dlock_status dl_lock_unlock(struct dlock *lock, struct dlock_error *err);

/* The same by deadline_ns. The mutex is held before and after, not in between. */
enum dlock_status dl_lock_release_locked(struct dlock *lock, int64_t deadline_ns,
                                         struct dlock_error *err);

enum dlock_status dl_lock_renew(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err);

/* The call waiting on the handle, on every handle, returns status (CANCELED, CLOSED). */
void dl_lock_cancel(struct dlock *lock, enum dlock_status status);
void dl_lock_cancel_all_locked(struct dlock_client *client, enum dlock_status status);

/* With the mutex held: waits until no call is made on the handle and the keeper is done with it, or
 * it is being acquired, which may take for ever. */
void dl_lock_settle_locked(struct dlock *lock);

/* With the mutex held: the phase is over. */
void dl_lock_idle_locked(struct dlock *lock);

/* A session for an exchange of this handle: the pinned one, or one of the pool; and back. */
enum dlock_status dl_lock_session(struct dlock *lock, enum dl_use use, int64_t deadline_ns,
                                  struct dl_session **out, struct dlock_error *err);
void dl_lock_session_put(struct dlock *lock, enum dl_use use, struct dl_session *session,
                         enum dlock_status status);

/* The attempt is over: the plugin may clean up, unless it did so at unlock [UNL-4]. */
void dl_lock_forget(struct dlock *lock);

/* A lease that is of no use to us, or may be there: one release by token, answer or not; with a
 * SESSION backend the end of the session is the release [SES-2]. The attempt is over. */
void dl_lock_give_back(struct dlock *lock, enum dl_use use, int64_t deadline_ns);

/* SESSION backends: gives the pinned session back after its lock ended with status. */
void dl_lock_unpin(struct dlock *lock, enum dlock_status status);

/* With the mutex held: a lost lock that nobody is at has its session still. */
bool dl_lock_is_left_locked(struct dlock *lock, int64_t now_ns);

#endif
