/* SPDX-License-Identifier: MIT */
/*
 * data.h - strategies row and insert: what holders publish.
 *
 * {data} has a row for the token of a request, written in the transaction that takes the name or,
 * if one statement takes it, before that one, when the name seems to be free. It is shown with the
 * lease that has this token, and with no other one: so it is there from the grant on, and means
 * nothing before it and after it. A request that is refused leaves no row. That of a holder that
 * died is removed by a later holder of the name, a day after.
 */
#ifndef MY_DATA_H
#define MY_DATA_H

#include "connection.h"

/* Whether the request in conn->input publishes data. */
bool my_data_is(const struct my_connection *conn);

/* In the transaction that takes the name, or before the statement that takes it. OK if the request
 * publishes nothing. Not OK: the name has not been taken. */
enum dlock_status my_data_put(struct my_connection *conn, struct dlock_error *err);

/* After the lease has ended, or when the token did not get the name. */
void my_data_remove(struct my_connection *conn);

/* After a grant, with what is left of the call's time: removes some rows of the name that nobody
 * needs, once a minute in a client. It fails without harm to the grant; the connection may be dead
 * after it. */
void my_data_reap(struct my_connection *conn);

#endif
