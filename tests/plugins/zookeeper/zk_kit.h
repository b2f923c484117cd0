/* SPDX-License-Identifier: MIT */
/* zk_kit.h - sessions of the zookeeper plugin; session_kit.h has what all have in common. */
#ifndef DLT_ZK_KIT_H
#define DLT_ZK_KIT_H

#include "session_kit.h"
#include "zk_client.h"

/* Servers of 200 ms a tick give sessions of 4,600 ms for this ttl: a machine that stops for a
 * second does not end them. Nothing waits for their end, which expire() of name_kit.h brings about.
 */
#define DLT_ZK_TTL_MS 4000

const struct dlock_plugin *dlock_plugin_zookeeper(void);

/* A target: all members of that server, base "/dlock", ttl=4s. Calls end after 5 s. */
void dlt_session_init(struct dlt_session *session, const struct dlt_zk *server);
/* The same at an address: a proxy, or one member alone. */
void dlt_session_init_at(struct dlt_session *session, const char *address);
/* The base of this test: the path of the URI, "/TEST"; borrowed. */
void dlt_session_base(struct dlt_session *session, const char *path);

#endif
