/* SPDX-License-Identifier: MIT */
/*
 * connection.h - one connection to the server: its state, waiting for it, what an error of the
 * server means, and what all connections of a client share.
 */
#ifndef PG_CONNECTION_H
#define PG_CONNECTION_H

#include "config.h"
#include "lib/time.h"
#include "net/clients.h"
#include "net/spin.h"

#include <libpq-fe.h>
#include <stdatomic.h>

#define PG_SHARED_CHECK_NS INT64_C(5000000000)
#define PG_SHARED_WARNING  1 /* DLOCK_LOG_WARNING of dlock.h, for the host's log */

struct pg_listener;
struct pg_texts;

/* What stands between the client and the server. A pooler that lends the server to each transaction
 * loses messages to an idle connection. */
enum pg_pooler { PG_POOLER_UNKNOWN, PG_POOLER_NONE, PG_POOLER_SESSION, PG_POOLER_TRANSACTION };

struct pg_shared {
    struct client client;       /* first */
    struct pg_config config;    /* of the first session: core gives all of them one target */
    _Atomic int64_t checked_ns; /* the last check of the tables; 0: check them next time */
    _Atomic int pooler;         /* enum pg_pooler */
    atomic_bool denied;         /* this role may not call the functions of semaphores (schema.h) */
    atomic_bool outdated;       /* the tables have no semaphores, and keep no names (schema.h) */
    atomic_bool open;           /* the functions can be made to run those of others (schema.h) */
    _Atomic int64_t upgrade_ns; /* they are not brought up to date before */
    atomic_bool stray_reported; /* of query.c: an answer was another client's */

    /* Of statements.c. free() ends it. */
    _Atomic(struct pg_texts *) texts;
    /* Of row_listener.c, which sets the two functions with it. The first ends it with the last
     * session; the second is called in the child of a fork: it may close descriptors, and leaks the
     * rest. */
    _Atomic(struct pg_listener *) listener;
    void (*_Atomic listener_free)(struct pg_listener *listener);
    void (*_Atomic listener_after_fork)(struct pg_listener *listener);
    atomic_bool notify_reported; /* of row_lease.c */
};

struct pg_connection {
    /* Set before it is opened. */
    const struct pg_config *config;
    const struct dlock_host *host;
    struct pg_shared *shared;
    bool for_messages; /* the listener's: no statement of it needs the tables */
    int wake_fd;       /* eventfd, written after a change of *stop; -1: none */

    PGconn *pq;                     /* NULL: none */
    PostgresPollingStatusType step; /* what a login waits for */
    int64_t login_ns;               /* when it began; 0: none is under way */
    int64_t deadline_ns;            /* of the call that runs */
    int64_t answered_ns;            /* the last sign of life; 0: check before the next use */
    const atomic_int *stop;         /* NULL or: non-zero ends a wait with CANCELED */
    struct spin spin;
    bool long_wait;   /* the answer waits for other owners: no spinning */
    bool outstanding; /* a ping has no answer yet: nothing but pg_query_catch_up may run */
    bool dead;        /* a call did not end, or the server has closed: nothing is sent any more */
    bool proven;      /* an answer was one to a statement of this connection (query.h) */
    bool stray;       /* an answer was not, or was an error that may not have been */
    bool pooled;      /* a pooler stands between: no SET, no prepared statement */
    bool isolate;     /* the default isolation is not READ COMMITTED, or the default is read-only */
    uint32_t used, prepared; /* of statements.c: bits of the statements */
    bool passes;  /* the last release passed a name on: the next one may, too; no spinning */
    bool flushes; /* the server's fsync */
    char server[64];
};

static inline int64_t pg_connection_now(const struct pg_connection *conn)
{
    return conn->host->now_ns(conn->host->ctx);
}

/* deadline_ns, or 40 ms from now if that is later: the time for an exchange that begins shortly
 * before or after the end of a wait. A call may return 100 ms late (C8). */
static inline int64_t pg_connection_extend(const struct pg_connection *conn, int64_t deadline_ns)
{
    const int64_t least_ns = pg_connection_now(conn) + 40 * DL_NS_PER_MS;

    return deadline_ns > least_ns ? deadline_ns : least_ns;
}

/* Before a call: sets its deadline, and checks whether the peer has closed. UNAVAILABLE: nothing
 * was sent. */
enum dlock_status pg_connection_enter(struct pg_connection *conn, int64_t deadline_ns,
                                      struct dlock_error *err);

/*
 * Waits until the socket is ready for one of `events` (POLLIN, POLLOUT) or has failed. TIMEOUT:
 * conn->deadline_ns. CANCELED: conn->stop. After both what was sent has no answer, and the caller
 * sets conn->dead.
 */
enum dlock_status pg_connection_wait(struct pg_connection *conn, short events);

/* An answer that has not the columns or rows of the request: PROTOCOL. */
enum dlock_status pg_connection_bad_reply(struct pg_connection *conn, struct dlock_error *err);

/* ---- what the sessions of a client share ---- */

/* In slot init. False: no memory. */
bool pg_shared_init(void);

/* The one of the client that `host` stands for, referenced; NULL: no memory. */
struct pg_shared *pg_shared_find(const struct pg_config *config, const struct dlock_host *host);
void pg_shared_ref(struct pg_shared *shared);
void pg_shared_unref(struct pg_shared *shared);

/* Whether a connection of the client has checked the tables lately. A check costs the server
 * milliseconds, and a client makes many connections at once. */
bool pg_shared_is_checked(const struct pg_shared *shared, int64_t now_ns);

/*
 * ---- what an error of the server means for the statement that it answers ----
 *
 * An error that the server reports as ERROR has undone the statement, also when it comes with the
 * commit. An error that ends the session (FATAL, PANIC) may have come after the commit.
 */

/* An SQLSTATE of five characters as the number in dlock_error.code: the server's own packing, six
 * bits a character, the first one lowest. 0: state is NULL or has another form. */
int32_t pg_connection_error_code(const char *state);

/* state: as PG_DIAG_SQLSTATE, NULL: the library's own error. fatal: the session has ended. */
enum dlock_status pg_connection_error_status(const char *state, bool fatal);

/* Why a connection was not made. text: the library's message, where state is NULL. */
enum dlock_status pg_connection_login_status(const char *state, const char *text);

/* Whether another transaction was in the way and nothing has happened: 40001, 40P01, 55P03, 23505.
 */
bool pg_connection_is_contention(int32_t code);

#endif
