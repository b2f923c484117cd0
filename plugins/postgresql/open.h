/* SPDX-License-Identifier: MIT */
/* open.h - a connection that is ready for use. */
#ifndef PG_OPEN_H
#define PG_OPEN_H

#include "connection.h"

/* Connects, sets up, and checks the tables unless conn->for_messages. Close it by pg_connect_close
 * after any status. */
enum dlock_status pg_open(struct pg_connection *conn, int64_t deadline_ns, struct dlock_error *err);

#endif
