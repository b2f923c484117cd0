/* SPDX-License-Identifier: MIT */
/* sql_session.h - sessions of plugins of SQL servers, which are connections and have strategies;
 * session_kit.h has what all sessions have in common. */
#ifndef DLT_SQL_SESSION_H
#define DLT_SQL_SESSION_H

#include "session_kit.h"

/* A target: that server ("127.0.0.1:3306"), as user u, database locks. Calls end after 5 s. Begins
 * the plugin. */
void dlt_session_sql(struct dlt_session *session, const struct dlock_plugin *plugin,
                     const char *scheme, const char *address);
/* strategy, and a table prefix for it and for this test. */
void dlt_session_strategy(struct dlt_session *session, const char *strategy, const char *test);
/* Another session of the same client, with the same target. */
enum dlock_status dlt_session_join(struct dlt_session *session, struct dlt_session *first);

enum dlock_status dlt_lock(struct dlt_session *session, struct dlt_request *request,
                           int64_t timeout_ms);

void dlt_request_shared(struct dlt_session *session, struct dlt_request *request, const char *name,
                        unsigned char owner, int64_t ttl_ms);

#endif
