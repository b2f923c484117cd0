/* SPDX-License-Identifier: MIT */
/* pg_kit.h - sessions of the postgresql plugin; session_kit.h has what all have in common. */
#ifndef DLT_PG_KIT_H
#define DLT_PG_KIT_H

#include "postgres_server.h"
#include "session_kit.h"

const struct dlock_plugin *dlock_plugin_postgresql(void);

/* A target: that server, as user u, database locks. Calls end after 5 s. */
void dlt_session_init(struct dlt_session *session, const struct dlt_postgres *server);
/* strategy, and a table prefix for it and for this test. */
void dlt_session_strategy(struct dlt_session *session, const char *strategy, const char *test);
/* Another session of the same client, with the same target. */
enum dlock_status dlt_session_join(struct dlt_session *session, struct dlt_session *first);

enum dlock_status dlt_lock(struct dlt_session *session, struct dlt_request *request,
                           int64_t timeout_ms);
void dlt_interrupt(struct dlt_session *session, struct dlt_request *request);

#endif
