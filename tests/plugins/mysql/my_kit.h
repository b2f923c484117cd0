/* SPDX-License-Identifier: MIT */
/* my_kit.h - sessions of the mysql plugin; session_kit.h has what all have in common. */
#ifndef DLT_MY_KIT_H
#define DLT_MY_KIT_H

#include "maria_server.h"
#include "session_kit.h"

const struct dlock_plugin *dlock_plugin_mysql(void);

/* A target: that server, as user u, database locks. Calls end after 5 s. */
void dlt_session_init(struct dlt_session *session, const struct dlt_maria *server);
/* strategy, and a table prefix for it and for this test. */
void dlt_session_strategy(struct dlt_session *session, const char *strategy, const char *test);
/* Another session of the same client, with the same target. */
enum dlock_status dlt_session_join(struct dlt_session *session, struct dlt_session *first);

enum dlock_status dlt_lock(struct dlt_session *session, struct dlt_request *request,
                           int64_t timeout_ms);
void dlt_interrupt(struct dlt_session *session, struct dlt_request *request);

void dlt_request_shared(struct dlt_session *session, struct dlt_request *request, const char *name,
                        unsigned char owner, int64_t ttl_ms);

#endif
