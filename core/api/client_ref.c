/* SPDX-License-Identifier: MIT */
#include "api/client_ref.h"
#include "hold/renew_schedule.h"
#include "hold/run_queue.h"
#include "sys/error.h"

#include <stdlib.h>

void dl_client_free(struct dlock_client *client)
{
    dl_combine_fini(&client->releases);
    dl_combine_fini(&client->tries);
    (void)pthread_cond_destroy(&client->call_ended);
    (void)pthread_mutex_destroy(&client->mutex);
    dl_run_queue_free(client->run_queue);
    dl_events_fini(&client->events);
    dl_log_lines_write(client->log_lines, NULL);
    dl_renew_schedule_close(client->renewer);
    dl_renew_schedule_free(client->renewer);
    dl_store_free(client->store);
    dl_lock_options_unref(client->last_options);
    dl_stats_fini(&client->stats);
    free(client->opening);
    free(client);
}

/* The store does not change once it is open. */
void dl_client_unref_after_fork(struct dlock_client *client)
{
    if (--client->refs > 0)
        return;
    dl_events_fini(&client->events);
    dl_renew_schedule_close(client->renewer);
    dl_store_free(client->store);
    free(client);
}

void dl_client_unref(struct dlock_client *client)
{
    size_t refs;

    (void)pthread_mutex_lock(&client->mutex);
    refs = --client->refs;
    (void)pthread_mutex_unlock(&client->mutex);
    if (refs == 0)
        dl_client_free(client);
}

enum dlock_status dl_client_call_begin(struct dlock_client *client, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->shutdown)
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    else
        client->calls++;
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

void dl_client_call_end(struct dlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->calls--;
    (void)pthread_cond_broadcast(&client->call_ended);
    (void)pthread_mutex_unlock(&client->mutex);
}
