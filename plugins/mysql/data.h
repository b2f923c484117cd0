/* SPDX-License-Identifier: MIT */
/*
 * data.h - strategies row and insert: what holders publish.
 *
 * {data} has a row for the token of a request, written before the request that may take the name.
 * It is shown with the lease that has this token, and with no other one: so it is there from the
 * grant on, and means nothing before it and after it. The row of a holder that died, or of a
 * request that was given up, is removed by a later one for the name, a day after.
 */
#ifndef MY_DATA_H
#define MY_DATA_H

#include "connection.h"

/* Before a request that may take the name; conn->input is the request's. OK if it publishes
 * nothing. Not OK: the request has not been made. */
enum dlock_status my_data_put(struct my_connection *conn, struct dlock_error *err);

/* After the lease has ended. */
void my_data_remove(struct my_connection *conn);

#endif
