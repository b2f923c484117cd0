/* SPDX-License-Identifier: MIT */
#include "async/opening.h"
#include "sys/error.h"

#include <stdlib.h>

enum dlock_status dl_opening_reach(struct dlock_client *client, struct dlock_error *err)
{
    const struct dl_settings *settings = &client->store->settings;
    int64_t most_ms = settings->connect_timeout_ms;
    struct dl_session *session;
    enum dlock_status status;

    if (settings->lazy)
        return DLOCK_OK;
    if (settings->wait_ms > 0 && settings->wait_ms < most_ms)
        most_ms = settings->wait_ms;
    status = dl_session_pool_take(&client->pool, DL_USE_HOLDER,
                                  dl_clock_after_ms(dl_client_now(client), most_ms), &session, err);
    if (status == DLOCK_OK)
        dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, DLOCK_OK);
    return status;
}

enum dlock_status dl_opening_begin_locked(struct dlock_client *client, struct dlock_error *err)
{
    client->opening = calloc(1, sizeof *client->opening);
    if (client->opening == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a notice");
    client->opening->opened.kind = DLOCK_NOTICE_OPENED;
    client->calls++;
    return DLOCK_OK;
}

void dl_opening_run_locked(struct dlock_client *client)
{
    struct dl_opening *opening = client->opening;

    if (opening == NULL)
        return;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_error_begin(&opening->error);
    opening->status = dl_opening_reach(client, &opening->error);
    (void)pthread_mutex_lock(&client->mutex);
    dl_events_push(&client->events, &opening->opened);
    client->calls--;
    if (client->shutdown)
        (void)pthread_cond_broadcast(&client->call_ended);
}

struct dlock_notice dl_opening_notice_locked(const struct dlock_client *client,
                                             struct dlock_error *err)
{
    struct dlock_node_error *nodes = err->nodes;

    if (client->opening->status != DLOCK_OK) {
        *err = client->opening->error;
        err->nodes = nodes;
        err->node_count = 0;
    }
    return (struct dlock_notice){.struct_size = sizeof(struct dlock_notice),
                                 .kind = DLOCK_NOTICE_OPENED,
                                 .status = client->opening->status};
}
