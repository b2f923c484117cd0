/* SPDX-License-Identifier: MIT */
/* lease.h - strategy row: a lease is taken, given back, broken, and its queue entry given up. */
#ifndef PG_LEASE_H
#define PG_LEASE_H

#include "session.h"

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

#endif
