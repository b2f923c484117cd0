/* SPDX-License-Identifier: MIT */
/* Do releases keep names and permits, for as long as they were told to (C22)? */
#include "world.h"

#define KEEPS 500000 /* of a million handles of which none is a reader */

bool sim_keeps(void)
{
    return sim_world.profile->keeps && sim_world.choice.kind != SIM_SESSION;
}

/* About the length of a lease: from its acquisition on it may be over when it is released. */
static int64_t length_choose_ms(void)
{
    return sim_between(1, 2 * sim_world.choice.ttl_ms);
}

void sim_keep_choose(struct sim_handle *handle, struct dlock_options *options)
{
    if (!sim_keeps() || !sim_chance(KEEPS))
        return;
    handle->keeps_ms = length_choose_ms();
    options->keep_ms = handle->keeps_ms;
}

void sim_keep_acquired(struct sim_handle *handle, struct dlt_record *record)
{
    int64_t since_ns;

    if (!sim_keeps())
        return;
    since_ns = dlock_since_ms(handle->lock) == 0 ? 0 : handle->lock->since_ns;
    handle->keep_ms = handle->keeps_ms;
    if (since_ns != 0)
        record->data = (uint64_t)sim_host_to_sim(&handle->process->host, since_ns);
}

void sim_keep_change(struct sim_handle *handle)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t keep_ms = sim_chance(300000) ? 0 : length_choose_ms();
    enum dlock_status status = dlock_keep_name(handle->lock, keep_ms, &err);

    if (status == DLOCK_OK)
        handle->keep_ms = keep_ms;
    else if (status != DLOCK_NOT_HELD && status != DLOCK_CLOSED && status != DLOCK_ALREADY)
        sim_set_misuse("C22: dlock_keep_name refuses an exclusive lock that is held");
}
