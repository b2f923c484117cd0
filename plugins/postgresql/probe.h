/* SPDX-License-Identifier: MIT */
/* probe.h - what the server and its settings promise. */
#ifndef PG_PROBE_H
#define PG_PROBE_H

#include "connection.h"

/* The capabilities, the server and the endpoint, as the setup found them. */
void pg_probe_info(const struct pg_connection *conn, struct dlock_session_info *info);

/* Checks the server again and reports each check. */
enum dlock_status pg_probe(struct pg_connection *conn, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err);

#endif
