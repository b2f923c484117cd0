/* SPDX-License-Identifier: MIT */
/* redis_kit.h - sessions of the redis plugin; session_kit.h has what all have in common. */
#ifndef DLT_REDIS_KIT_H
#define DLT_REDIS_KIT_H

#include "redis_server.h"
#include "session_kit.h"

const struct dlock_plugin *dlock_plugin_redis(void);

/* Where and how: "redis", "127.0.0.1:6379". A unix socket's path for "redis+unix". As the user who
 * may do no more than locks need, unless DLT_REDIS_TRUSTED is in the environment. */
void dlt_session_init(struct dlt_session *session, const char *scheme, const char *where);
/* Before it is opened: as the default user, who may do all. */
void dlt_session_trusted(struct dlt_session *session);
/* init and open on a server; on failure prints why. */
enum dlock_status dlt_session_start(struct dlt_session *session, const struct dlt_redis *server);
/* Another thread's view of the same session: it is CONCURRENT. */
void dlt_session_join(struct dlt_session *session, struct dlt_session *first);

/* dlt_try with DLOCK_REQ_ENQUEUE, and with DLOCK_REQ_REFRESH. */
enum dlock_status dlt_enqueue(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_refresh(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_leave(struct dlt_session *session, struct dlt_request *request);
/* Enqueues, and goes on until the watch hears of grants: BUSY, and queued. */
enum dlock_status dlt_queue_up(struct dlt_session *session, struct dlt_request *request);

#endif
