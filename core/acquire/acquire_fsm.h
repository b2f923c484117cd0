/* SPDX-License-Identifier: MIT */
/*
 * acquire_fsm.h - what to do next on the way to a lock: the policy of acquiring, as a state
 * machine. Pure.
 *
 * acquire.c asks for the step, does it, reports the result, and so on until DL_STEP_DONE. This file
 * knows no clock, no random source and no I/O: moments and random numbers are arguments.
 *
 *   CONNECT (only if the client has never reached its store) --> TRY
 *   TRY ----OK, enough left----------------------------------> DONE OK
 *    |  `---OK, too little left-----> RETURN -------> TRY with a new token, or DONE TIMEOUT   (C3)
 *    |----BUSY, no wait--------------------------------------> DONE BUSY
 *    |----BUSY, wait--> WATCH or SLEEP --> TRY --> ...         DONE TIMEOUT at the deadline   (C13)
 *    `----UNKNOWN, UNAVAILABLE--> SLEEP --> TRY, same token    (C4)
 *
 * The machine waits for a store that cannot be reached or does not answer as it waits for a lock
 * that is held: only the deadline ends the wait, with the status of the last failure (C8, C13).
 *
 * Whenever a request may have been executed without an answer, the attempt ends by RETURN (a
 * release by token) and with UNKNOWN, not with a definite status.
 *
 * If the store has a queue, the first TRY asks for a queue entry, REFRESH keeps the entry and tries
 * again in one exchange, WATCH may bring the lock, and RETURN withdraws the entry:
 *
 *   TRY ----BUSY, queued--> WATCH --(a third of the entry's lease)--> REFRESH --> WATCH ...
 *                             |                                         |  `----OK--> DONE OK
 *                             `---granted--> DONE OK                    |
 *                                                 unknown there --> RETURN, TRY with a new token
 *
 * The time of the entry counts from the sending of the last request that was answered "queued", and
 * so does a lease that WATCH brings. A grant counts only if its fence is above the counter in that
 * answer: an older grant has ended.
 */
#ifndef DL_ACQUIRE_FSM_H
#define DL_ACQUIRE_FSM_H

#include "hold/release_fsm.h"

#include <dlock/plugin.h>
#include <stdbool.h>

enum dl_step {
    DL_STEP_CONNECT, /* makes the first session of the client, by until_ns */
    DL_STEP_TRY,     /* trylock; until_ns bounds the wait for a session */
    DL_STEP_REFRESH, /* the same, with an entry in the store's queue */
    DL_STEP_LOCK,    /* the server blocks for us, until until_ns */
    DL_STEP_WATCH,   /* sleep in the plugin's watch, until until_ns */
    DL_STEP_SLEEP,   /* sleep here, until until_ns */
    DL_STEP_RETURN,  /* release by token, answer or not by until_ns; the attempt's token is used up
                      */
    DL_STEP_DONE     /* result */
} __attribute__((packed));

/* The rules of one call; they do not change. */
struct dl_acquire_fsm_rules {
    int64_t op_timeout_ns; /* one exchange */
    int64_t poll_max_ns;   /* longest sleep between two polls */
    uint8_t margin;        /* of the validity, see lease.h */
    bool connected;        /* the rest of the rules is known: a session was made once */
    bool wait;             /* false: one attempt */
    bool native;           /* the backend has `lock` */
    bool watch;            /* the backend has `watch` */
    bool queue;            /* the backend has a queue, and the call waits in it */
    bool session;          /* closing the session cleans up: no outcome stays unknown [SES-2] */
};

struct dl_acquire_fsm {
    struct dl_acquire_fsm_rules rules;
    int64_t deadline_ns;

    union {
        int64_t until_ns;       /* of the step */
        int64_t valid_until_ns; /* at DONE with OK */
    };
    enum dl_step step;
    enum dl_step after_return;
    bool uncertain;         /* a request of this token may have been executed unseen */
    bool arrival_uncertain; /* the same for TRY alone: a REFRESH does nothing once the entry is gone
                             */
    bool enqueued;          /* a request for a queue entry was sent with this token */
    bool has_entry;         /* the last answer of the store was "queued" */
    enum dlock_status result;  /* at DONE */
    enum dlock_status failure; /* the status of the last failure; valid while failures > 0 */
    unsigned failures, polls;  /* in a row; for the back-off */

    uint64_t entry_fence;  /* the counter in that answer */
    int64_t entry_base_ns; /* when the request of that answer was sent */
};

/* deadline_ns counts only if rules.wait. */
void dl_acquire_fsm_start(struct dl_acquire_fsm *attempt, const struct dl_acquire_fsm_rules *rules,
                          int64_t now_ns, int64_t deadline_ns);

/* The deadline of an exchange that begins at now_ns. */
int64_t dl_acquire_fsm_exchange_until(const struct dl_acquire_fsm *attempt, int64_t now_ns);

/* The deadline for the answer to a TRY or REFRESH that was sent at sent_ns. Near the caller's
 * deadline the wait for a session counts, too (C8). */
int64_t dl_acquire_fsm_answer_until(const struct dl_acquire_fsm *attempt, int64_t sent_ns);

/* CONNECT has made a session; rules: what the store can do. */
void dl_acquire_fsm_connected(struct dl_acquire_fsm *attempt, int64_t now_ns,
                              const struct dl_acquire_fsm_rules *rules);

/* A step got no session. BUSY: all sessions of the client are in use, which says nothing about the
 * store; a call that waits goes on waiting. */
void dl_acquire_fsm_no_session(struct dl_acquire_fsm *attempt, int64_t now_ns,
                               enum dlock_status status, uint64_t random);

/* TRY, REFRESH or LOCK, sent at sent_ns, has ended with status. grant: of OK and BUSY. */
void dl_acquire_fsm_tried(struct dl_acquire_fsm *attempt, int64_t sent_ns, int64_t now_ns,
                          enum dlock_status status, const struct dlock_grant *grant,
                          uint64_t random);

/* grant: of OK. */
void dl_acquire_fsm_watched(struct dl_acquire_fsm *attempt, int64_t now_ns,
                            enum dlock_status status, const struct dlock_grant *grant,
                            uint64_t random);
void dl_acquire_fsm_slept(struct dl_acquire_fsm *attempt, int64_t now_ns);
void dl_acquire_fsm_returned(struct dl_acquire_fsm *attempt, int64_t now_ns);

/* The call holds the lease until valid_until_ns: another handle of the client handed it on, or a
 * renewal has ended. */
void dl_acquire_fsm_holds(struct dl_acquire_fsm *attempt, int64_t now_ns, int64_t valid_until_ns,
                          int64_t lease_ms);

/* The call has to end with CANCELED or CLOSED. Not between RETURN and DONE. */
void dl_acquire_fsm_cancel(struct dl_acquire_fsm *attempt, int64_t now_ns,
                           enum dlock_status status);

#endif
