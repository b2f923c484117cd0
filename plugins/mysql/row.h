/* SPDX-License-Identifier: MIT */
/*
 * row.h - the slots of strategies row and insert. plugin.h says what a slot does; self is a struct
 * my_session.
 *
 * Batches: exclusive locks without data leave together, and with one commit; strategy insert has a
 * second one, for the fences. Names that are new cost one exchange more, and so does a look at the
 * names that were BUSY before. Readers, permits, keeps, holders with data or with an entry in the
 * queue, and a request whose last answer was lost, are single calls, which follow one after
 * another.
 *
 * If the server fails the first statement that takes or ends leases, nothing has happened, and half
 * of the names are tried. A name that is in the way ends up alone, and the others have their locks.
 * On MySQL, or if a later statement fails, each name has a single call. If the connection is lost,
 * a name is UNKNOWN if the exchange may have been executed, and otherwise UNAVAILABLE.
 */
#ifndef MY_ROW_H
#define MY_ROW_H

#include "shared.h"

/* row_lease.c */
enum dlock_status my_row_trylock(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_row_unlock(void *self, const struct dlock_request *req,
                                struct dlock_error *err);
enum dlock_status my_row_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                               int64_t deadline_ns, struct dlock_error *err);
enum dlock_status my_row_break(void *self, const unsigned char *name, uint32_t name_len,
                               const char *owner, int64_t deadline_ns, struct dlock_error *err);

/* row_batch.c */
enum dlock_status my_row_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err);
enum dlock_status my_row_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err);

/* row_queue.c */
enum dlock_status my_row_watch(void *self, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);
void my_row_forget(void *self, const struct dlock_request *req);

#endif
