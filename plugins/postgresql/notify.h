/* SPDX-License-Identifier: MIT */
/*
 * notify.h - tells waiters that the store has granted them the name.
 *
 * The message is a transaction of its own, after the one that granted: in the granting transaction
 * it would make every commit of the server wait for the others. If it is lost, the waiter finds out
 * when it asks the next time.
 */
#ifndef PG_NOTIFY_H
#define PG_NOTIFY_H

#include "query.h"

/*
 * PG_RELEASE, and what pg_notify_send does with its answer. If the connection's last release passed
 * a name on, the message is in the same exchange.
 */
enum dlock_status pg_notify_release(struct pg_connection *conn, const struct pg_params *params,
                                    PGresult **result, struct dlock_error *err);

/*
 * result: its column `wake` has in each row NULL, or lines "<channel> <token> <fence> <lease_ms>",
 * with a permit of a semaphore behind it, a line for each waiter that was granted. Waiters of this
 * client are woken without the server, and nothing is sent when there are no others. By
 * conn->deadline_ns, or some tens of milliseconds from now. A failure is logged once a client; it
 * fails no call.
 */
void pg_notify_send(struct pg_connection *conn, const PGresult *result);

#endif
