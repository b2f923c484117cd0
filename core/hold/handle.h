/* SPDX-License-Identifier: MIT */
/*
 * handle.h - a handle: one name, its options and, while it holds the lock, the lease. The handle is
 * the owner.
 *
 *   FREE --acquire.c--> HELD --(renewals: held.c)--> HELD ...
 *                        |--unlock--> FREE
 *                        `--loss----> LOST --unlock acknowledges--> FREE
 *
 * Besides its state a handle has a phase: the call that is made on it now, one at a time.
 *
 * The folder hold/ has the life of a lease. Pure files decide: lease.h (the state and the
 * validity), renewal.h, release_fsm.h, schedule.h. claim.h is the lease as the store sees it;
 * held.h changes the state; unlock.h ends it or hands it on; renewer.h renews it, with
 * renew_schedule.h (what is due).
 */
#ifndef DL_HANDLE_H
#define DL_HANDLE_H

#include "client/client.h"
#include "hold/claim.h"
#include "hold/renewal.h"
#include "hold/schedule.h"
#include "session/wait.h"
#include "sys/probe.h"

enum dl_phase {
    DL_PHASE_IDLE,
    DL_PHASE_ACQUIRING,
    DL_PHASE_RENEWING,
    DL_PHASE_RELEASING
} __attribute__((packed));

/* The part of a handle that only a call that acquires needs, on the stack of the call.
 * client->mutex guards it. */
struct dl_waiting {
    struct dlock_handle *lock;
    enum dlock_status cancel; /* the status with which the call must return; DLOCK_OK: go on */
    bool ready;  /* in the local queue, and waits for no answer: can be handed a claim */
    bool handed; /* got the claim of the holder, valid until handed_until_ns */
    int64_t handed_until_ns;
    struct dl_session *watched; /* the session on which watch or lock runs now */
    struct dl_local_waiter waiter;
};

/* A client may have 100,000 handles: what few of them need is elsewhere, and small members stand
 * together. */
struct dlock_handle {
    /* constant after dlock_new */
    struct dlock_client *client;
    struct dl_lock_options *options;
    void *user;
    struct dl_name_state *name;

    /* atomic */
    struct dl_lease lease;
    _Atomic uint64_t fence;
    _Atomic uint32_t permit;

    /* guarded by client->mutex */
    uint16_t queued; /* calls that wait for the end of another call */
    uint16_t ending; /* the unlocks among them that end the claim */
    struct dlock_handle *prev, *next;
    struct dl_wait_list changed; /* of phase, renewer_busy, in_callback, and of *waiting */
    struct dl_waiting *waiting;  /* NULL: no call acquires the lock */
    unsigned depth;              /* recursive: acquisitions beyond the first */
    enum dl_phase phase;
    uint8_t reason;        /* enum dlock_reason, of the loss */
    bool renewer_busy : 1; /* the renewer uses the claim */
    bool in_callback : 1;
    bool in_set : 1;            /* constant; its set says when the release keeps the name */
    bool canceled : 1;          /* by dlock_cancel while no call acquired: the next one ends */
    bool repeatable : 1;        /* an unlock ended without an answer; it may be repeated */
    bool may_be_kept : 1;       /* one of these may have been executed, and have kept the name */
    bool reported : 1;          /* the loss of the present acquisition has been reported */
    bool downgrading : 1;       /* the store may not know yet that the claim is shared */
    bool in_hold : 1;           /* its class counts the handle as held */
    bool is_holder : 1;         /* its name counts the handle as a holder, */
    bool is_reader : 1;         /* and that as a reader */
    bool must_give_back : 1;    /* the store may keep the lease after the loss */
    bool kill_disarmed : 1;     /* out of the timer of deadman.h until the claim ends */
    int64_t since_ns;           /* of the acquisition, */
    int64_t keep_ms;            /* and for how long from then on its release keeps the name */
    struct dl_renewal renewal;  /* its member `automatic` is constant */
    struct dl_due due;          /* when the renewer checks the handle */
    struct dl_due end;          /* when its lease ends; in both heaps of the renewer, or in none */
    struct dl_due *kill_end;    /* in the timer of deadman.h; NULL: not asked for */
    struct dl_event_node event; /* of its loss */
    struct dl_operation *operation; /* of dlock_op_start; NULL before the first one */

    /* The attempt; a hand-off swaps it. The thread that is in the phase uses it. */
    struct dl_claim *claim;
};

static inline struct dl_waiting *dl_handle_waiting(struct dl_local_waiter *waiter)
{
    return (struct dl_waiting *)(void *)((char *)waiter - offsetof(struct dl_waiting, waiter));
}

/* An exchange about the handle has ended with status. */
static inline void dl_handle_answered(struct dlock_handle *lock, enum dlock_status status)
{
    if (status != DLOCK_UNKNOWN)
        return;
    dl_stats_unknown(lock->name->stats);
    DL_PROBE(unknown, lock, lock->phase, 0);
}

/* Whether the store can do what the handle and the mode need: OK, UNSUPPORTED, or CONFIG for a ttl
 * that is too long. Before the first session the capabilities of the plugin count, and any ttl is
 * OK. */
enum dlock_status dl_handle_supported(const struct dlock_handle *lock, enum dlock_mode mode,
                                      struct dlock_error *err);

/* The ttl of the handle's leases, and the bound of an exchange about them: what the options ask for
 * and the store can give. Both may become longer when a session is opened. */
int64_t dl_handle_ttl_ms(const struct dlock_handle *lock);
int64_t dl_handle_op_timeout_ms(const struct dlock_handle *lock);

/* C3: how much has to be left of a lease that the store counts as lease_ms. A lease below the ttl
 * may be the rest of a longer one, so that a tenth of it says nothing: a tenth of the ttl counts,
 * and at most a second of it where a queue grants short leases. A session gives the same lease each
 * time, and a tenth of that counts. */
int64_t dl_handle_least_ns(const struct dlock_handle *lock, int64_t lease_ms);

/* Sets the members of the claim that come from the handle's options, but not the ttl. */
void dl_handle_mark_claim(struct dlock_handle *lock);

/* Begins a new attempt with this token, and with the ttl that the store gives now. */
void dl_handle_begin_claim_locked(struct dlock_handle *lock,
                                  const unsigned char token[DLOCK_TOKEN_SIZE]);

/* Adds the handle to the list of its client, at the tail; removes it; moves it to the tail. */
void dl_handle_link_locked(struct dlock_handle *lock);
void dl_handle_unlink_locked(struct dlock_handle *lock);
void dl_handle_move_to_tail_locked(struct dlock_handle *lock);

/* Something about the handle has changed: wakes the threads that sleep here. */
void dl_handle_changed_locked(struct dlock_handle *lock);

/* Sleeps until something about the handle changes, until until_ns, or for no reason. */
void dl_handle_sleep_locked(struct dlock_handle *lock, int64_t until_ns);

/* The same without a bound; dlock_free waits for the calling thread. */
void dl_handle_await_change_locked(struct dlock_handle *lock);

/* Waits until no call and no renewal is in progress on the handle, or until it is being acquired,
 * which may take for ever. */
void dl_handle_wait_for_renewal_locked(struct dlock_handle *lock);

/* Frees a handle that no thread and no list knows any more. Without the mutex. */
void dl_handle_discard(struct dlock_handle *lock);

#endif
