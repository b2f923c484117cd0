/* SPDX-License-Identifier: MIT */
#include "open.h"

#include "connect.h"
#include "pooler.h"
#include "schema.h"
#include "setup.h"

/* An advisory lock belongs to a session of the server. */
static enum dlock_status pooler_check(struct pg_connection *conn, struct dlock_error *err)
{
    enum pg_pooler pooler = PG_POOLER_UNKNOWN;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->pooled || conn->for_messages || conn->config->strategy != PG_SESSION)
        return DLOCK_OK;
    status = pg_pooler_find(conn, conn->deadline_ns, &pooler, err);
    if (status != DLOCK_OK)
        return status;
    if (pooler != PG_POOLER_TRANSACTION)
        return pg_setup(conn, err); /* now it may set what it needs */
    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: a pooler lends its sessions to transactions, and would give one lock to "
                      "two clients: connect to the server itself, or use strategy=row",
                      conn->config->endpoint);
}

/* A session of a pooler that had answers for another client has none left after the first try. */
#define TRIES 5

static enum dlock_status connect_and_set_up(struct pg_connection *conn, struct dlock_error *err)
{
    int left = TRIES;
    enum dlock_status status = DLOCK_INTERNAL;

    do {
        spin_init(&conn->spin, conn->config->spin && !conn->for_messages ? spin_processors() : 0);
        status = pg_connect(conn, err);
        if (status == DLOCK_OK)
            status = pg_setup(conn, err);
    } while (status == DLOCK_UNAVAILABLE && --left > 0 && pg_connect_again(conn));
    return status;
}

enum dlock_status pg_open(struct pg_connection *conn, int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    status = connect_and_set_up(conn, err);
    if (status == DLOCK_OK)
        status = pooler_check(conn, err);
    if (status == DLOCK_OK && !conn->for_messages &&
        !pg_shared_is_checked(conn->shared, pg_connection_now(conn)))
        status = pg_schema_open(conn, err);
    return status;
}
