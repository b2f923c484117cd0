/* SPDX-License-Identifier: MIT */
#include "transaction.h"

#include "query.h"

enum dlock_status my_transaction_begin(struct my_connection *conn, struct dlock_error *err)
{
    conn->in_transaction = true;
    return my_query(conn, "BEGIN", err);
}

/* The locks of a transaction that goes on would never be given back. */
static enum dlock_status transaction_end(struct my_connection *conn, const char *text,
                                         struct dlock_error *err)
{
    enum dlock_status status = my_query(conn, text, err);

    if (status == DLOCK_OK && my_transaction_is_open(conn))
        conn->dead = true;
    return status;
}

enum dlock_status my_transaction_commit(struct my_connection *conn, struct dlock_error *err)
{
    conn->in_transaction = false;
    return transaction_end(conn, "COMMIT", err);
}

void my_transaction_rollback(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!conn->dead && transaction_end(conn, "ROLLBACK", &ignored) != DLOCK_OK)
        conn->dead = true;
    conn->in_transaction = false;
}

static unsigned server_status(const struct my_connection *conn)
{
    unsigned status = 0;

    return mariadb_get_infov(conn->mysql, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 ? status
                                                                                          : 0;
}

bool my_transaction_is_open(const struct my_connection *conn)
{
    return (server_status(conn) & SERVER_STATUS_IN_TRANS) != 0;
}

bool my_transaction_autocommits(const struct my_connection *conn)
{
    return (server_status(conn) & SERVER_STATUS_AUTOCOMMIT) != 0;
}

void my_transaction_end_read(struct my_connection *conn)
{
    if (!conn->dead && my_transaction_is_open(conn))
        my_transaction_rollback(conn);
}
