/* SPDX-License-Identifier: MIT */
/* connection.h - one connection to the server: its state, and waiting for it. */
#ifndef PG_CONNECTION_H
#define PG_CONNECTION_H

#include "errmap.h"
#include "lib/time.h"
#include "net/spin.h"
#include "shared.h"

#include <libpq-fe.h>
#include <stdatomic.h>

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

#endif
