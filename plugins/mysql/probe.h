/* SPDX-License-Identifier: MIT */
/* probe.h - what this store gives, for people, and as capabilities. */
#ifndef MY_PROBE_H
#define MY_PROBE_H

#include "connection.h"

void my_probe_info(const struct my_connection *conn, struct dlock_session_info *info);
enum dlock_status my_probe(struct my_connection *conn, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err);

#endif
