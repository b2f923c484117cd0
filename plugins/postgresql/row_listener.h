/* SPDX-License-Identifier: MIT */
/*
 * row_listener.h - the connection on which a client hears of grants, and its waiters.
 *
 * A client has one connection that listens, and only while somebody waits, and for some seconds
 * after: each message wakes all listening sessions of the database. The first watch makes it. No
 * thread of its own reads from it: one of the threads that watch does (net/waiters.h). A connection
 * that dies in silence is found by a ping; the server ends one that is silent (PostgreSQL 14).
 *
 * A lost message costs time, never a lock: after each begin and each end of listening all waiters
 * are told to ask the store (`recheck`).
 *
 * A waiter is an attempt that waits in the store's queue. It is listed before its request leaves,
 * so that a grant that is faster than the answer finds it [WAT-2]. If the client was not listening
 * then, the next watch begins to listen and ends with BUSY: a grant may have come unheard. A waiter
 * keeps what the sessions of the client share: core may close all of them meanwhile.
 */
#ifndef PG_ROW_LISTENER_H
#define PG_ROW_LISTENER_H

#include "net/waiters.h"
#include "session.h"

#define PG_INBOX_SIZE 48

/* One attempt that may wait; zeroed at first, guarded by the mutex of the listener. */
struct pg_waiter {
    struct waiter base; /* the first member */
    struct pg_listener *listener;
    int64_t since_ns; /* it waits since then */
    bool unheard;     /* not listening when the last request left: grants came unheard */
    bool recheck;     /* a message may have been lost since the last request */
    uint64_t counter; /* in the last answer "queued" [WAT-4] */
    uint64_t fence;   /* of the last grant that arrived; 0: none */
    int64_t lease_ms; /* ... */
    uint32_t permit;  /* ... if it is of a semaphore */
};

struct pg_listener {
    struct pg_shared *shared;
    char channel[PG_INBOX_SIZE];
    struct waiters waiters; /* its mutex guards what is below `conn`, and the waiters */

    /* The leader's, or of a thread that has taken the lead. */
    struct pg_connection conn;
    int64_t heard_ns;  /* the last sign of life */
    int64_t pinged_ns; /* the ping without an answer; 0: none */

    bool listening;          /* messages arrive */
    unsigned count;          /* waiters */
    unsigned failures;       /* to connect, in a row */
    int64_t retry_ns;        /* not connecting before */
    bool reported;           /* the log says that waiters have to ask */
    atomic_int any_stop;     /* the thread in wait_any is interrupted: it must not connect */
    _Atomic int64_t idle_ns; /* nobody waits since then, and there is a connection; 0: no; -1: since
                                a moment ago, when the host could not be asked */
};

/* The client's; NULL: no memory, no descriptor or no random bytes. */
struct pg_listener *pg_listener_get(struct pg_shared *shared);

void pg_listener_add_locked(struct pg_listener *listener, struct pg_waiter *waiter,
                            const unsigned char *token);

/* Takes in messages that have arrived, and the end of the connection. Gives the mutex up meanwhile.
 */
void pg_listener_catch_up_locked(struct pg_listener *listener);

/*
 * Sleeps until something may have changed for the waiter, which is watching, or until until_ns.
 * Gives the mutex up meanwhile. The leader connects if there is no connection; `own` is the
 * connection of its session, for the target and for the test of a pooler, and *stop ends that.
 */
void pg_listener_sleep_locked(struct pg_listener *listener, struct waiter *waiter,
                              struct pg_connection *own, const atomic_int *stop, int64_t until_ns);

/* What a message says to the waiter with its token. Others and nonsense are left out. */
void pg_listener_deliver(struct pg_listener *listener, const char *text);

/* Ends the connection of a client whose last waiter has gone some time ago. Cheap; call it often.
 */
void pg_listener_tidy(struct pg_listener *listener);

/* ---- an attempt that waits ---- */

/* Before a request with ENQUEUE or REFRESH leaves. OK sets *to: where to tell of the grant, NULL:
 * nowhere. NOMEM otherwise. */
enum dlock_status pg_waiter_expect(struct pg_shared *shared, const struct dlock_request *req,
                                   const char **to, struct dlock_error *err);

/* The store answered "queued" and showed its counter: grants up to that have run out. Harmless for
 * an attempt that did not expect it. Returns whether a message can tell of the grant [ANY-4]. */
bool pg_waiter_queued(struct pg_slot *slot, uint64_t counter);

/* The attempt waits no more: OK of trylock, unlock, dequeue, forget. Harmless when nothing was set
 * up. */
void pg_waiter_free(struct pg_slot *slot);

#endif
