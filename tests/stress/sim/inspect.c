/* SPDX-License-Identifier: MIT */
/* Does each inspect, at any time, show each holder with its own data (C24)? */
#include "world.h"

#include <string.h>

#define INSPECTS  250000 /* of a million times that a task thinks */
#define PUBLISHES 700000 /* of a million handles */

bool sim_publishes(void)
{
    return sim_world.profile->publishes && sim_world.choice.kind != SIM_SESSION;
}

void sim_inspect_publish(struct sim_handle *handle, struct dlock_options *options)
{
    const struct sim_process *process = handle->process;

    if (!sim_publishes() || !sim_chance(PUBLISHES))
        return;
    handle->data = (uint32_t)process->pid * SIM_TASKS + (uint32_t)(handle - process->handles);
    options->data = &handle->data;
    options->data_len = sizeof handle->data;
}

/* ---- the thread ---- */

struct inspecting {
    struct sim_handle *handle;
    uint32_t name;
    int64_t began_ns;
};

static bool shown(void *arg, const struct dlock_holder *holder)
{
    const struct inspecting *inspecting = arg;
    struct dlt_record *record = sim_record(inspecting->handle, DLT_SEEN);
    uint32_t data = 0;

    if (record == NULL)
        return true;
    if (holder->data_len == sizeof data)
        memcpy(&data, holder->data, sizeof data);
    record->attempt_id = 0;
    record->name_id = inspecting->name;
    record->mode = (uint8_t)holder->mode;
    record->fence = holder->fence;
    record->data = holder->data_len == 0 || data != 0 ? data : UINT64_MAX; /* not as it was put */
    record->until_ns = inspecting->began_ns;
    return false;
}

void sim_inspect_name(struct sim_handle *handle)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct inspecting inspecting = {.handle = handle, .began_ns = sim_now()};
    char name;

    if (!sim_publishes() || !sim_chance(INSPECTS))
        return;
    inspecting.name = (uint32_t)sim_below(sim_world.choice.names);
    name = (char)('a' + (int)inspecting.name);
    (void)dlock_client_inspect(handle->process->client, &name, 1, shown, &inspecting, &err);
}

/* ---- the plugin ---- */

static bool tell(const struct sim_shown *from, const unsigned char *name, uint32_t name_len,
                 dlock_holder_fn *fn, void *arg)
{
    const struct dlock_holder holder = {
        .struct_size = sizeof holder,
        .mode = (enum dlock_mode)from->mode,
        .name = name,
        .name_len = name_len,
        .waiters = UINT32_MAX,
        .fence = from->fence,
        .remaining_ms = -1,
        .held_ms = -1,
        .owner = "",
        .label = "",
        .data = &from->data,
        .data_len = from->data != 0 ? sizeof from->data : 0,
    };

    return fn(arg, &holder);
}

enum dlock_status sim_slot_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err)
{
    struct sim_session *session = self;
    struct sim_answer answer;
    struct sim_ask ask;
    enum dlock_status status;

    sim_slot_enter(session, NULL);
    sim_fresh_check(session);
    sim_ask_make(&ask, SIM_INSPECT, session, NULL);
    ask.name = (uint32_t)(name[0] - 'a');
    status = sim_store_ask(session, &ask, 1, &answer, deadline_ns);
    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE; /* nothing was changed */
    for (uint32_t i = 0; status == DLOCK_OK && i < answer.shown_count; i++)
        if (tell(&answer.shown[i], name, name_len, fn, arg))
            break;
    return sim_slot_leave(session, status, err);
}
