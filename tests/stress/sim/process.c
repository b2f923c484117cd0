/* SPDX-License-Identifier: MIT */
/* A process: a client of the library, the threads that use it, a clock that runs a little wrong. */
#include "set.h"
#include "sys/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PPM_MOST 4000

static void die(const char *what)
{
    (void)fprintf(stderr, "process.c: %s\n", what);
    abort();
}

static int64_t process_now(void *ctx)
{
    return sim_host_now(&((struct sim_process *)ctx)->host);
}

static void on_lost(void *arg, const struct dlock_notice *notice)
{
    sim_call_lost(arg, notice);
    sim_yield();
}

static void handle_open(struct sim_process *process, size_t i)
{
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct sim_handle *handle = &process->handles[i];
    char name;

    *handle = (struct sim_handle){.process = process,
                                  .name = (uint32_t)sim_below(sim_world.choice.names)};
    name = (char)('a' + (int)handle->name);
    handle->async = sim_world.async && !sim_chance(150000);
    handle->renewed = !sim_chance(150000);
    handle->recursive = sim_chance(100000);
    options.renew = handle->renewed ? DLOCK_ON : DLOCK_OFF;
    options.recursive = handle->recursive ? DLOCK_ON : DLOCK_OFF;
    options.queue = sim_chance(100000) ? DLOCK_OFF : DLOCK_ON;
    if (sim_chance(sim_world.profile->max_hold)) {
        options.max_hold_ms = sim_between(50, 3 * sim_world.choice.ttl_ms);
        handle->renewed = false;
    }
    options.limit = sim_limit(handle);
    sim_keep_choose(handle, &options);
    sim_inspect_publish(handle, &options);
    if (sim_chance(sim_fails_over() ? 400000 : 150000))
        options.ttl_ms = sim_between(100, sim_world.choice.ttl_ms);
    if (sim_fails_over() && sim_chance(500000)) /* waits for a server that stands still */
        options.op_timeout_ms =
            (options.ttl_ms != 0 ? options.ttl_ms : sim_world.choice.ttl_ms) * 9 / 10;
    if (sim_set_open(handle, &options))
        return;
    if (dlock_new(process->client, &name, 1, &options, &handle->lock, &err) != DLOCK_OK)
        die(err.message);
}

static void client_open(struct sim_process *process)
{
    const struct sim_choice *choice = &sim_world.choice;
    struct dlock_client_options options = {.struct_size = sizeof options};
    struct dl_host host = {.clock = {process_now, process}, .random = dl_random_bytes};
    struct dlock_error err = DLOCK_ERROR_INIT;
    char uri[200];

    if (choice->callbacks) {
        options.on_lost = on_lost;
        options.on_lost_arg = process;
    }
    (void)snprintf(uri, sizeof uri,
                   "sim://s?ttl=%lldms&poll_max=%lldms&handoff=%u&connections=%u&open=%s",
                   (long long)choice->ttl_ms, (long long)choice->poll_max_ms, choice->handoff,
                   choice->connections, process->pid % 4 == 0 ? "lazy" : "now");
    while (dl_client_open_static(sim_plugin(), uri, &options, &host, &process->client, &err) !=
           DLOCK_OK) {
        if (err.status != DLOCK_UNAVAILABLE)
            die(err.message);
        sim_pause(sim_between(SIM_MS, 200 * SIM_MS));
    }
}

static void listener_start(struct sim_process *process)
{
    process->helpers++;
    (void)sim_fiber_start(&process->host, true, sim_call_listen, process);
}

static void begin(void *arg)
{
    struct sim_process *process = arg;

    client_open(process);
    for (size_t i = 0; i < sim_world.choice.tasks; i++)
        handle_open(process, i);
    process->alive = true;
    if (!sim_world.choice.callbacks)
        listener_start(process);
    if (sim_is_tethered()) {
        process->links++;
        (void)sim_fiber_start(&process->host, true, sim_tether_link, process);
    }
    for (size_t i = 0; i < sim_world.choice.tasks; i++)
        sim_task_start(&process->handles[i]);
}

void sim_process_start(struct sim_process *process)
{
    *process = (struct sim_process){.pid = ++sim_world.last_pid,
                                    .busy = true,
                                    .ppm = sim_between(-PPM_MOST, PPM_MOST),
                                    .offset_ns = sim_between(0, 1000000 * SIM_MS)};
    (void)sim_fiber_start(&process->host, true, begin, process);
}

/* ---- the end ---- */

static void await(struct sim_process *process, const unsigned *count)
{
    process->closer = sim_fiber_self();
    while (*count > 0)
        (void)sim_block(SIM_NEVER);
    process->closer = NULL;
}

void sim_process_done(struct sim_process *process, unsigned *count)
{
    if (--*count > 0)
        return;
    if (process->closer != NULL)
        sim_wake(process->closer);
    else if (count == &process->tasks && !process->closing && !process->dead)
        sim_process_end(process, false); /* the run is over */
}

/* What is held is given back by closing the client: its claim ends here. An unlock under way goes
 * on beside, one after the other: it has no deadline any more. */
static void claims_end(struct sim_process *process)
{
    for (size_t i = 0; i < SIM_HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];

        if (handle->stage == SIM_HELD) {
            struct dlt_record *record = sim_record(handle, DLT_INV_UNLOCK);

            if (record != NULL)
                record->data = (uint64_t)handle->keep_ms;
            handle->stage = SIM_CLOSING;
        } else if (handle->stage == SIM_UNLOCKING) {
            sim_world.history.records[handle->unlocking].until_ns = 0;
        }
    }
}

/* Whether the store heard of it is not known. */
static void claims_ended(struct sim_process *process)
{
    for (size_t i = 0; i < SIM_HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];
        struct dlt_record *record;

        if (handle->stage != SIM_CLOSING)
            continue;
        record = sim_record(handle, DLT_RET_UNLOCK);
        if (record != NULL)
            record->status = handle->told ? DLOCK_LOST : DLOCK_UNAVAILABLE;
        handle->stage = SIM_IDLE;
    }
}

/* Closes the client while its threads are in calls. */
static void close_first(struct sim_process *process)
{
    dlock_client_close(process->client);
    claims_ended(process);
    await(process, &process->tasks);
}

/* Closes it when no thread uses it any more. */
static void shut_first(struct sim_process *process)
{
    dlock_client_shutdown(process->client);
    await(process, &process->tasks);
    await(process, &process->helpers);
    claims_ended(process);
}

static void finish(void *arg)
{
    struct sim_process *process = arg;
    bool first = sim_chance(500000); /* before its threads know */

    process->closing = true;
    process->deaf = first || !sim_world.async;
    if (process->deaf)
        await(process, &process->helpers);
    claims_end(process);
    await(process, &process->links);
    first = first && !process->dead;
    if (first)
        close_first(process);
    else
        shut_first(process);
    for (size_t i = 0; i < sim_world.choice.tasks; i++) {
        struct sim_handle *handle = &process->handles[i];
        struct dlock_handle *lock = handle->lock;

        if (handle->set != NULL) {
            sim_set_free(handle);
            continue;
        }
        handle->lock = NULL; /* nobody looks at what is being freed */
        dlock_free(lock);
    }
    if (!first)
        dlock_client_close(process->client);
    if (process->waiters != NULL)
        sim_set_misuse("[FGT-1] a slot was never forgotten");
    process->alive = process->busy = false;
    sim_process_over(process);
}

/* The server sees the connections of a process that ends close. Whose host ends, too, it does not
 * see: that is left to the lease. */
static void sessions_end(struct sim_process *process)
{
    for (struct sim_session *s = process->sessions; s != NULL; s = s->next) {
        struct sim_ask ask = {
            .verb = SIM_CLOSE, .session = s->id, .process = process, .pid = process->pid};

        sim_net_hang_up(process, &ask);
    }
}

static void waiters_wake(struct sim_process *process)
{
    for (struct sim_waiter *w = process->waiters; w != NULL; w = w->next)
        if (w->sleeper != NULL)
            sim_wake(w->sleeper);
}

void sim_process_end(struct sim_process *process, bool killed)
{
    if (!process->alive || process->dead || (process->closing && !killed))
        return;
    if (killed) {
        sim_record_nemesis(DLT_NEMESIS_KILL, process->pid, DLT_ALL_NAMES);
        if (sim_world.choice.kind == SIM_SESSION)
            sessions_end(process);
        process->dead = true;
        process->host.cont_ns = 0; /* only we know that it goes on */
        sim_net_forget(process);
        waiters_wake(process);
    }
    if (!process->closing) {
        process->closing = true;
        (void)sim_fiber_start(&process->host, true, finish, process);
    }
}
