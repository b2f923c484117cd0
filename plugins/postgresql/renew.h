/* SPDX-License-Identifier: MIT */
/* renew.h - strategy row: many leases are renewed together. */
#ifndef PG_RENEW_H
#define PG_RENEW_H

#include "session.h"

/* Each element gets a status of its own. OK, or why nothing could be tried at all. */
enum dlock_status pg_renew(struct pg_session *session, struct dlock_lease_op *const *ops, size_t n,
                           int64_t deadline_ns, struct dlock_error *err);

#endif
