/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include "execute.h"
#include "transaction.h"

enum dlock_status my_guard_begin(struct my_connection *conn, enum my_statement which, bool *found,
                                 struct dlock_error *err)
{
    enum dlock_status status = my_transaction_begin(conn, err);

    *found = false;
    if (status == DLOCK_OK)
        status = my_execute_row(conn, which, found, err);
    if (status != DLOCK_OK)
        my_transaction_rollback(conn);
    return status;
}

enum dlock_status my_guard_begin_any(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = my_guard_begin(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK || found)
        return status;
    my_transaction_rollback(conn);
    if (conn->dead)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: the transaction did not end",
                          conn->config->endpoint);
    status = my_execute(conn, MY_ENSURE, err);
    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE; /* a free row, or none */
    if (status == DLOCK_OK)
        status = my_guard_begin(conn, MY_GUARD, &found, err);
    if (status == DLOCK_OK && !found) {
        my_transaction_rollback(conn);
        status = DLOCK_BUSY; /* removed already by another client */
    }
    return status;
}

enum dlock_status my_guard_end(struct my_connection *conn, enum dlock_status status,
                               enum my_statement update, struct dlock_error *err)
{
    if (status == DLOCK_OK)
        status = my_execute(conn, update, err);
    if (status == DLOCK_OK && conn->config->strategy == MY_INSERT)
        status = my_execute(conn, MY_SWEEP, err);
    if (status == DLOCK_OK)
        return my_transaction_commit(conn, err);
    my_transaction_rollback(conn);
    return status;
}
