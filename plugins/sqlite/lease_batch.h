/* SPDX-License-Identifier: MIT */
/*
 * lease_batch.h - slots trylock_batch and unlock_batch: one transaction for all elements, and so
 * one commit.
 *
 * A poll that finds its name taken is no part of it. If SQLite fails one of the elements, the
 * transaction is undone, and each element has one of its own. If the commit fails, that is the
 * status of each element.
 */
#ifndef SQLITE_LEASE_BATCH_H
#define SQLITE_LEASE_BATCH_H

#include "session.h"

enum dlock_status sqlite_lease_batch_try(struct sqlite_session *session,
                                         struct dlock_batch_op *const *ops, size_t n,
                                         struct dlock_error *err);
enum dlock_status sqlite_lease_batch_unlock(struct sqlite_session *session,
                                            struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err);

#endif
