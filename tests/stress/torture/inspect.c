/* SPDX-License-Identifier: MIT */
#include "worker.h"

#include <stdio.h>
#include <string.h>

int name_text(char *text, uint32_t name)
{
    return snprintf(text, 32, "torture-%u", name);
}

/* Leases that are handed on have none. */
#define PUBLISHES 4 /* one in so many threads */

void inspect_publish(struct grip *grip, struct dlock_options *options)
{
    const struct actor *actor = grip->actor;
    const struct worker *worker = actor->worker;

    if ((worker->caps & DLOCK_CAP_DATA) == 0 || actor->place % PUBLISHES != 1)
        return;
    grip->data = (uint64_t)worker->order->generation << 32 | (actor->place + 1);
    options->data = &grip->data;
    options->data_len = sizeof grip->data;
}

struct inspecting {
    const struct grip *grip;
    int64_t began_ns;
};

static bool shown(void *arg, const struct dlock_holder *holder)
{
    const struct inspecting *inspecting = arg;
    bool is_own = holder->data_len == sizeof(uint64_t) && !holder->kept; /* as somebody put it */
    struct dlt_record record = {
        .event = DLT_SEEN,
        .name_id = inspecting->grip->record.name_id,
        .mode = (uint8_t)holder->mode,
        .fence = holder->fence,
        .until_ns = inspecting->began_ns,
        .data = holder->data_len == 0 ? 0 : UINT64_MAX,
    };

    if (holder->kept && holder->data_len == 0) /* nobody is shown */
        return false;
    if (is_own)
        memcpy(&record.data, holder->data, sizeof record.data);
    dlt_log_write(inspecting->grip->actor->worker->log, &record);
    return false;
}

void inspect_name(struct grip *grip)
{
    const struct worker *worker = grip->actor->worker;
    struct inspecting inspecting = {.grip = grip, .began_ns = dlt_log_now_ns()};
    char name[32];
    int length = name_text(name, grip->record.name_id);

    if ((worker->caps & DLOCK_CAP_DATA) != 0)
        (void)dlock_client_inspect(worker->client, name, (size_t)length, shown, &inspecting, NULL);
}
