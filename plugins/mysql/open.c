/* SPDX-License-Identifier: MIT */
#include "open.h"

#include "connect.h"
#include "setup.h"

enum dlock_status my_open(struct my_connection *conn, int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    conn->tls = conn->config->tls;
    spin_init(&conn->spin, conn->config->spin && !conn->for_queue ? spin_processors() : 0);
    status = my_connect(conn, err);
    conn->in_transaction = true; /* no statement of the setup takes a lock */
    if (status == DLOCK_OK)
        status = my_setup(conn, err);
    conn->in_transaction = false;
    conn->opened_ns = my_connection_now(conn);
    return status;
}
