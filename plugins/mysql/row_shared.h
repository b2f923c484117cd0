/* SPDX-License-Identifier: MIT */
/*
 * row_shared.h - strategies row and insert: leases that several owners have at a time, in shared
 * mode or as permits of a semaphore; names that are kept; and what holders publish.
 *
 * {permits} has a row for each permit that is held or kept; a kept lock is a kept permit of the
 * limit 1. While a name has such rows, its row in {names} has no token and until_us of the last of
 * them, so that readers and exclusive contenders, also of programs that know no permits, find the
 * name taken.
 *
 * {data} has a row for the token of a request, written in the transaction that takes the name or,
 * if one statement takes it, before that one, when the name seems to be free. It is shown with the
 * lease that has this token, and with no other one: so it is there from the grant on, and means
 * nothing before it and after it. A request that is refused leaves no row. That of a holder that
 * died is removed by a later holder of the name, a day after.
 */
#ifndef MY_ROW_SHARED_H
#define MY_ROW_SHARED_H

#include "connection.h"

/* What MY_GUARD reads of the row, in conn->row.number. */
enum my_guard_number {
    MY_GUARD_FENCE,
    MY_GUARD_IS_OURS,    /* the last exclusive owner has the token of conn->input */
    MY_GUARD_LEFT_US,    /* of the exclusive lease, or of the permits; <= 0: it has ended */
    MY_GUARD_READERS_US, /* of the readers */
    MY_GUARD_MAY_TAKE,   /* 0: the name is reserved for another waiter */
    MY_GUARD_HAS_PERMITS /* the name has live permits, or is kept: there is no exclusive holder */
};

/* ---- shared mode ---- */

enum dlock_status my_row_reader_try(struct my_connection *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err);
/* conn->input is the request's. at_once: UNAVAILABLE (my_connection_is_contention) if another
 * transaction has locked the row. */
enum dlock_status my_row_reader_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                      bool at_once, struct dlock_error *err);
enum dlock_status my_row_reader_unlock(struct my_connection *conn, struct dlock_error *err);
/* The reader of the token in conn->input or, with a number there, all. *count: so many. */
enum dlock_status my_row_reader_break(struct my_connection *conn, uint64_t *count,
                                      struct dlock_error *err);

/* ---- semaphores and kept names ---- */

/* True: the lease of this request is a permit. */
static inline bool my_row_permit_is(const struct dlock_request *req)
{
    return req->limit > 1;
}

enum dlock_status my_row_permit_try(struct my_connection *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err);
/* conn->input is the request's, from here on. at_once: as my_row_reader_renew. */
enum dlock_status my_row_permit_renew(struct my_connection *conn, bool at_once,
                                      struct dlock_error *err);
enum dlock_status my_row_permit_unlock(struct my_connection *conn, struct dlock_error *err);
/* Ends a permit, or an exclusive lease, and keeps it for nobody. */
enum dlock_status my_row_permit_keep(struct my_connection *conn, const struct dlock_request *req,
                                     struct dlock_error *err);
/* The permit of the token in conn->input or, with a number there, all, also what is kept. *count:
 * so many. */
enum dlock_status my_row_permit_break(struct my_connection *conn, uint64_t *count,
                                      struct dlock_error *err);

/* Why a request for a lock does not get a name that has permits: CONFIG [LIM-1]; BUSY: it is kept,
 * or this user may not read {permits}. */
enum dlock_status my_row_permit_refuse(struct my_connection *conn, struct dlock_error *err);

/* ---- data ---- */

/* Whether the request in conn->input publishes data. */
bool my_row_data_is(const struct my_connection *conn);

/* In the transaction that takes the name, or before the statement that takes it. OK if the request
 * publishes nothing. Not OK: the name has not been taken. */
enum dlock_status my_row_data_put(struct my_connection *conn, struct dlock_error *err);

/* After the lease has ended, or when the token did not get the name. */
void my_row_data_remove(struct my_connection *conn);

/* After a grant, with what is left of the call's time: removes some rows of the name that nobody
 * needs, once a minute in a client. It fails without harm to the grant; the connection may be dead
 * after it. */
void my_row_data_reap(struct my_connection *conn);

#endif
