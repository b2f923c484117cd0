/* SPDX-License-Identifier: MIT */
/*
 * row.h - the slots of strategy row. A function changes a row of a table, which has an owner and an
 * end. plugin.h says what a slot does; self is a struct pg_session.
 *
 * trylock: with a flag of req->flags the queue entry is asked for, or kept. dequeue: a lease that
 * was granted meanwhile goes to the next waiter.
 *
 * Batches: one statement, and so one exchange and one commit, for many names. The first statement
 * takes, or releases, the locks of names that nobody else uses. It waits for no row of a name. What
 * it leaves out (readers, permits, names that are held, waited for, new, or locked by another
 * transaction) is called in a second one, in the order of the names: two batches cannot wait for
 * each other. If the server fails that one, it has undone all of it, and each element has an
 * exchange of its own: what is wrong with one name fails no other.
 * docs/adr/0047-postgresql-batches.md has the reasons.
 *
 * watch: a waiter that nothing can tell of its grant, as behind a pooler that loses messages or
 * while no connection can be had, polls its queue entry in the session that it was given: the first
 * one in the queue after a millisecond, and then after pauses of an eighth of the time that it has
 * waited, 25 ms at most. An attempt of wait_any is left to core then, which polls it [ANY-4].
 */
#ifndef PG_ROW_H
#define PG_ROW_H

#include "session.h"

/* row_lease.c */
enum dlock_status pg_row_trylock(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status pg_row_unlock(void *self, const struct dlock_request *req,
                                struct dlock_error *err);
enum dlock_status pg_row_dequeue(void *self, const struct dlock_request *req,
                                 struct dlock_error *err);
enum dlock_status pg_row_break(void *self, const unsigned char *name, uint32_t name_len,
                               const char *owner, int64_t deadline_ns, struct dlock_error *err);

/* row_batch.c */
enum dlock_status pg_row_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err);
enum dlock_status pg_row_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err);
enum dlock_status pg_row_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                               int64_t deadline_ns, struct dlock_error *err);

/* row_watch.c */
enum dlock_status pg_row_watch(void *self, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);
/* The session is for the connection that listens: its target, and the test of a pooler. */
enum dlock_status pg_row_wait_any(void *self, uint32_t *numbers, size_t *count, int64_t deadline_ns,
                                  struct dlock_error *err);
void pg_row_interrupt(void *self, const struct dlock_request *req);

/* row_listener.c */
void pg_row_forget(void *self, const struct dlock_request *req);

/* row_inspect.c. A list comes page by page; each page has as long as the deadline gives the first.
 */
enum dlock_status pg_row_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                 int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                 struct dlock_error *err);
enum dlock_status pg_row_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                              int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                              struct dlock_error *err);
enum dlock_status pg_row_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                      struct dlock_error *err);

#endif
