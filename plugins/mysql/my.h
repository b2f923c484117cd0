/* SPDX-License-Identifier: MIT */
/*
 * my.h - what the files of the mysql plugin share.
 *
 * A store is a few InnoDB tables of one database; a session is one connection. libmariadb is called
 * through its non-blocking interface only, by drive.c, so that every call keeps its deadline.
 *
 *   plugin.c      the slots, in the order of plugin.h
 *   place.c       from the URI to a server, a database and a table prefix
 *   dial.c        making a connection: TLS, what the library must not do
 *   aside.c       the same in a thread, where the library keeps no deadline
 *   drive.c       one call of libmariadb, until a deadline or an interrupt
 *   conn.c        a connection: queries, several in one piece, transactions
 *   execute.c     statements of statements.c: as text the first time, prepared then
 *   setup.c       session settings, pinned and read back; what kind of server it is
 *   schema.c      the tables: making them, checking that they are what they have to be
 *   statements.c  all other SQL text
 *   errmap.c      error numbers as statuses
 *   lease.c       strategies row and insert, exclusive mode
 *   renew.c       the same, many leases at once
 *   reader.c      the same, shared mode
 *   pinned.c      strategy session: a row lock as the lock
 *   side.c        what a client has once: the second connection, queue sessions at rest
 *   watch.c       strategies row and insert: the head polls, the rest sleep
 *   queue.c       in GET_LOCK; queue.h
 *   look.c        inspect, list, break
 *   probe.c       what this store gives, for people
 *
 * Names begin with my_ and MY_, because mysql_ and MYSQL_ are the library's.
 */
#ifndef MY_H
#define MY_H

#include "lib/deadline_cond.h"
#include "lib/time.h"
#include "net/spin.h"
#include "net/tls.h"

#include <dlock/plugin.h>
#include <mysql.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define MY_ORIGIN     "mysql"
#define MY_US_PER_MS  INT64_C(1000)
#define MY_NAME_MAX   255
#define MY_LABEL_MAX  255
#define MY_PREFIX_MAX 32
#define MY_HEX_SIZE   (2 * DLOCK_TOKEN_SIZE + 1)

/* A grant is the first of so many numbers, and those after it are free for hand-offs. */
#define MY_FENCE_STEP 32

/* Seconds until the server ends a session that stopped inside a transaction, which is microseconds
 * long in the strategies row and insert. */
#define MY_STALL_S 5

/* How long the head of those who wait has a free name for itself without a word; and how long it
 * may be the head without one. */
#define MY_RESERVE_US INT64_C(250000)
#define MY_HEAD_S     3

#ifdef __clang_analyzer__
/* It cannot see through a variadic call what that returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

struct my_queue; /* queue.h */
struct my_side;

/* ---- place.c ---- */

enum my_strategy { MY_ROW, MY_INSERT, MY_SESSION };

struct my_place {
    const struct dlock_target *target; /* borrowed; strings below are its, unless arrays */
    enum my_strategy strategy;
    const char *strategy_name;
    char host[256];     /* "": the socket */
    const char *socket; /* NULL: TCP */
    unsigned port;
    int numeric; /* host is an address */
    const char *user;
    char database[65];
    char prefix[MY_PREFIX_MAX + 1];
    char endpoint[64]; /* for messages */
    int create, galera, spin;
    int tls; /* as these say */
    struct tls_options tls_options;
    int64_t grace_ms; /* session: how long a claim lasts without a ping */
};

/* INVALID, CONFIG. */
enum dlock_status my_place_init(struct my_place *place, const struct dlock_target *target,
                                struct dlock_error *err);

/* ---- statements.c ---- */

enum my_statement {
    MY_TAKE,       /* what is free and nobody's turn */
    MY_TAKE_AGAIN, /* row: or is ours, or our turn */
    MY_CREATE,     /* row: the first time of a name */
    MY_ENSURE,     /* row: a free row, for readers */
    MY_LOOK,       /* row, insert: who holds it */
    MY_EXTEND,     /* exclusive */
    MY_EXTEND_NOW, /* the same, and does not wait for the row */
    MY_RELEASE,    /* exclusive */
    MY_BREAK,      /* exclusive, whoever it is */
    MY_GUARD,      /* begins each change of readers */
    MY_GUARD_NOW,  /* the same, and does not wait for the row */
    MY_READER_ADD, /* shared */
    MY_READER_EXTEND,
    MY_READER_REMOVE,
    MY_READER_BREAK,
    MY_READER_REAP,
    MY_STEP_DOWN, /* the exclusive part of a downgrade */
    MY_SETTLE,    /* ends each change of readers */
    MY_RESERVE,   /* the head's: nobody else takes a free name for MY_RESERVE_US */
    MY_UNRESERVE,
    MY_SWEEP, /* insert: an umbrella without readers */
    MY_FENCE, /* insert, session: the next number, and who gets it */
    MY_FENCE_FIRST,
    MY_FENCE_READ,
    MY_ROW_NOWAIT, /* session: the row lock */
    MY_ROW_WAIT,
    MY_SHARE_NOWAIT,
    MY_SHARE_WAIT,
    MY_PROBE_FREE, /* session: is the row locked? */
    MY_INSPECT,
    MY_LIST,
    MY_STATEMENTS
};

/* One statement of one strategy. In `text` {x} is table x with the prefix, and @x an input: @n
 * name,
 * @t token, @l label, @d ttl in microseconds, @i the number; @s and @w are the dialect's share and
 * at_once. `out` has a letter a column: i number, b bytes. NULL text: the strategy has no such
 * statement. */
struct my_sql {
    const char *text, *out;
};

const struct my_sql *my_sql(enum my_strategy strategy, enum my_statement which);

/* Many exclusive leases at once, as text: head, which may begin with @w, MY_SQL_BATCH_ONE for each
 * with UNION ALL between them, tail. */
enum my_batch {
    MY_BATCH_EXTEND, /* all or, if a row is locked by others, none */
    MY_BATCH_LIVE,   /* column i: those that are held */
    MY_BATCH_FREE    /* and whose rows nobody else has locked */
};
struct my_sql_batch {
    const char *head, *tail;
};
extern const struct my_sql_batch my_sql_batches[];
/* Its place in the list; the hex of name and token; the ttl in microseconds. */
#define MY_SQL_BATCH_ONE "SELECT %zu AS i, x'%s' AS name, x'%s' AS token, %lld AS ttl_us"

/* The server's time in microseconds since 1970, UTC, fixed at the start of the statement. */
#define MY_NOW "TIMESTAMPDIFF(MICROSECOND,TIMESTAMP'1970-01-01 00:00:00',UTC_TIMESTAMP(6))"

/* ---- conn.c ---- */

#define MY_NUMBERS 8
#define MY_BLOBS   3
#define MY_INPUTS  16

/* What the prepared statements of a connection read: filled before each execution. */
struct my_input {
    unsigned char name[MY_NAME_MAX];
    unsigned long name_len;
    unsigned char token[DLOCK_TOKEN_SIZE];
    unsigned long token_len;
    char label[MY_LABEL_MAX];
    unsigned long label_len;
    long long ttl_us, number;
};

/* The row fetched last. */
struct my_row {
    long long number[MY_NUMBERS];
    unsigned char bytes[MY_BLOBS][MY_NAME_MAX + 1]; /* NUL behind them */
    unsigned long length[MY_BLOBS];
    my_bool null[MY_NUMBERS + MY_BLOBS];
};

struct my_conn {
    MYSQL *mysql; /* NULL: none */
    const struct my_place *place;
    const struct dlock_host *host;
    const struct my_dialect *dialect;
    int64_t deadline_ns; /* of the call that runs */
    int64_t answered_ns; /* the last sign of life */
    int64_t opened_ns;   /* when all of that was done */
    const atomic_int
        *stop;   /* NULL or: non-zero ends a wait with CANCELED, once wake_fd is written */
    int wake_fd; /* eventfd; -1: none */
    void (*meanwhile)(void *arg); /* NULL, or is called once, when a statement has been sent */
    void *meanwhile_arg;
    struct spin spin; /* not of a queue session, which waits for long */
    int waits;        /* for others, who may take their time: no spinning */
    int socket;       /* descriptor + 1; 0: not connected, and the library knows none */
    int tls;
    int dead;        /* a call did not end, or the server is gone: nothing is sent any more */
    int transaction; /* inside of one: what is lost now has not happened */
    long flush;      /* the server's innodb_flush_log_at_trx_commit: 1 syncs every commit, 0 leaves
                        some in the memory of its process for a second */
    int queue;       /* for GET_LOCK only: set before it is opened */
    int pinned;      /* for row locks: autocommit is off; set before it is opened */
    struct my_side *side; /* the client's, set before it is opened */
    unsigned long id;
    char server[64];
    struct my_input input;
    struct my_row row;
    uint64_t affected, insert_id;       /* of the last execution */
    unsigned char known[MY_STATEMENTS]; /* was used before */
    MYSQL_STMT *statements[MY_STATEMENTS];
    MYSQL_RES *answers[MY_STATEMENTS]; /* to those that were sent as text */
};

/* Connects and sets up; conn->deadline_ns is set. Close it whatever comes back. */
enum dlock_status my_conn_open(struct my_conn *conn, const struct my_place *place,
                               const struct dlock_host *host, int64_t deadline_ns,
                               struct dlock_error *err);
/* forked: the descriptor only. */
void my_conn_close(struct my_conn *conn, int forked);

/* Before a call: its deadline, and what can be seen of the peer's end without asking. UNAVAILABLE:
 * nothing was sent. */
enum dlock_status my_conn_enter(struct my_conn *conn, int64_t deadline_ns, struct dlock_error *err);

#define MY_RESULTS 10

/* NULL for a statement that has no rows. */
struct my_results {
    MYSQL_RES *list[MY_RESULTS];
    size_t count;
};

/* Several statements, with semicolons between them, in one exchange. After the first that fails
 * none is executed; results has those before it, too. Free them whatever comes back. */
enum dlock_status my_conn_script(struct my_conn *conn, const char *text, struct my_results *results,
                                 struct dlock_error *err);
void my_results_free(struct my_results *results);

/* A text query; what it answers is thrown away. */
enum dlock_status my_conn_query(struct my_conn *conn, const char *text, struct dlock_error *err);
/* The same with a result of so many columns, to be freed by mysql_free_result; NULL unless OK. */
enum dlock_status my_conn_select(struct my_conn *conn, const char *text, unsigned columns,
                                 MYSQL_RES **result, struct dlock_error *err);

enum dlock_status my_conn_begin(struct my_conn *conn, struct dlock_error *err);
/* UNKNOWN: sent, and no answer. */
enum dlock_status my_conn_commit(struct my_conn *conn, struct dlock_error *err);
/* The answer does not matter: a connection that fails here is dead. So is one that has a
 * transaction open after this or after a commit. */
void my_conn_rollback(struct my_conn *conn);
/* What the server's last answer, unless it was an error, said of that. */
int my_conn_in_transaction(const struct my_conn *conn);
/* The same of autocommit. */
int my_conn_autocommits(const struct my_conn *conn);
/* After a question: with autocommit off that may have begun a transaction. */
void my_conn_asked(struct my_conn *conn);

/* Statuses of calls of the library: one that ended with its or the server's refusal; one that did
 * not end; one that was answered with what was not asked for: the library copies, and we read, as
 * many columns as the server says there are. */
enum dlock_status my_conn_refused(struct my_conn *conn, unsigned code, const char *text,
                                  struct dlock_error *err);
enum dlock_status my_conn_unanswered(struct my_conn *conn, enum dlock_status why,
                                     struct dlock_error *err);
enum dlock_status my_conn_garbled(struct my_conn *conn, struct dlock_error *err);

/* ---- execute.c ---- */

/* conn->input from a request; ttl and number are left alone. */
void my_conn_input(struct my_conn *conn, const struct dlock_request *req);
void my_conn_input_name(struct my_conn *conn, const unsigned char *name, uint32_t name_len);

/* A statement with its inputs in it, for free(); NULL: no memory. */
char *my_conn_text(struct my_conn *conn, enum my_statement which);

/* Runs a statement, preparing it if it was used before; affected and insert_id are its. Rows are
 * fetched one by one: 1 and conn->row, or 0. my_conn_done after the last one that matters. */
enum dlock_status my_conn_execute(struct my_conn *conn, enum my_statement which,
                                  struct dlock_error *err);
int my_conn_fetch(struct my_conn *conn, enum my_statement which);
void my_conn_done(struct my_conn *conn, enum my_statement which);
/* All three: *found says whether there was a row. */
enum dlock_status my_conn_row(struct my_conn *conn, enum my_statement which, int *found,
                              struct dlock_error *err);

/* ---- drive.c ---- */

enum my_what { MY_CONNECT, MY_QUERY, MY_NEXT, MY_STORE, MY_PREPARE, MY_EXECUTE, MY_STMT_STORE };

struct my_call {
    enum my_what what;
    const char *text;  /* QUERY, PREPARE; CONNECT: the password */
    MYSQL_STMT *stmt;  /* PREPARE, EXECUTE, STMT_STORE */
    int failed;        /* out: the library's own answer; ask it for the number */
    int pending;       /* of a call that was left: what the library waits for */
    MYSQL_RES *result; /* out of STORE */
    /* CONNECT: NULL, or is told of the socket, before each wait for it. */
    void (*seen)(void *arg, int fd);
    void *seen_arg;
};

/* OK: the call has ended, see failed. TIMEOUT, CANCELED: it has not, and never will; the connection
 * is dead. */
enum dlock_status my_drive(struct my_conn *conn, struct my_call *call);
/* The same, but TIMEOUT and CANCELED leave it as it is, to be gone on with. */
enum dlock_status my_drive_part(struct my_conn *conn, struct my_call *call);
/* Once in a process; non-zero: no memory. */
int my_drive_init(void);
/* Says good-bye, waits for nothing, frees conn->mysql. */
void my_drive_close(struct my_conn *conn);
/* Sleeps, not past conn->deadline_ns: TIMEOUT. CANCELED: conn->stop. */
enum dlock_status my_pause(struct my_conn *conn, int64_t pause_ns);

/* ---- dial.c ---- */

/* conn->mysql is connected and authenticated, or why not. */
enum dlock_status my_dial(struct my_conn *conn, struct dlock_error *err);
/* Once in a process. */
enum dlock_status my_dial_init(struct dlock_error *err);

/* ---- aside.c ---- */

/* my_drive of MY_CONNECT, to a name or with TLS. NOMEM: no memory or no thread. */
enum dlock_status my_aside(struct my_conn *conn, struct my_call *call);
/* Once in a process; non-zero: no memory. */
int my_aside_init(void);

/* ---- setup.c ---- */

/* What differs between MariaDB and MySQL. */
struct my_dialect {
    const char *name;
    const char *isolation, *read_only, *statement_time, *statement_time_off;
    int idle_transaction; /* has idle_transaction_timeout */
    int galera;           /* has wsrep_on */
    const char *share;    /* ends a locking read in shared mode */
    const char *at_once;  /* begins a statement that fails where others wait for a row */
};

/* CONFIG: a setting that did not take, a server or tables that cannot keep locks. */
enum dlock_status my_setup(struct my_conn *conn, struct dlock_error *err);

/* ---- schema.c ---- */

#define MY_SCHEMA_VERSION 1

/* Writes the questions whose answers my_schema_check reads, with a semicolon before each. look:
 * also for the tables themselves, and not only which strategy they are for. */
void my_schema_ask(FILE *out, const struct my_conn *conn, int look);
/* Some or all of the answers, at least one. *missing: there are no tables. CONFIG: they are another
 * strategy's, or not what they have to be. */
enum dlock_status my_schema_check(struct my_conn *conn, MYSQL_RES *const *answers, size_t count,
                                  int look, int *missing, struct dlock_error *err);
/* Asks and checks, whatever the client has seen before. */
enum dlock_status my_schema_look(struct my_conn *conn, struct dlock_error *err);
/* NO_STORE: they are not to be made. */
enum dlock_status my_schema_create(struct my_conn *conn, struct dlock_error *err);

/* Writes text to out with the prefix before table names in braces. -1: no room. */
int my_schema_expand(const char *text, const char *prefix, char *out, size_t size);

/* ---- errmap.c ---- */

/* What an error means of a request that was sent; in_transaction: and can take no effect without a
 * COMMIT. Without it what may have taken effect is UNKNOWN. */
enum dlock_status my_status_of(unsigned code, int in_transaction);
/* The connection cannot go on after it. */
int my_fatal(unsigned code);
/* Somebody else was in the way, and nothing has happened: 1205, 1213, 1020, 1062. */
int my_contention(unsigned code);

/* ---- plugin.c ---- */

struct my_session {
    struct my_place place;
    struct my_conn conn;
    struct my_side *side;
    int wake_fd; /* eventfd + 1, so that a zeroed session has none */
    int holds;   /* strategy session: the lock of this token is this session */
    unsigned char token[DLOCK_TOKEN_SIZE];
};

/* dlock_request.slot: zeroed by core at the start of the attempt. */
struct my_slot {
    int tried;              /* and found to be held: look before writing */
    atomic_int stop;        /* interrupted */
    struct my_queue *queue; /* row, insert: our place among those who wait */
};

/* ---- lease.c, reader.c ---- */

enum dlock_status my_lease_try(struct my_session *session, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_lease_renew(struct my_session *session, struct dlock_lease_op *ops, size_t n,
                                 struct dlock_error *err);
/* at_once: UNAVAILABLE (my_contention) if somebody else has locked the row. */
enum dlock_status my_lease_renew_one(struct my_session *session, struct dlock_lease_op *op,
                                     int at_once, struct dlock_error *err);
enum dlock_status my_lease_unlock(struct my_session *session, const struct dlock_request *req,
                                  struct dlock_error *err);
/* Lets the next one of those who wait through, if this attempt keeps them. */
void my_lease_pass(const struct dlock_request *req);
/* BUSY becomes of a failure that only says that others were faster. */
enum dlock_status my_lease_contended(enum dlock_status status, const struct dlock_error *err);

enum dlock_status my_reader_try(struct my_session *session, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_reader_renew(struct my_session *session, struct dlock_lease_op *op,
                                  int at_once, struct dlock_error *err);
enum dlock_status my_reader_unlock(struct my_session *session, const struct dlock_request *req,
                                   struct dlock_error *err);
/* token NULL: all readers. *gone: how many. */
enum dlock_status my_reader_break(struct my_session *session, int *gone, struct dlock_error *err);

/* ---- side.c ---- */

/* The connection of the client that `host` stands for, which is made when it is needed; NULL: no
 * memory. */
struct my_side *my_side_join(const struct my_place *place, const struct dlock_host *host);
void my_side_hold(struct my_side *side); /* one user more */
void my_side_leave(struct my_side *side);
/* Lends it to one caller; end it after OK. */
enum dlock_status my_side_begin(struct my_side *side, int64_t deadline_ns, struct my_conn **conn,
                                struct dlock_error *err);
void my_side_end(struct my_side *side);
/* Whether the tables were looked at a moment ago, by any connection of the client; and that now
 * they were. */
int my_side_checked(const struct my_side *side);
void my_side_check(struct my_side *side);
void my_side_uncheck(struct my_side *side);
const struct my_place *my_side_place(const struct my_side *side);
const struct dlock_host *my_side_host(const struct my_side *side);
/* A queue session that nobody waits in, or NULL; and back. */
struct my_queue *my_side_wake(struct my_side *side);
void my_side_rest(struct my_side *side, struct my_queue *queue);
/* Whether one more of them may be kept by a holder; and that it is not any more. */
int my_side_keep(struct my_side *side);
void my_side_keep_end(struct my_side *side);
/* Once in a process; non-zero: no memory. */
int my_side_init(void);

/* ---- watch.c ---- */

enum dlock_status my_watch(struct my_session *session, const struct dlock_request *req,
                           struct dlock_error *err);

/* ---- pinned.c: the slots of strategy session ---- */

enum dlock_status my_pinned_try(struct my_session *session, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_pinned_lock(struct my_session *session, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_pinned_renew(struct my_session *session, struct dlock_lease_op *op,
                                  int64_t deadline_ns, struct dlock_error *err);
enum dlock_status my_pinned_unlock(struct my_session *session, const struct dlock_request *req,
                                   struct dlock_error *err);

/* ---- look.c ---- */

/* out holds 2 * len + 1. */
void my_hex(char *out, const unsigned char *bytes, size_t len);

/* Of the name, or the names that begin with what is in conn->input. */
enum dlock_status my_look_inspect(struct my_session *session, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);
enum dlock_status my_look_list(struct my_session *session, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err);
enum dlock_status my_look_break(struct my_session *session, const char *owner,
                                struct dlock_error *err);

/* ---- probe.c ---- */

/* What innodb_flush_log_at_trx_commit costs: bits of CRASH_SAFE and FENCE_DURABLE. */
uint32_t my_flush_costs(long flush);
void my_info_fill(struct dlock_session_info *info, const struct my_session *session);
enum dlock_status my_probe(struct my_session *session, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err);

#endif
