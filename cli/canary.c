/* SPDX-License-Identifier: MIT */
#include "canary.h"

#include "lib/time.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum dlock_status canary_init(struct canary *canary, struct dlock_client *client,
                              struct dlock_error *err)
{
    struct dlock_options options = {.struct_size = sizeof options, .label = "doctor"};
    char host[65] = "";
    char name[96];

    *canary = (struct canary){.err = DLOCK_ERROR_INIT};
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "dlock-doctor:%s", host);
    return dlock_new(client, name, strlen(name), &options, &canary->lock, err);
}

void canary_fini(struct canary *canary)
{
    dlock_free(canary->lock);
    canary->lock = NULL;
}

void canary_round(struct canary *canary, int64_t timeout_ms)
{
    int64_t begun_ns = dl_time_now_ns(CLOCK_MONOTONIC), locked_ns;

    canary->unlock_ns = 0;
    canary->status = dlock_timedlock(canary->lock, timeout_ms, &canary->err);
    locked_ns = dl_time_now_ns(CLOCK_MONOTONIC);
    canary->lock_ns = locked_ns - begun_ns;
    if (canary->status == DLOCK_OK) {
        canary->status = dlock_unlock(canary->lock, &canary->err);
        canary->unlock_ns = dl_time_now_ns(CLOCK_MONOTONIC) - locked_ns;
    }
    canary->rounds++;
    canary->failures += canary->status != DLOCK_OK;
}
