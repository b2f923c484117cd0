/* SPDX-License-Identifier: MIT */
/*
 * row_batch.h - slots trylock_batch and unlock_batch of strategy row: one statement, and so one
 * exchange and one commit, for many names.
 *
 * The first statement takes, or releases, the locks of names that nobody else uses. It waits for no
 * row of a name. What it leaves out (readers, permits, names that are held, waited for, new, or
 * locked by another transaction) is called in a second one, in the order of the names: two batches
 * cannot wait for each other. If the server fails that one, it has undone all of it, and each
 * element has an exchange of its own: what is wrong with one name fails no other.
 *
 * With strategy session core makes single calls: a lock is a connection there, so that there is no
 * exchange to share. docs/adr/0047-postgresql-batches.md has the reasons.
 */
#ifndef PG_ROW_BATCH_H
#define PG_ROW_BATCH_H

#include "session.h"

enum dlock_status pg_lease_batch_try(struct pg_session *session, struct dlock_batch_op *const *ops,
                                     size_t n, struct dlock_error *err);
enum dlock_status pg_lease_batch_unlock(struct pg_session *session,
                                        struct dlock_batch_op *const *ops, size_t n,
                                        struct dlock_error *err);

#endif
