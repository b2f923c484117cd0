/* SPDX-License-Identifier: MIT */
/*
 * handle.h - a handle: one name, its options and, while held, the lease. The handle is the owner.
 *
 *   FREE --acquire.c--> HELD --(renewals: held.c)--> HELD ...
 *                        |--unlock--> FREE
 *                        `--loss----> LOST --unlock acknowledges--> FREE
 *
 * Besides its state a handle has a phase: what call is being made on it just now. One at a time.
 */
#ifndef DL_HANDLE_H
#define DL_HANDLE_H

#include "client/lock_options.h"
#include "hold/claim.h"
#include "hold/renewal.h"
#include "session/wait_list.h"

enum dl_phase { DL_PHASE_IDLE, DL_PHASE_ACQUIRING, DL_PHASE_RENEWING, DL_PHASE_RELEASING };

/* What a call that acquires has besides, on its stack. Guarded by client->mutex. */
struct dl_waiting {
    struct dlock *lock;
    enum dlock_status cancel;   /* what the call is to return; OK: go on waiting */
    struct dl_session *watched; /* the session that a watch or lock of the claim runs on now */
    struct dl_local_waiter turn;
    bool ready;  /* in line, and waiting for no answer: could be handed a claim */
    bool handed; /* got the claim of the holder, and this is what it was worth: */
    int64_t handed_until_ns;
};

/* A client may hold 100,000 of them: what only some need is elsewhere, and pointed to. */
struct dlock {
    /* constant after dlock_new */
    struct dlock_client *client;
    struct dl_lock_options *terms;
    void *user;
    struct dl_name_state *name;

    /* atomic */
    struct dl_lease lease;
    _Atomic uint64_t fence;

    /* guarded by client->mutex */
    struct dlock *prev, *next;
    struct dl_wait_list changed; /* phase, keeper_busy, in_callback, and what is in waiting */
    struct dl_waiting *waiting;  /* NULL: no call takes the lock by dl_acquire */
    enum dl_phase phase;
    unsigned queued;  /* calls that wait for another one's phase to end */
    unsigned ending;  /* those of them that are unlocks, and end the claim */
    unsigned depth;   /* recursive: acquisitions beyond the first */
    bool keeper_busy; /* the keeper is renewing the claim */
    bool in_callback;
    bool canceled;       /* by dlock_cancel, while no call took the lock: the next one ends */
    bool repeatable;     /* an unlock ended without an answer and may be repeated */
    bool told;           /* the loss of the present acquisition has been reported */
    bool downgrading;    /* the store may not know yet that the claim is shared */
    bool counted;        /* its name counts it as a holder, */
    bool counted_reader; /* as one of the readers */
    bool late;           /* see dl_renewer_take_late */
    enum dlock_reason reason;
    struct dl_renewal renewal; /* what it says of the owner is constant */
    struct dl_due due;         /* when the keeper looks at it, and */
    struct dl_due end;         /* when its lease ends: both in the keeper's schedules, or neither */
    struct dl_event_node event;

    /* The attempt; changes hands at a hand-off. Used by the thread that is in the phase. */
    struct dl_claim *claim;
};

enum dlock_status dl_handle_new(struct dlock_client *client, const void *name, size_t name_len,
                                const struct dlock_options *options, struct dlock **out,
                                struct dlock_error *err);
void dl_handle_free(struct dlock *lock);

/* Whether the store has what the handle and the mode ask for: OK or UNSUPPORTED. Before the first
 * session the store is taken to have all that its plugin can do. */
enum dlock_status dl_handle_supported(const struct dlock *lock, enum dlock_mode mode,
                                      struct dlock_error *err);

/* In a forked child: memory, and the descriptors of a session of its own. */
void dl_handle_free_forked(struct dlock *lock);

/* The call that acquires on the handle, or else the next one, returns CANCELED; and taking that
 * back. */
void dl_handle_cancel(struct dlock *lock);
void dl_handle_cancel_reset(struct dlock *lock);

/* The calls that wait on any handle return status. */
void dl_handle_cancel_all_locked(struct dlock_client *client, enum dlock_status status);

/* Behind all other handles of the client. With the mutex held. */
void dl_handle_put_last_locked(struct dlock *lock);

/* What of a claim is its handle's: label and bounds. */
void dl_handle_mark_claim(struct dlock *lock);

/* With the mutex held: something about the handle has changed. */
void dl_handle_changed_locked(struct dlock *lock);

/* With the mutex held: sleeps until something about the handle changes, until_ns, or for no reason.
 */
void dl_handle_sleep_locked(struct dlock *lock, int64_t until_ns);

/* With the mutex held: sleeps until something about the handle changes. dlock_free waits for us. */
void dl_handle_await_change_locked(struct dlock *lock);

/* With the mutex held: waits until no call is made on the handle and the keeper is done with it, or
 * it is being acquired, which may take for ever. */
void dl_handle_settle_locked(struct dlock *lock);

/* With the mutex held: the phase is over. */
void dl_handle_idle_locked(struct dlock *lock);

#endif
