/* SPDX-License-Identifier: MIT */
/*
 * row_watch.h - slots watch, wait_any and interrupt of strategy row.
 *
 * A waiter that nothing can tell of its grant, as behind a pooler that loses messages or while no
 * connection can be had, polls its queue entry in the session that it was given: the first one in
 * the queue after a millisecond, and then after pauses of an eighth of the time that it has waited,
 * 25 ms at most. An attempt of wait_any is left to core then, which polls it [ANY-4].
 */
#ifndef PG_ROW_WATCH_H
#define PG_ROW_WATCH_H

#include "session.h"

/* UNAVAILABLE: not queued, or the session's connection has failed. */
enum dlock_status pg_watch(struct pg_session *session, const struct dlock_request *req,
                           struct dlock_grant *grant, struct dlock_error *err);
/* The session is for the connection that listens: its target, and the test of a pooler. */
enum dlock_status pg_watch_any(struct pg_session *session, uint32_t *numbers, size_t *count,
                               int64_t deadline_ns, struct dlock_error *err);
/* req NULL: of wait_any. */
void pg_watch_interrupt(struct pg_session *session, const struct dlock_request *req);

#endif
