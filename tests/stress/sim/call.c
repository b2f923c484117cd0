/* SPDX-License-Identifier: MIT */
/* The calls of a task: by blocking functions, or by operations (dlock_op_start), whose notices one
 * fiber of the process takes. Holds the library to C19. */
#include "../../kit/notices.h"
#include "world.h"

#include "hold/operation.h"

static struct sim_handle *handle_of_lock(struct sim_process *process,
                                         const struct dlock_handle *lock)
{
    for (size_t i = 0; i < SIM_HANDLES; i++)
        if (process->handles[i].lock == lock)
            return &process->handles[i];
    return NULL;
}

/* ---- notices ---- */

void sim_call_lost(void *arg, const struct dlock_notice *notice)
{
    struct sim_handle *handle = handle_of_lock(arg, notice->lock);

    if (handle == NULL)
        return;
    if (handle->async && notice->fence > handle->fence && !handle->process->dead)
        sim_set_misuse("C19: LOST came before DONE");
    sim_record_lost(handle, notice);
}

static void over(struct sim_handle *handle, enum dlock_status status)
{
    if (handle->on_done != NULL)
        handle->on_done(handle, status);
    handle->status = status;
    handle->pending = 0;
    sim_wake(handle->caller);
}

static void done(struct sim_process *process, const struct dlock_notice *notice)
{
    struct sim_handle *handle = handle_of_lock(process, notice->lock);

    if (handle == NULL)
        return;
    if (handle->pending != notice->op) {
        sim_set_misuse("C19: a DONE for which there is no operation");
        return;
    }
    if (notice->status == DLOCK_OK && notice->fence > handle->fence)
        handle->fence = notice->fence;
    over(handle, notice->status);
}

static void take_notices(struct sim_process *process)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    while (!process->deaf && dlt_notice_take(process->client, &notice, NULL) == 1) {
        if (notice.kind == DLOCK_NOTICE_LOST)
            sim_call_lost(process, &notice);
        else if (notice.kind == DLOCK_NOTICE_DONE)
            done(process, &notice);
        sim_yield();
    }
}

static bool listens(const struct sim_process *process)
{
    return !process->deaf && (!process->closing || (sim_world.async && process->tasks > 0));
}

void sim_call_listen(void *arg)
{
    struct sim_process *process = arg;
    int fd = dlock_client_fd(process->client);

    while (listens(process)) {
        sim_await_readable(fd, sim_now() + 20 * SIM_MS);
        if (listens(process))
            take_notices(process);
    }
    sim_process_done(process, &process->helpers);
}

void sim_call_watch(struct sim_handle *handle)
{
    const struct dl_operation *operation = handle->lock->operation;

    if (handle->process->deaf && handle->process->helpers == 0 && handle->pending != 0 &&
        handle->begun && !dl_operation_in_progress(operation))
        over(handle, operation->status);
}

/* ---- calls ---- */

static enum dlock_status call_blocking(struct sim_handle *handle, enum dlock_op op,
                                       int64_t timeout_ms, struct dlock_error *err)
{
    switch (op) {
    case DLOCK_OP_LOCK:
        return dlock_timedlock(handle->lock, timeout_ms, err);
    case DLOCK_OP_RDLOCK:
        return dlock_timedrdlock(handle->lock, timeout_ms, err);
    case DLOCK_OP_UNLOCK:
        return dlock_unlock(handle->lock, err);
    case DLOCK_OP_DOWNGRADE:
        return dlock_downgrade(handle->lock, err);
    default:
        return dlock_renew(handle->lock, 0, err);
    }
}

enum dlock_status sim_call(struct sim_handle *handle, enum dlock_op op, int64_t timeout_ms,
                           sim_done_fn *on_done)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status;

    if (!handle->async) {
        status = call_blocking(handle, op, timeout_ms, &err);
        if (on_done != NULL)
            on_done(handle, status);
        return status;
    }
    handle->pending = op;
    handle->begun = false;
    handle->on_done = on_done;
    handle->caller = sim_fiber_self();
    status = dlock_op_start(handle->lock, op, timeout_ms, &err);
    if (status != DLOCK_OK) {
        handle->pending = 0;
        if (on_done != NULL)
            on_done(handle, status);
        return status;
    }
    handle->begun = true;
    while (handle->pending != 0)
        (void)sim_block(SIM_NEVER);
    return handle->status;
}
