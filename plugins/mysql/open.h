/* SPDX-License-Identifier: MIT */
/* open.h - a connection that is ready for use. */
#ifndef MY_OPEN_H
#define MY_OPEN_H

#include "connection.h"

/* Connects and sets up. Close it by my_connect_close after any status. */
enum dlock_status my_open(struct my_connection *conn, int64_t deadline_ns, struct dlock_error *err);

#endif
