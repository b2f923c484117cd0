/* SPDX-License-Identifier: MIT */
/*
 * row_batch.h - slots trylock_batch and unlock_batch of strategies row and insert.
 *
 * Exclusive locks without data leave together, and with one commit; strategy insert has a second
 * one, for the fences. Names that are new cost one exchange more, and so does a look at the names
 * that were BUSY before. Readers, permits, keeps, holders with data or with an entry in the queue,
 * and a request whose last answer was lost, are single calls, which follow one after another.
 *
 * If the server fails the first statement that takes or ends leases, nothing has happened, and half
 * of the names are tried. A name that is in the way ends up alone, and the others have their locks.
 * On MySQL, or if a later statement fails, each name has a single call. If the connection is lost,
 * a name is UNKNOWN if the exchange may have been executed, and otherwise UNAVAILABLE.
 *
 * Strategy session has single calls [SES-1]: its lock is a transaction in a connection that serves
 * no other name, so that many locks are many connections and many exchanges.
 */
#ifndef MY_ROW_BATCH_H
#define MY_ROW_BATCH_H

#include "connection.h"

enum dlock_status my_lease_batch_try(struct my_connection *conn, struct dlock_batch_op *const *ops,
                                     size_t n, struct dlock_error *err);
/* Each element has its status. */
void my_lease_batch_unlock(struct my_connection *conn, struct dlock_batch_op *const *ops, size_t n);

#endif
