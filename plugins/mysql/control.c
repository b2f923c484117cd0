/* SPDX-License-Identifier: MIT */
#include "control.h"

#include "connect.h"
#include "lib/deadline_cond.h"
#include "open.h"

/* Time for the exchange of a caller whose deadline is near: a connection that is cut for this
 * deadline has to be made again for the next caller. */
#define LEAST_NS (60 * DL_NS_PER_MS)

void my_control_init(struct my_control *control, const struct my_config *config,
                     const struct dlock_host *host, struct my_tables *tables)
{
    (void)pthread_mutex_init(&control->mutex, NULL);
    (void)dl_deadline_cond_init(&control->freed);
    control->config = config;
    control->host = host;
    control->conn = (struct my_connection){.config = config, .host = host, .tables = tables};
}

void my_control_fini(struct my_control *control)
{
    my_connect_close(&control->conn);
    (void)pthread_cond_destroy(&control->freed);
    (void)pthread_mutex_destroy(&control->mutex);
}

static int64_t left_ns(const struct my_control *control, int64_t deadline_ns)
{
    return deadline_ns - control->host->now_ns(control->host->ctx);
}

/* false: another caller has it still. */
static bool take(struct my_control *control, int64_t deadline_ns)
{
    bool busy = true;

    (void)pthread_mutex_lock(&control->mutex);
    while (control->busy && left_ns(control, deadline_ns) > 0)
        dl_deadline_cond_wait(&control->freed, &control->mutex, left_ns(control, deadline_ns));
    busy = control->busy;
    control->busy = true;
    (void)pthread_mutex_unlock(&control->mutex);
    return !busy;
}

enum dlock_status my_control_begin(struct my_control *control, int64_t deadline_ns,
                                   struct my_connection **conn, struct dlock_error *err)
{
    const int64_t short_ns = LEAST_NS - left_ns(control, deadline_ns);
    const int64_t until_ns = deadline_ns + (short_ns > 0 ? short_ns : 0);
    enum dlock_status status = DLOCK_INTERNAL;

    if (!take(control, until_ns))
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: the second connection is busy",
                          control->config->endpoint);
    *conn = &control->conn;
    control->conn.answered_ns = 0;
    if (control->conn.mysql != NULL)
        status = my_connection_enter(&control->conn, until_ns, err);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    my_connect_close(&control->conn);
    status = my_open(&control->conn, until_ns, err);
    control->conn.dead |= status != DLOCK_OK;
    if (status != DLOCK_OK)
        my_control_end(control);
    return status;
}

void my_control_end(struct my_control *control)
{
    if (control->conn.dead)
        my_connect_close(&control->conn);
    (void)pthread_mutex_lock(&control->mutex);
    control->busy = false;
    (void)pthread_cond_signal(&control->freed);
    (void)pthread_mutex_unlock(&control->mutex);
}
