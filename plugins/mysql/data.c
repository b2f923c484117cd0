/* SPDX-License-Identifier: MIT */
#include "data.h"

#include "added_table.h"
#include "execute.h"

#define REAP_EVERY_NS (60 * DL_NS_PER_S)
#define REAP_MOST_NS  (500 * DL_NS_PER_MS)

bool my_data_is(const struct my_connection *conn)
{
    return conn->input.data_len > 0;
}

enum dlock_status my_data_put(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!my_data_is(conn))
        return DLOCK_OK;
    status = my_execute(conn, MY_DATA_PUT, err);
    if (status == DLOCK_UNKNOWN) /* of the name nothing was asked */
        return err->status = DLOCK_UNAVAILABLE;
    return status;
}

void my_data_remove(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!conn->dead)
        (void)my_execute(conn, MY_DATA_REMOVE, &ignored);
}

void my_data_reap(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    const int64_t now_ns = my_connection_now(conn);
    const int64_t reaped_ns = atomic_load(&conn->tables->reaped_ns);
    enum dlock_status status = DLOCK_INTERNAL;

    if (!my_data_is(conn) || conn->dead || (reaped_ns != 0 && now_ns - reaped_ns < REAP_EVERY_NS))
        return;
    atomic_store(&conn->tables->reaped_ns, now_ns);
    conn->deadline_ns = my_connection_exchange_until(conn, conn->deadline_ns, REAP_MOST_NS);
    status = my_execute(conn, MY_DATA_REAP, &ignored);
    if (my_added_table_is_hidden(status, &ignored))
        (void)my_execute(conn, MY_DATA_REAP_FEW, &ignored);
}
