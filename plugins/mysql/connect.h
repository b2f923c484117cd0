/* SPDX-License-Identifier: MIT */
/* connect.h - connections of libmariadb: options, TLS, login, end. */
#ifndef MY_CONNECT_H
#define MY_CONNECT_H

#include "connection.h"

/* Once in a process. */
enum dlock_status my_connect_init(struct dlock_error *err);

/* OK: conn->mysql is connected and authenticated. */
enum dlock_status my_connect(struct my_connection *conn, struct dlock_error *err);

/* Ends a connection in any state. It may be opened again. */
void my_connect_close(struct my_connection *conn);

/* In the child of a fork: closes the descriptor only. */
void my_connect_after_fork(struct my_connection *conn);

/* No more calls for this client (conn->host) come. */
void my_connect_end(const void *client);

#endif
