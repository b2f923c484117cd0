/* SPDX-License-Identifier: MIT */
/* The history: one record an event, as tests/stress/history wants them. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

static struct dlt_record *record_new(enum dlt_event event)
{
    struct dlt_record *record = dlt_history_add(&sim_world.history);

    if (record == NULL) {
        (void)fputs("record.c: no memory\n", stderr);
        abort();
    }
    record->seq = sim_world.history.count;
    record->clock_ns = sim_now();
    record->event = (uint8_t)event;
    return record;
}

struct dlt_record *sim_record(struct sim_handle *handle, enum dlt_event event)
{
    struct dlt_record *record;

    if (handle == NULL || handle->process->dead)
        return NULL;
    record = record_new(event);
    record->pid = handle->process->pid;
    record->tid = sim_fiber_self() == NULL || sim_is_library_thread()
                      ? -1
                      : 1 + (int32_t)(handle - handle->process->handles);
    record->name_id = handle->name;
    record->mode = handle->mode;
    record->attempt_id = handle->attempt;
    return record;
}

void sim_record_nemesis(enum dlt_event event, int32_t pid, uint32_t name)
{
    struct dlt_record *record = record_new(event);

    record->pid = pid;
    record->name_id = name;
}

struct sim_handle *sim_handle_of(struct sim_process *process, const struct dlock_request *req)
{
    for (size_t i = 0; i < SIM_HANDLES; i++)
        if (process->handles[i].lock != NULL && &process->handles[i].lock->claim->req == req)
            return &process->handles[i];
    return NULL;
}

void sim_record_lost(struct sim_handle *handle, const struct dlock_notice *event)
{
    struct dlt_record *record;

    /* The news of an acquisition that is over: told late, and the fence tells which it was. */
    if (handle->stage == SIM_IDLE || handle->stage == SIM_LOCKING ||
        event->fence != dlock_fence(handle->lock)) {
        sim_world.late_news++;
        return;
    }
    handle->told = true;
    record = sim_record(handle, DLT_LOST);
    if (record != NULL)
        record->fence = event->fence;
}

static void lease_watch(struct sim_handle *handle)
{
    uint64_t word = atomic_load(&handle->lock->lease.word);
    int64_t until_ns = (int64_t)(word >> 2);
    struct dlt_record *record;

    if (until_ns == handle->until_ns ||
        ((word & 3) != DLOCK_STATE_HELD && (word & 3) != DLOCK_STATE_DOUBTFUL))
        return;
    handle->until_ns = until_ns;
    record = sim_record(handle, DLT_RET_RENEW);
    if (record != NULL)
        record->until_ns = sim_host_to_sim(&handle->process->host, until_ns);
}

/* An operation that was canceled before it began never stands in line. */
static bool stays_out(const struct sim_handle *handle)
{
    const struct dlock_handle *lock = handle->lock;

    return handle->async && lock->phase == DL_PHASE_ACQUIRING && lock->waiting != NULL &&
           lock->waiting->cancel != DLOCK_OK && !lock->waiting->waiter.queued;
}

/* Who steps out of the line lets others in before its call returns. */
static void turn_watch(struct sim_handle *handle)
{
    const struct dl_waiting *waiting = handle->lock->waiting;
    bool in_line = waiting != NULL && waiting->waiter.queued;
    struct dlt_record *record;

    if ((handle->in_line && !in_line) || (stays_out(handle) && !handle->stayed_out)) {
        handle->stayed_out = true;
        record = sim_record(handle, DLT_LEFT);
        if (record != NULL)
            record->status = 1;
    }
    handle->in_line = in_line;
}

/* Whoever may be renewed is in the renewer's schedule, and not later than is right. */
static void schedule_check(struct sim_process *process, const struct dlock_handle *lock)
{
    if (lock->phase != DL_PHASE_IDLE || lock->renewer_busy || lock->ending > 0 ||
        sim_mutex_held(&process->client->mutex))
        return;
    if (lock->due.heap_index != 0 && lock->due.at_ns > sim_host_now(&process->host) &&
        lock->due.at_ns > dl_renewal_recheck_ns(&lock->renewal, &lock->lease))
        sim_set_misuse("C14: a renewal that is due is not in the schedule");
}

void sim_record_changes(struct sim_host *host)
{
    struct sim_process *process = (struct sim_process *)host;

    for (size_t i = 0; i < SIM_HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];

        if (handle->lock == NULL)
            continue;
        schedule_check(process, handle->lock);
        sim_call_watch(handle);
        if (handle->stage == SIM_HELD || handle->stage == SIM_CLOSING) /* renewed until its turn */
            lease_watch(handle);
        else if (handle->stage == SIM_LOCKING)
            turn_watch(handle);
    }
}
