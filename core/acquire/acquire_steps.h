/* SPDX-License-Identifier: MIT */
/*
 * acquire_steps.h - the steps of an acquire that two drivers share: acquire.c, where a thread of
 * the application waits, and acquire_async.c, where no thread waits. The steps that wait are in
 * these two files.
 *
 * One thread at a time uses a struct dl_acquire.
 */
#ifndef DL_ACQUIRE_STEPS_H
#define DL_ACQUIRE_STEPS_H

#include "acquire/acquire_fsm.h"
#include "hold/handle.h"

/*
 * The messages of an acquire: why the store refuses a name although no owner may
 * hold it (plugin.h, [TRY-8]), and what the acquire waits for while the store fails. Each is logged
 * once as a warning; the first is also the error of the call.
 */
struct dl_acquire_text {
    struct dlock_error *busy; /* of the last answer, if that was BUSY with a text; else NULL */
    bool warned, failure_warned;
};

/* While a handle of this client holds the lock, the first waiter waits for a hand-off for this time
 * before it asks the store for a queue entry. */
#define DL_HANDOFF_WAIT_NS (5 * DL_NS_PER_MS)

/* What is kept of a grant until the handle holds the lock. */
struct dl_acquire_granted {
    uint64_t fence;
    int64_t lease_ms;
    uint32_t fence_room, permit, waiters;
};

/* An operation of dlock_op_start keeps one for as long as its handle lives. */
struct dl_acquire {
    struct dlock_handle *lock;
    struct dlock_error *err;   /* of the thread that makes the present step */
    struct dl_waiting waiting; /* the handle points to it */
    struct dl_acquire_fsm attempt;
    struct dl_acquire_granted granted; /* of the last trylock, lock or watch that was OK */
    struct dl_acquire_text text;
    int64_t begun_ns;       /* when the call began */
    int64_t now_ns;         /* when the last step ended; the first one: began */
    bool async;             /* no step may wait for the holder */
    uint32_t waiter;        /* by this number the store tells when to try again (wait_any); 0: it is
                               polled, if the call is async */
    bool begun;             /* the request has a token that is not used up */
    bool waits_for_handoff; /* the store was not asked yet */
    bool has_entry;         /* counted in the name's queue_entries */
    enum dlock_status
        failing; /* the last failure that was noted for the waiters behind this call */
};

static inline int64_t dl_acquire_steps_now(struct dl_acquire *a)
{
    a->now_ns = dl_client_now(a->lock->client);
    return a->now_ns;
}

/* OK: the handle is in the phase ACQUIRING. */
enum dlock_status dl_acquire_steps_begin_locked(struct dl_acquire *a, enum dlock_mode mode);

/* The call leaves the local queue: notes what it has to know of its name. */
void dl_acquire_steps_admitted_locked(struct dl_acquire *a, bool wait);

/* The call is admitted: starts the state machine. */
void dl_acquire_steps_start(struct dl_acquire *a, bool wait, int64_t deadline_ns);

/* Comes before each step: takes a claim that was handed over, or a cancellation. true: it did; the
 * present step is another one now. A claim that is handed over and not taken is lost. */
bool dl_acquire_steps_recheck(struct dl_acquire *a);

/* Makes the present step, if it is one that both drivers have: CONNECT, TRY, REFRESH, LOCK, RETURN.
 * false: it is another one. */
bool dl_acquire_steps_shared(struct dl_acquire *a);

/* The same for a step that talks to the store, without a request: the store has just failed another
 * one. Only a lease that does not end by itself is given back. */
void dl_acquire_steps_skip(struct dl_acquire *a);

/* If the next step gives back what the attempt has, it may last until then. */
void dl_acquire_steps_return_until(struct dl_acquire *a, int64_t until_ns);

/*
 * TRY and REFRESH in parts, for an exchange that many attempts share (try_batch.h). request: sets
 * the request, which is sent at sent_ns; it comes after a session was taken, by session_until. Any
 * status but OK, also of the session, goes to no_session, and the answer to tried. Two of the parts
 * are for one attempt alone: session_take (false: none, and the attempt has another step), and try,
 * the exchange in that session, which it gives back.
 */
int64_t dl_acquire_steps_session_until(const struct dl_acquire *a);
bool dl_acquire_steps_session_take(struct dl_acquire *a, struct dl_session **out);
void dl_acquire_steps_try(struct dl_acquire *a, struct dl_session *session);
enum dlock_status dl_acquire_steps_request(struct dl_acquire *a, int64_t sent_ns);
void dl_acquire_steps_no_session(struct dl_acquire *a, enum dlock_status status);
void dl_acquire_steps_tried(struct dl_acquire *a, int64_t sent_ns, enum dlock_status status,
                            const struct dlock_grant *grant);

/* Tells dlock_cancel which session to interrupt. Returns OK, or the status with which the call must
 * return instead of waiting. */
enum dlock_status dl_acquire_steps_watched_set(struct dl_acquire *a, struct dl_session *session);

/* Keeps the name's count of queue entries of this client. */
void dl_acquire_steps_entry_set(struct dl_acquire *a, bool has_entry);

/* Keeps what a slot has granted. INTERNAL: fence=on, and the store granted without a token. */
enum dlock_status dl_acquire_steps_granted(struct dl_acquire *a, const struct dlock_grant *grant);

/*
 * Renews a lease before the caller gets it: a queue of the store grants leases that are shorter
 * than the ttl, and the renewer may not be there to renew such a lease in time.
 *
 * Renews the lease of an attempt that is done, if the lease is shorter than the ttl, the call has
 * time to do so, and the renewer will not renew it in time or too little is left of it
 * (dl_handle_least_ns); reports the result to the attempt. The wait for the answer takes at most
 * half of the time that the lease can spare; without an answer the lease is used as it is, unless
 * too little is left. *now_ns: the time after the wait. true: the attempt goes on.
 */
bool dl_acquire_lengthen(struct dlock_handle *lock, struct dl_acquire_fsm *attempt,
                         int64_t *lease_ms, int64_t *now_ns, struct dlock_error *err);

/* Whether dl_acquire_lengthen would renew the lease. */
bool dl_acquire_lengthen_is_due(const struct dlock_handle *lock,
                                const struct dl_acquire_fsm *attempt, int64_t lease_ms,
                                int64_t now_ns);

/* The acquire ends with status: cleans up and words the error. Afterwards end_locked. */
void dl_acquire_steps_conclude(struct dl_acquire *a, enum dlock_status status);

/* Ends the phase; OK: the handle holds the lock, in the same step. */
void dl_acquire_steps_end_locked(struct dl_acquire *a, enum dlock_status status);

#endif
