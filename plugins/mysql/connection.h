/* SPDX-License-Identifier: MIT */
/*
 * connection.h - one connection to the server: its state, calls of libmariadb by its non-blocking
 * interface, and what a failed call means. connection.c is the only file that waits for the
 * network.
 */
#ifndef MY_CONNECTION_H
#define MY_CONNECTION_H

#include "lib/time.h"
#include "net/spin.h"
#include "statements.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MY_US_PER_MS INT64_C(1000)

/* A head of a queue that sends nothing for so long is ended by the server. */
#define MY_HEAD_S 3

#define MY_CONNECTION_TABLES_NS INT64_C(5000000000)

/* When the tables were checked last, by any connection of a client. */
struct my_tables {
    _Atomic int64_t checked_ns; /* 0: check them next time */
    atomic_bool has_permits;    /* {permits} was there then, or was made */
    atomic_bool has_data;       /* the same of {data}; false: this user may not read it */
    _Atomic int64_t reaped_ns;  /* the last look for rows of {data} that nobody needs; 0: none */
};

/* A check costs the server milliseconds, and a client makes many connections at once. */
static inline bool my_connection_tables_checked(const struct my_tables *tables, int64_t now_ns)
{
    const int64_t checked_ns = atomic_load(&tables->checked_ns);

    return checked_ns != 0 && now_ns - checked_ns < MY_CONNECTION_TABLES_NS;
}

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

/* ---- what an error number of the server or of libmariadb means ---- */

/* What an error means for a request that was sent. in_transaction: the request has no effect
 * without a COMMIT. Otherwise a request that may have taken effect is UNKNOWN. */
enum dlock_status my_connection_error_status(unsigned code, bool in_transaction);

/* Whether the connection is of no use after this error. */
bool my_connection_is_fatal(unsigned code);

/* Whether another transaction was in the way and nothing has happened: 1205, 1213, 1020, 1062. */
bool my_connection_is_contention(unsigned code);

/* Whether the server ended a statement that had waited, or run, for too long. */
bool my_connection_is_out_of_time(unsigned code);

/* status, or BUSY if it was a failure by contention. */
enum dlock_status my_connection_contended(enum dlock_status status, const struct dlock_error *err);

/* ---- calls of libmariadb, until a deadline or an interrupt ---- */

enum my_call_kind {
    MY_CONNECT,
    MY_QUERY,
    MY_NEXT,
    MY_STORE,
    MY_PREPARE,
    MY_EXECUTE,
    MY_STMT_STORE
};

struct my_call {
    enum my_call_kind kind;
    const char *text;  /* QUERY, PREPARE; CONNECT: the password */
    MYSQL_STMT *stmt;  /* PREPARE, EXECUTE, STMT_STORE */
    int failed;        /* out: the library's own answer; mysql_errno has the number */
    int pending;       /* of a call that was left: what the library waits for */
    int verdict;       /* out of CONNECT with TLS: see connect.c */
    bool greeted;      /* CONNECT with TLS: the server offers it */
    MYSQL_RES *result; /* out of STORE */
    /* CONNECT: NULL, or is called with the socket before each wait for it. */
    void (*on_socket)(void *arg, int fd);
    void *on_socket_arg;
};

/* OK: the call has ended, see failed. TIMEOUT, CANCELED: it has not, and never will; the connection
 * is dead. The same with CONFIG: CONNECT with TLS, and the server offers none; it got nothing. */
enum dlock_status my_connection_call(struct my_connection *conn, struct my_call *call);

/* The same, but after TIMEOUT and CANCELED the next call of this function goes on. */
enum dlock_status my_connection_resume(struct my_connection *conn, struct my_call *call);

/* Sleeps, not past conn->deadline_ns: TIMEOUT. CANCELED: conn->stop. */
enum dlock_status my_connection_sleep(struct my_connection *conn, int64_t pause_ns);

/* Says good-bye, waits for nothing, frees conn->mysql. */
void my_connection_drop(struct my_connection *conn);

#endif
