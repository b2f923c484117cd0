/* SPDX-License-Identifier: MIT */
/* connection.h - one connection to the server: its state, and what a failed call means. */
#ifndef MY_CONNECTION_H
#define MY_CONNECTION_H

#include "errmap.h"
#include "lib/time.h"
#include "net/spin.h"
#include "statements.h"
#include "tables.h"

#include <stdatomic.h>

#define MY_US_PER_MS INT64_C(1000)

struct my_connection {
    /* Set before it is opened. */
    const struct my_config *config;
    const struct dlock_host *host;
    struct my_tables *tables; /* the client's */
    bool for_queue;           /* for GET_LOCK only */
    bool for_row_lock;        /* autocommit is off */
    bool lacks[2];            /* added tables that were not there when this connection read them */

    MYSQL *mysql; /* NULL: none */
    const struct my_dialect *dialect;
    struct my_connection *next; /* of the idle ones */
    int64_t deadline_ns;        /* of the call that runs */
    int64_t answered_ns;        /* the last sign of life; 0: check before the next use */
    int64_t opened_ns;          /* the end of the setup */
    const atomic_int *stop;     /* NULL or: non-zero ends a wait with CANCELED */
    int wake_fd;                /* eventfd, written after a change of *stop; -1: none */
    void (*on_sent)(void *arg); /* NULL, or called once, when a statement has been sent */
    void *on_sent_arg;
    struct spin spin;
    bool long_wait; /* the answer waits for other owners: no spinning */
    int socket;     /* descriptor + 1; 0: not connected */
    bool tls;
    bool dead;     /* a call did not end, or the server has closed: nothing is sent any more */
    int ping_wait; /* a ping has no answer yet, and the library waits for this; 0: none. Nothing but
                      my_query_catch_up may run */
    bool logs_statements; /* binlog_format=STATEMENT */
    bool in_transaction;  /* what is lost now has not happened */
    long flush;           /* the server's innodb_flush_log_at_trx_commit: 1 syncs each commit, 0
                             leaves commits in the memory of its process for a second */
    unsigned long id;
    char server[64];
    struct my_input input;
    struct my_row row;
    uint64_t affected, insert_id; /* of the last execution */
    bool used_before[MY_STATEMENTS];
    bool with_data; /* @j of the statement that runs reads {data} */
    MYSQL_STMT *statements[MY_STATEMENTS];
    bool prepared_with_data[MY_STATEMENTS]; /* what with_data was then */
    MYSQL_RES *answers[MY_STATEMENTS];      /* of statements that were sent as text */
};

static inline int64_t my_connection_now(const struct my_connection *conn)
{
    return conn->host->now_ns(conn->host->ctx);
}

/* The deadline of one exchange, for a caller whose own deadline may be over or far away: at least
 * 40 ms from now, which is within the 100 ms of C8, and at most most_ns. */
int64_t my_connection_exchange_until(const struct my_connection *conn, int64_t deadline_ns,
                                     int64_t most_ns);

/* Before a call: sets its deadline, and checks whether the peer has closed. UNAVAILABLE: nothing
 * was sent. */
enum dlock_status my_connection_enter(struct my_connection *conn, int64_t deadline_ns,
                                      struct dlock_error *err);

/* The status of a call of the library that ended with an error of its own or of the server; */
enum dlock_status my_connection_refused(struct my_connection *conn, unsigned code, const char *text,
                                        struct dlock_error *err);
/* of a call that did not end; */
enum dlock_status my_connection_unanswered(struct my_connection *conn, enum dlock_status why,
                                           struct dlock_error *err);
/* of an answer that has not the columns or results of the request. */
enum dlock_status my_connection_bad_reply(struct my_connection *conn, struct dlock_error *err);

#endif
