/* SPDX-License-Identifier: MIT */
/*
 * pooler.h - whether a pooler stands between the client and the server, and of which kind.
 *
 * A pooler gives each client a number of its own in place of the process id of the server. A pooler
 * that lends a server's session to each transaction loses what belongs to a session: advisory locks
 * count for any client, and an idle connection gets no message. The test is this: an idle LISTEN
 * that a second connection reaches, or two connections at one session of the server, or a
 * connection whose session changes.
 */
#ifndef PG_POOLER_H
#define PG_POOLER_H

#include "connection.h"

/* Sets conn->pooled, and *pid to the server's process, by conn->deadline_ns. */
enum dlock_status pg_pooler_detect(struct pg_connection *conn, int64_t *pid,
                                   struct dlock_error *err);

/*
 * Tests `idle`, a connection with nothing in it, by a message from `other`, both of one client and
 * one target, by the deadline_ns of each. Takes a second at most, and a second only behind a pooler
 * of transactions. OK sets *pooler. UNAVAILABLE, CANCELED and others: not found out; a connection
 * that failed is dead.
 */
enum dlock_status pg_pooler_test(struct pg_connection *idle, struct pg_connection *other,
                                 enum pg_pooler *pooler, struct dlock_error *err);

/* The same for one connection, in which no other call runs: makes the second one, and closes it. No
 * second connection without conn->pooled. Notes the answer in conn->shared. */
enum dlock_status pg_pooler_find(struct pg_connection *conn, int64_t deadline_ns,
                                 enum pg_pooler *pooler, struct dlock_error *err);

#endif
