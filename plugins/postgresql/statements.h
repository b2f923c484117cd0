/* SPDX-License-Identifier: MIT */
/* statements.h - the statements of both strategies, with the schema and the table prefix in place.
 */
#ifndef PG_STATEMENTS_H
#define PG_STATEMENTS_H

#include "query.h"

/* Each grant gets 32 numbers: the first is its fence, the others are for hand-offs. row.sql adds
 * the same 32. */
#define PG_FENCE_STEP 32

/* How long a statement of strategy row waits for a lock, unless it says something else. */
#define PG_STATEMENTS_PATIENCE_MS 1000

/* The parameters, in their order, and the columns of the answer. */
enum pg_statement {
    PG_TAKE,    /* name, token, shared, ttl, enum pg_take, ms that a queue entry lasts, channel,
                   label, patience: result, fence, ms, ahead, others, wake */
    PG_PERMIT,  /* as PG_TAKE, but the limit of a semaphore for shared: the same, permit */
    PG_RELEASE, /* name, token, shared, 1 for the queue entry, too, patience: result, wake */
    PG_KEEP,    /* name, token, ms, patience: result */
    PG_BREAK,   /* name, token or null, patience: result, wake */
    PG_RENEW, /* names, tokens, ttls, downgrades, patience (below 0: leaves locked rows out): index
                 from 1, result, others, wake */
    PG_INSPECT, /* name: the columns of PG_LIST */
    PG_LIST,    /* prefix, the first name after all that begin with it, the last name that was
                   listed, how many: shared, fence, remaining ms, held ms, waiters, name, token,
                   label, limit of a semaphore (1: a kept lock; 0: other leases), permit, kept */
    PG_WAITERS, /* name: shared, token, label of each live queue entry, in their order */
    PG_POLL,    /* name, token: live queue entries before this one (null: it has none), ms until the
                   last holder in its way runs out (0: none is) */
    PG_NOTIFY,  /* channel, message: nothing */
    PG_PASS,    /* the parameters and columns of PG_RELEASE; the session keeps wake for PG_TELL */
    PG_TELL,    /* the beginning of messages that are left out: sends what PG_PASS has kept, once,
                   if that is one line */
    /* Of many names, as columns: they wait for no row, and leave out what is not the usual case. */
    PG_TAKE_FREE, /* names, tokens, ttls, labels, how long after the beginning one may be taken, in
                     ms: a row for each lock that was taken, of names that nobody holds or waits
                     for: index from 1, fence */
    PG_FREE_HELD, /* names, tokens: a row for each lock that was released, of names that nobody
                     waits for: index */
    /* Of many names, as columns, in the order of the names; each waits for its row. Then three
       numbers: how long after the beginning an element may begin, in ms; 1: one whose row is locked
       is left out; patience for a row. The answer has a row for each element that has begun.
     */
    PG_TAKES,    /* names, tokens, ttls, enum pg_take, labels, shared, the three, ms that a queue
                    entry lasts, channel: the columns of PG_PERMIT, index */
    PG_PERMITS,  /* the same with limits for shared: the same */
    PG_RELEASES, /* names, tokens, the three: result, wake, index */
    PG_KEEPS,    /* names, tokens, ms, the three: result, index */
    PG_SESSION_TAKE, /* name, number of key=advisory or null, token, shared, lease, label: result,
                        fence, pid, number */
    PG_SESSION_CONFIRM, /* name, number, token, shared, lease, label: the same */
    PG_SESSION_WAIT,    /* number, shared, lease, ms: nothing */
    PG_SESSION_RELEASE, /* name, number, token, shared: result */
    PG_SESSION_HOLDERS, /* name, 1: that name, 0: all that begin with it, 1 for other programs, too:
                           name, shared, fence, lease, held ms, token, label, waiters, pid */
    PG_STATEMENTS
};

enum pg_take { PG_TAKE_TRY, PG_TAKE_ENQUEUE, PG_TAKE_REFRESH };

/* The result of PG_TAKE and PG_PERMIT. OTHER_LIMIT: the fence is the limit that the name has. */
enum { PG_TAKE_BUSY, PG_TAKE_OK, PG_TAKE_QUEUED, PG_TAKE_OTHER_LIMIT };

/* The text with the schema and the prefix of the URI for "public.dlock_". For free(); NULL: no
 * memory. */
char *pg_statements_expand(const struct pg_config *config, const char *text);

/*
 * pg_query, or pg_query_read for a statement that changes nothing, and pg_query_expect.
 *
 * Without a pooler, a statement that a connection runs often is prepared at its second time, in an
 * exchange of its own: the server reads and plans it once. If the server has it no more
 * (DISCARD ALL), nothing was executed, and the statement runs as at the first time.
 */
enum dlock_status pg_statements_run(struct pg_connection *conn, enum pg_statement which,
                                    const struct pg_params *params, int rows, PGresult **result,
                                    struct dlock_error *err);

/*
 * PG_PASS and PG_TELL in one exchange, each a transaction of its own. *result, err and the status
 * are of PG_PASS. *sent: the message was sent, if there is one and it is one line. UNSUPPORTED: not
 * in this session, and nothing was sent.
 */
enum dlock_status pg_statements_pass(struct pg_connection *conn, const struct pg_params *params,
                                     const struct pg_params *tell, PGresult **result, bool *sent,
                                     struct dlock_error *err);

/* How long a statement waits for a row that another transaction has locked, in ms: shorter than the
 * call, so that the server gives up before the client does. */
int64_t pg_statements_patience_ms(const struct pg_connection *conn);

/* The same, or 0 where the session's own setting (open.c) says so much: to set another one costs a
 * tenth of a lock. */
int64_t pg_statements_less_patience_ms(const struct pg_connection *conn);

#endif
