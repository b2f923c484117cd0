/* SPDX-License-Identifier: MIT */
/* etcd_kit.h - sessions of the etcd plugin; session_kit.h has what all have in common. */
#ifndef DLT_ETCD_KIT_H
#define DLT_ETCD_KIT_H

#include "etcd_server.h"
#include "session_kit.h"

const struct dlock_plugin *dlock_plugin_etcd(void);

/* A target: the first member of that server, without a prefix; the options of waiters are at their
 * defaults. Calls end after 5 s. */
void dlt_session_init(struct dlt_session *session, const struct dlt_etcd *server);
/* A prefix for this test: the path of the URI, "/PREFIX"; borrowed. */
void dlt_session_prefix(struct dlt_session *session, const char *path);
/* Another session of the same client, with the same target. */
enum dlock_status dlt_session_join(struct dlt_session *session, struct dlt_session *first);

#endif
