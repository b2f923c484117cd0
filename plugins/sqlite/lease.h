/* SPDX-License-Identifier: MIT */
/* lease.h - parts of trylock and unlock, for a transaction that has those of many requests. */
#ifndef SQLITE_LEASE_H
#define SQLITE_LEASE_H

#include "name.h"

/* Before the transaction: what happens from now on is told. BUSY: nothing can be taken, which
 * needed no write lock. OK: a transaction has to decide. Or a failure. */
enum dlock_status sqlite_lease_try_begin(struct sqlite_session *session,
                                         const struct dlock_request *req, struct dlock_grant *grant,
                                         struct dlock_error *err);

/* In the transaction. *status is OK, BUSY or, with err, CONFIG. Returns the code of SQLite; after
 * another one than SQLITE_OK the transaction has to be undone. */
int sqlite_lease_try_inside(struct sqlite_name *name, const struct dlock_request *req,
                            struct dlock_grant *grant, enum dlock_status *status,
                            struct dlock_error *err);
/* *held: the token held it, and does no longer. */
int sqlite_lease_unlock_inside(struct sqlite_name *name, const struct dlock_request *req,
                               bool *held);

/* After the transaction, if answer is the answer. */
void sqlite_lease_tried(const struct sqlite_name *name, const struct dlock_request *req,
                        const struct dlock_grant *grant, enum dlock_status answer);
/* After BUSY. */
void sqlite_lease_list_waiter(struct sqlite_session *session, const struct dlock_request *req,
                              struct dlock_grant *grant);
/* After an unlock with status [UNL-4]. */
void sqlite_lease_unlocked(const struct dlock_request *req, enum dlock_status status);

#endif
