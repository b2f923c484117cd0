/* SPDX-License-Identifier: MIT */
/* redlock_slots.h - sessions of the plugin with real servers, by the slots of plugin.h. */
#ifndef DLT_REDLOCK_SLOTS_H
#define DLT_REDLOCK_SLOTS_H

#include "redis_server.h"
#include "session_kit.h"

/* A target with these nodes ("127.0.0.1:PORT"), to be opened by dlt_session_open: a node has 1 s to
 * answer, a call 10 s. No guard. */
void dlt_redlock_target(struct dlt_session *session, const char *const *addresses, unsigned count);

/* The same with servers of its own, which are started. Criterion asserts within. stop: closes the
 * session, too. */
void dlt_redlock_start(struct dlt_session *session, struct dlt_redis *servers, unsigned count);
void dlt_redlock_stop(struct dlt_session *session, struct dlt_redis *servers, unsigned count);

#endif
