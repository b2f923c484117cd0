/* SPDX-License-Identifier: MIT */
#include "data.h"

#include "execute.h"

#define ROW_IS_NEW 1 /* rows affected; another number: it was there */

enum dlock_status my_data_put(struct my_connection *conn, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;

    if (conn->input.data_len == 0)
        return DLOCK_OK;
    status = my_execute(conn, MY_DATA_PUT, err);
    if (status == DLOCK_UNKNOWN) /* of the name nothing was asked */
        return err->status = DLOCK_UNAVAILABLE;
    if (status == DLOCK_OK && conn->affected == ROW_IS_NEW)
        (void)my_execute(conn, MY_DATA_REAP, &ignored);
    return conn->dead && status == DLOCK_OK
               ? dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%.200s", ignored.message)
               : status;
}

void my_data_remove(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (conn->input.data_len > 0 && !conn->dead)
        (void)my_execute(conn, MY_DATA_REMOVE, &ignored);
}
