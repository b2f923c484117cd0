/* SPDX-License-Identifier: MIT */
#include "open.h"

#include "connect.h"
#include "setup.h"

enum dlock_status pg_open(struct pg_connection *conn, int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    spin_init(&conn->spin, conn->config->spin && !conn->for_messages ? spin_processors() : 0);
    status = pg_connect(conn, err);
    if (status == DLOCK_OK)
        status = pg_setup(conn, err);
    conn->opened_ns = pg_connection_now(conn);
    return status;
}
