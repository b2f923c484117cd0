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
 */
#ifndef PG_ROW_LISTENER_H
#define PG_ROW_LISTENER_H

#include "connection.h"
#include "net/waiters.h"

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

/* Where to send messages for this client; NULL: none would arrive now. */
const char *pg_listener_inbox_locked(const struct pg_listener *listener);

void pg_listener_add_locked(struct pg_listener *listener, struct pg_waiter *waiter,
                            const unsigned char *token);
/* No session need be open. */
void pg_listener_remove(struct pg_waiter *waiter);

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

/* Whether messages arrive, or the next sleep tries to make a connection for them. */
bool pg_listener_hears_locked(const struct pg_listener *listener);

/* What a message says to the waiter with its token. Others and nonsense are left out. */
void pg_listener_deliver(struct pg_listener *listener, const char *text);

/* Ends the connection of a client whose last waiter has gone some time ago. Cheap; call it often.
 */
void pg_listener_tidy(struct pg_listener *listener);

#endif
