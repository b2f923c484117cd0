/* SPDX-License-Identifier: MIT */
/* Part of the releases keeps the name, or the permit (C22). */
#include "worker.h"

#define KEEPS   4 /* one in so many threads keeps whatever it releases, and reads nothing */
#define CHANGES 4 /* one in so many holders keeps for another time */

static int64_t length_choose_ms(struct actor *actor)
{
    return chance_between(&actor->chance, 10, actor->worker->order->ttl_ms / 4);
}

static bool can_keep(const struct worker *worker)
{
    return worker->order->keeps && (worker->caps & DLOCK_CAP_KEEP) != 0;
}

void keep_choose(struct grip *grip, struct dlock_options *options)
{
    struct actor *actor = grip->actor;

    if (!can_keep(actor->worker) || actor->place % KEEPS != 2)
        return;
    grip->keeps_ms = length_choose_ms(actor);
    options->keep_ms = grip->keeps_ms;
}

void keep_acquired(struct grip *grip, struct dlt_record *record)
{
    grip->keep_ms = grip->keeps_ms;
    record->data = (uint64_t)dlock_since_ms(grip->lock) * 1000000;
}

void keep_change(struct grip *grip)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct actor *actor = grip->actor;
    int64_t keep_ms;

    if (!can_keep(actor->worker) || grip->record.mode != DLOCK_EXCLUSIVE ||
        chance_below(&actor->chance, CHANGES) != 0)
        return;
    keep_ms = length_choose_ms(actor);
    if (dlock_keep_name(grip->lock, keep_ms, &err) == DLOCK_OK)
        grip->keep_ms = keep_ms;
}
