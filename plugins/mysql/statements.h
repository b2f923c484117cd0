/* SPDX-License-Identifier: MIT */
/* statements.h - the SQL of the three strategies, what it reads and what it answers, and running
 * it.
 */
#ifndef MY_STATEMENTS_H
#define MY_STATEMENTS_H

#include "config.h"

#include <mysql.h>

#define MY_NAME_MAX  255
#define MY_LABEL_MAX 255

/* A grant gets the first of so many numbers; the others are free for hand-offs. */
#define MY_FENCE_STEP 32

#define MY_PERMIT_SCALE 4096 /* more than any permit */

enum my_statement {
    MY_TAKE,       /* a name that is free and reserved for nobody */
    MY_TAKE_AGAIN, /* row: or that is ours, or reserved for us; @i: by the head */
    MY_CREATE,     /* row: the first time of a name */
    MY_ENSURE,     /* row: a free row, for readers */
    MY_POLL,       /* row, insert: the holder, without a lock on the row */
    MY_EXTEND,     /* exclusive */
    MY_EXTEND_ALL, /* of @b: all leases that are held or, if others have locked a row, none */
    MY_FREE_OF,    /* of @b: the leases that are held, and whose rows nobody else has locked */
    MY_UNLOCK,     /* exclusive */
    MY_ENSURE_ALL, /* of @b, SELECTs of names: what MY_TAKE_ALL needs of each */
    MY_TAKE_ALL,   /* takes the names of the list @b that are free and reserved for nobody */
    MY_FENCE_ALL,  /* insert, of @b: the next number of each name that its token holds */
    MY_READ_ALL,   /* of @b: token, what is left, fence; without a lock */
    MY_UNLOCK_ALL, /* of @b: each that its token holds */
    MY_OVER_ALL,   /* as MY_READ_ALL, but until_us and not what is left: 0 after an unlock */
    MY_BREAK,      /* exclusive, of any holder */
    MY_GUARD,      /* begins each change of readers */
    MY_GUARD_NOW,  /* the same, and does not wait for the row */
    MY_READER_ADD, /* shared */
    MY_READER_STEP_DOWN, /* the shared part of a downgrade, which comes first: the lease is in the
                            exclusive part */
    MY_READER_EXTEND,
    MY_READER_REMOVE,
    MY_READER_BREAK,
    MY_READER_REAP,
    MY_STEP_DOWN,       /* the exclusive part of a downgrade */
    MY_READERS_UPDATE,  /* ends each change of readers */
    MY_RESERVE,         /* only this head takes the name when it is free, for @i microseconds */
    MY_RESERVE_IN_LINE, /* the same behind other transactions; as text only */
    MY_RESERVE_FIRST,   /* insert: of a name that has no fence yet */
    MY_UNRESERVE,       /* by the head */
    MY_QUEUE_SILENT,    /* no head has reserved or taken the name for @i microseconds */
    MY_SWEEP,           /* insert: a row that nobody holds */
    MY_FENCE,           /* insert, session: the next number, and its owner; insert: @i as above */
    MY_FENCE_FIRST,
    MY_FENCE_READ,
    MY_ROW_NOWAIT, /* session: the row lock */
    MY_ROW_WAIT,
    MY_SHARE_NOWAIT,
    MY_SHARE_WAIT,
    MY_PROBE_FREE,  /* session: a row if it is not locked; a script of two statements */
    MY_PERMIT_LIST, /* the live permits of a name */
    MY_PERMIT_POLL, /* how many there are, without a lock */
    MY_LIMIT,       /* the limit of the live permits; 0: there are none */
    MY_PERMIT_ADD,  /* @i is the limit times MY_PERMIT_SCALE, and the permit */
    MY_PERMIT_EXTEND,
    MY_PERMIT_REMOVE,
    MY_PERMIT_BREAK,
    MY_PERMIT_REAP,
    MY_PERMIT_CLEAR, /* all, dead or alive */
    MY_PERMIT_KEEP,  /* for @i microseconds */
    MY_KEEP_LOCK,    /* the same of an exclusive lease, as a permit */
    MY_PERMIT_FENCE, /* the next number of a name */
    MY_FENCE_ANEW,   /* insert: the first one */
    MY_PERMITS_MARK, /* ends each change of permits */
    MY_DATA_PUT,     /* what the token publishes when it gets the name */
    MY_DATA_REMOVE,
    MY_DATA_REAP,     /* of tokens that are gone */
    MY_DATA_REAP_FEW, /* the same without {permits}, of a name that has no permits */
    MY_WAITERS,       /* how many run the statement with the hex @b, and the head */
    MY_INSPECT,
    MY_LIST,
    MY_INSPECT_PERMITS,
    MY_STATEMENTS
};

/* One statement of one strategy. In `text` {x} is table x with the prefix, and @x an input: @n
 * name, @t token, @l label, @v data, @d ttl in microseconds, @i the number, @b leases or names; @s,
 * @w and @p are the dialect's share, at_once and processlist, @j the data of the holder h. `out`
 * has a letter a column: i number, b bytes. NULL text: the strategy has no such statement. */
struct my_sql {
    const char *text, *out;
};

const struct my_sql *my_statements_get(enum my_strategy strategy, enum my_statement which);

/* What @j stands for if {data} is there: a holder's data, or none. */
#define MY_DATA_OF_HOLDER \
    "COALESCE((SELECT d.data FROM {data} d WHERE d.name = h.name AND d.token = h.token), '')"

/* Writes text to out with the prefix before table names in braces. false: no room. */
bool my_statements_expand(const char *text, const char *prefix, char *out, size_t size);

#define MY_NUMBERS 8
#define MY_BLOBS   4
#define MY_BYTES   DLOCK_DATA_MAX /* of the longest column */
#define MY_INPUTS  16

/* What statements read: filled before each execution. */
struct my_input {
    unsigned char name[MY_NAME_MAX];
    unsigned long name_len;
    unsigned char token[DLOCK_TOKEN_SIZE];
    unsigned long token_len;
    char label[MY_LABEL_MAX];
    unsigned long label_len;
    unsigned char data[DLOCK_DATA_MAX];
    unsigned long data_len;
    long long ttl_us, number;
    const char *leases; /* MY_LEASE for each, with UNION ALL between them; as text only. Of
                           MY_WAITERS: hex */
    const char *tokens, *labels,
        *ttls; /* row_batch.c: what stands for @t, @l and @d; NULL: the value */
};

/* The index of the lease; the hex of name and token; the ttl in microseconds. */
#define MY_LEASE "SELECT %zu AS i, x'%s' AS name, x'%s' AS token, %lld AS ttl_us"

/* The row that was fetched last. */
struct my_row {
    long long number[MY_NUMBERS];
    unsigned char bytes[MY_BLOBS][MY_BYTES + 1]; /* NUL behind them */
    unsigned long length[MY_BLOBS];
};

/* What differs between MariaDB and MySQL. */
struct my_dialect {
    const char *name;
    const char *isolation, *read_only, *statement_time, *statement_time_off;
    bool idle_transaction; /* has idle_transaction_timeout */
    bool mariadb;
    const char *processlist; /* the table of the connections */
    const char *share;       /* ends a locking read in shared mode */
    const char *at_once;     /* begins a statement that fails if the row is locked */
    const char *in_line;     /* one that waits for the row for three quarters of @i
                                microseconds; NULL: all wait */
};

/* ---- a statement is run ---- */

struct my_connection;

/* conn->input from a request; the number is left alone. */
void my_statements_input(struct my_connection *conn, const struct dlock_request *req);
void my_statements_input_name(struct my_connection *conn, const unsigned char *name,
                              uint32_t name_len);

/* A statement with its inputs in it, for free(); NULL: no memory. */
char *my_statements_text(struct my_connection *conn, enum my_statement which);

/* Runs a statement, and prepares it if it was used before; affected and insert_id are its. Without
 * an answer a SELECT is UNAVAILABLE: it changes nothing. */
enum dlock_status my_statements_run(struct my_connection *conn, enum my_statement which,
                                    struct dlock_error *err);
/* The next row, in conn->row. false: there is none. */
bool my_statements_fetch(struct my_connection *conn, enum my_statement which);
/* After the last row that matters. */
void my_statements_done(struct my_connection *conn, enum my_statement which);

/* Runs it, reads the first row, and is done: *found says whether there was a row. */
enum dlock_status my_statements_row(struct my_connection *conn, enum my_statement which,
                                    bool *found, struct dlock_error *err);

#endif
