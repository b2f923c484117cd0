/* SPDX-License-Identifier: MIT */
/* connect.h - makes and closes a connection: addresses, password, TLS; no statement. */
#ifndef PG_CONNECT_H
#define PG_CONNECT_H

#include "connection.h"

/* Once in a process; non-zero: no memory. */
int pg_connect_init(void);

/* Until conn->deadline_ns. UNAVAILABLE, AUTH, CONFIG, NO_STORE, PROTOCOL, INVALID, NOMEM, CANCELED.
 * Reads the secret again if the server refuses it [SEC-1]. Call pg_connect_close after any status.
 */
enum dlock_status pg_connect(struct pg_connection *conn, struct dlock_error *err);

/* Ends the session in the server as far as that works without waiting. What was set before the
 * opening stays set. Behind a pooler of sessions a connection for messages stops listening first:
 * a message that comes while a pooler resets its session for the next client would make pgbouncer
 * lose count of the answers (README). */
void pg_connect_close(struct pg_connection *conn);

/*
 * After UNAVAILABLE of a statement that changes nothing, the first one of a connection. True: the
 * answer was another client's (conn->stray), and there is time: connect again. The connection is
 * closed then, and what the pooler still owed to it has been waited for, a moment at most: else the
 * next client of that session of the server gets it. conn->deadline_ns stays.
 */
bool pg_connect_again(struct pg_connection *conn);

/* In the child of a fork: closes the descriptor, and leaks the rest, because the library would end
 * the parent's session. */
void pg_connect_after_fork(struct pg_connection *conn);

#endif
