/* SPDX-License-Identifier: MIT */
/* row_lease.h - what a lease of strategy row (row.h) and many of them (row_batch.c) share. */
#ifndef PG_ROW_LEASE_H
#define PG_ROW_LEASE_H

#include "statements.h"

/* What a request asks PG_TAKE for. */
enum pg_take pg_row_lease_what(const struct dlock_request *req);
bool pg_row_lease_is_permit(const struct dlock_request *req);

/* Fills the grant of a name that was taken, and frees the waiter of the attempt. PROTOCOL: no
 * fence. */
enum dlock_status pg_row_lease_granted(struct pg_connection *conn, const struct dlock_request *req,
                                       int64_t fence, struct dlock_grant *grant,
                                       struct dlock_error *err);
/* Reads the first columns of a row, which are those of PG_TAKE or PG_PERMIT. */
enum dlock_status pg_row_lease_take_read(struct pg_connection *conn,
                                         const struct dlock_request *req, const PGresult *result,
                                         int row, struct dlock_grant *grant,
                                         struct dlock_error *err);
/* What an unlock has come to. */
enum dlock_status pg_row_lease_unlocked(bool held, struct dlock_error *err);

/*
 * Tells waiters that the store has granted them the name. result: its column `wake` has in each row
 * NULL, or lines "<channel> <token> <fence> <lease_ms>", with a permit of a semaphore behind it, a
 * line for each waiter that was granted. Waiters of this client are woken without the server, and
 * nothing is sent when there are no others. By conn->deadline_ns, or some tens of milliseconds from
 * now. A failure is logged once a client; it fails no call.
 *
 * The message is a transaction of its own, after the one that granted: in the granting transaction
 * it would make every commit of the server wait for the others. If it is lost, the waiter finds out
 * when it asks the next time.
 */
void pg_row_lease_notify(struct pg_connection *conn, const PGresult *result);

#endif
