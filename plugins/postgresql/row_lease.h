/* SPDX-License-Identifier: MIT */
/* row_lease.h - strategy row: a lease is taken, given back, broken, and its queue entry given up.
 */
#ifndef PG_ROW_LEASE_H
#define PG_ROW_LEASE_H

#include "session.h"
#include "statements.h"

/* What a request asks PG_TAKE for. */
enum pg_take pg_lease_what(const struct dlock_request *req);
bool pg_lease_is_permit(const struct dlock_request *req);

/* With a flag of req->flags: the queue entry is asked for, or kept. */
enum dlock_status pg_lease_try(struct pg_session *session, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status pg_lease_unlock(struct pg_session *session, const struct dlock_request *req,
                                  struct dlock_error *err);
/* A lease that was granted meanwhile goes to the next waiter. */
enum dlock_status pg_lease_dequeue(struct pg_session *session, const struct dlock_request *req,
                                   struct dlock_error *err);
/* owner NULL: of all holders. */
enum dlock_status pg_lease_break(struct pg_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *owner, int64_t deadline_ns,
                                 struct dlock_error *err);

/* ---- for batches (row_batch.h) ---- */

/* Fills the grant of a name that was taken, and frees the waiter of the attempt. PROTOCOL: no
 * fence. */
enum dlock_status pg_lease_granted(struct pg_connection *conn, const struct dlock_request *req,
                                   int64_t fence, struct dlock_grant *grant,
                                   struct dlock_error *err);
/* Reads the first columns of a row, which are those of PG_TAKE or PG_PERMIT. */
enum dlock_status pg_lease_take_read(struct pg_connection *conn, const struct dlock_request *req,
                                     const PGresult *result, int row, struct dlock_grant *grant,
                                     struct dlock_error *err);
/* What an unlock has come to. */
enum dlock_status pg_lease_unlocked(bool held, struct dlock_error *err);

#endif
