/* SPDX-License-Identifier: MIT */
/* setup.h - what a new connection must know about the server, and the settings of its session. */
#ifndef PG_SETUP_H
#define PG_SETUP_H

#include "connection.h"

#define PG_SETUP_VERSION_LEAST 140000

/* How long a statement of strategy row waits for a lock, unless it says something else. */
#define PG_SETUP_PATIENCE_MS 1000

/*
 * One exchange. Without a pooler, or with one that lends its server to the whole session, it makes
 * the session independent of the defaults of server, database and role. Fills pooled, isolate,
 * flushes and server of conn.
 *
 * CONFIG: the server is a standby or too old. Run it again after conn->shared->pooler has changed.
 */
enum dlock_status pg_setup(struct pg_connection *conn, struct dlock_error *err);

#endif
