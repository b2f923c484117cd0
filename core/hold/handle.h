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

#include "client/client.h"
#include "hold/claim.h"
#include "hold/renewal.h"
#include "hold/schedule.h"
#include "session/wait_list.h"

enum dl_phase { DL_PHASE_IDLE, DL_PHASE_ACQUIRING, DL_PHASE_RENEWING, DL_PHASE_RELEASING };

/* What a call that acquires has besides, on its stack. Guarded by client->mutex. */
struct dl_waiting {
    struct dlock *lock;
    enum dlock_status cancel;   /* what the call is to return; OK: go on waiting */
    struct dl_session *watched; /* the session that a watch or lock of the claim runs on now */
    struct dl_local_waiter waiter;
    bool ready;  /* in line, and waiting for no answer: could be handed a claim */
    bool handed; /* got the claim of the holder, and this is what it was worth: */
    int64_t handed_until_ns;
};

/* A client may hold 100,000 of them: what only some need is elsewhere, and pointed to. */
struct dlock {
    /* constant after dlock_new */
    struct dlock_client *client;
    struct dl_lock_options *options;
    void *user;
    struct dl_name_state *name;

    /* atomic */
    struct dl_lease lease;
    _Atomic uint64_t fence;

    /* guarded by client->mutex */
    struct dlock *prev, *next;
    struct dl_wait_list changed; /* phase, renewer_busy, in_callback, and what is in waiting */
    struct dl_waiting *waiting;  /* NULL: no call takes the lock by dl_acquire */
    enum dl_phase phase;
    unsigned queued;   /* calls that wait for another one's phase to end */
    unsigned ending;   /* those of them that are unlocks, and end the claim */
    unsigned depth;    /* recursive: acquisitions beyond the first */
    bool renewer_busy; /* the renewer uses the claim */
    bool in_callback;
    bool canceled;       /* by dlock_cancel, while no call took the lock: the next one ends */
    bool repeatable;     /* an unlock ended without an answer and may be repeated */
    bool reported;       /* the loss of the present acquisition has been reported */
    bool downgrading;    /* the store may not know yet that the claim is shared */
    bool is_holder;      /* its name counts it as a holder, */
    bool is_reader;      /* as one of the readers */
    bool must_give_back; /* the store has renewed the lease too late, after the loss */
    enum dlock_reason reason;
    struct dl_renewal renewal; /* what it says of the owner is constant */
    struct dl_due due;         /* when the renewer checks it, and */
    struct dl_due end;         /* when its lease ends: in both heaps of the renewer, or in none */
    struct dl_event_node event;

    /* The attempt; changes hands at a hand-off. Used by the thread that is in the phase. */
    struct dl_claim *claim;
};

static inline struct dl_waiting *dl_handle_waiting(struct dl_local_waiter *waiter)
{
    return (struct dl_waiting *)(void *)((char *)waiter - offsetof(struct dl_waiting, waiter));
}

/* Whether the store has what the handle and the mode ask for: OK or UNSUPPORTED. Before the first
 * session the store is taken to have all that its plugin can do. */
enum dlock_status dl_handle_supported(const struct dlock *lock, enum dlock_mode mode,
                                      struct dlock_error *err);

/* Copies into the claim what the handle's options say of it. */
void dl_handle_mark_claim(struct dlock *lock);

/* Adds the handle to the list of its client, at the tail; removes it; moves it to the tail. */
void dl_handle_link_locked(struct dlock *lock);
void dl_handle_unlink_locked(struct dlock *lock);
void dl_handle_move_to_tail_locked(struct dlock *lock);

/* Something about the handle has changed: wakes the threads that sleep here. */
void dl_handle_changed_locked(struct dlock *lock);

/* Sleeps until something about the handle changes, until until_ns, or for no reason. */
void dl_handle_sleep_locked(struct dlock *lock, int64_t until_ns);

/* The same without a bound; dlock_free waits for the calling thread. */
void dl_handle_await_change_locked(struct dlock *lock);

/* Waits until no call and no renewal is in progress on the handle, or until it is being acquired,
 * which may take for ever. */
void dl_handle_wait_for_renewal_locked(struct dlock *lock);

/* Frees a handle that no thread and no list knows any more. Without the mutex. */
void dl_handle_discard(struct dlock *lock);

#endif
