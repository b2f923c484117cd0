/* SPDX-License-Identifier: MIT */
/* open.h - a connection that is ready for use: made, set up, and with tables that were checked. */
#ifndef PG_OPEN_H
#define PG_OPEN_H

#include "connection.h"

/* Connects, sets up, and checks the tables unless conn->for_messages. Close it by pg_connect_close
 * after any status. */
enum dlock_status pg_open(struct pg_connection *conn, int64_t deadline_ns, struct dlock_error *err);

/*
 * The settings of its session, and what has to be known about the server: one exchange. Without a
 * pooler, or with one that lends its server to the whole session, it makes the session independent
 * of the defaults of server, database and role. Fills pooled, isolate, flushes and server of conn.
 *
 * CONFIG: the server is a standby or too old. Run it again after conn->shared->pooler has changed.
 */
enum dlock_status pg_open_setup(struct pg_connection *conn, struct dlock_error *err);

#endif
