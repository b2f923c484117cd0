/* SPDX-License-Identifier: MIT */
/* A thread of an application: takes its lock, holds it, gives it back. */
#include "set.h"

static bool goes_on(const struct sim_process *process)
{
    return !process->dead && !process->closing && sim_world.calls < sim_world.calls_most;
}

static void call_count(const struct sim_process *process)
{
    if (!process->dead && ++sim_world.calls >= sim_world.calls_most)
        sim_world.quiet = true;
}

int64_t sim_in_ms(int64_t ms)
{
    struct sim_host *host = sim_self_host();

    return sim_host_to_sim(host, sim_host_now(host) + ms * SIM_MS);
}

/* The bound of an exchange: of the ttl that the store gives, although a client that is not
 * connected yet does not know which one that is. */
int64_t sim_task_op_timeout_ms(const struct sim_handle *handle)
{
    const struct dl_lock_options *options = handle->lock->options;
    struct dlock_session_info info = {0};
    struct dl_ttl_grid grid = {0};

    sim_info_fill(&info);
    dl_ttl_grid_narrow(&grid, &info);
    return dl_settings_op_timeout_ms(options->op_timeout_ms,
                                     dl_ttl_grid_round(&grid, options->ttl_ms));
}

/* C19: how much later an operation may end because both threads of the driver are in exchanges that
 * the store does not answer. One other operation leaves a thread free. */
static int64_t driver_ms(const struct sim_handle *handle)
{
    const struct sim_profile *profile = sim_world.profile;
    int64_t most_ms = 0;
    unsigned others = 0;

    if (!handle->async || profile->lose + profile->late + profile->slow == 0)
        return 0;
    for (size_t i = 0; i < sim_world.choice.tasks; i++) {
        const struct sim_handle *other = &handle->process->handles[i];
        int64_t ms = sim_task_op_timeout_ms(other);

        others += other != handle && other->async;
        most_ms = ms > most_ms ? ms : most_ms;
    }
    return others < 2 ? 0 : 2 * most_ms;
}

static void record_status(struct sim_handle *handle, enum dlt_event event, int status)
{
    struct dlt_record *record = sim_record(handle, event);

    if (record != NULL)
        record->status = (uint16_t)status;
}

/* ---- lock ---- */

static int64_t timeout_choose(void)
{
    if (sim_chance(150000))
        return 0;
    if (sim_chance(250000))
        return DLOCK_FOREVER;
    return sim_chance(300000) ? sim_between(1, 50) : sim_between(50, 3 * sim_world.choice.ttl_ms);
}

struct dlt_record *sim_task_attempt(struct sim_handle *handle)
{
    handle->attempt = ++sim_world.last_attempt;
    handle->stage = SIM_LOCKING;
    handle->inv_ns = sim_now();
    handle->told = handle->in_line = handle->stayed_out = false;
    return sim_record(handle, DLT_INV_LOCK);
}

static void inv_lock(struct sim_handle *handle, int64_t timeout_ms)
{
    struct dlt_record *record = sim_task_attempt(handle);

    if (record == NULL)
        return;
    record->limit = handle->lock->options->limit;
    record->data = handle->data;
    if (timeout_ms == 0)
        record->until_ns = sim_in_ms(sim_task_op_timeout_ms(handle) + driver_ms(handle));
    else if (sim_world.choice.kind == SIM_SESSION && timeout_ms > 0) /* [LCK-2] */
        record->until_ns =
            sim_in_ms(timeout_ms + sim_task_op_timeout_ms(handle) + driver_ms(handle));
    else if (timeout_ms > 0)
        record->until_ns = sim_in_ms(timeout_ms + driver_ms(handle));
    if (timeout_ms != 0)
        record->status |= DLT_CALL_WAITS;
    if (handle->renewed)
        record->status |= DLT_CALL_KEPT;
}

/* C3: the moment between the library's look at the clock and this one is short, unless the process
 * stood still. */
static void least_check(const struct sim_handle *handle)
{
    int64_t left_ns = handle->until_ns - sim_host_now(&handle->process->host);

    if (handle->renewed && handle->process->host.cont_ns < sim_now() - 50 * SIM_MS &&
        left_ns < dl_lease_least_ns(handle->lock->renewal.lease_ms) - 5 * SIM_MS)
        sim_set_misuse("C3: OK with too little of the lease left");
}

void sim_task_ret_lock(struct sim_handle *handle, enum dlock_status status)
{
    struct dlt_record *record;

    if (status == DLOCK_INTERNAL || status == DLOCK_INVALID || status == DLOCK_PROTOCOL)
        sim_set_misuse("a lock said INTERNAL, INVALID or PROTOCOL");
    call_count(handle->process);
    if (status == DLOCK_OK && handle->process->closing)
        status = DLOCK_CLOSED; /* closing unlocks it, at any time from now on */
    handle->stage = status == DLOCK_OK ? SIM_HELD : SIM_IDLE;
    record = sim_record(handle, DLT_RET_LOCK);
    if (record != NULL) {
        record->status = (uint16_t)status;
        if (status == DLOCK_OK) {
            handle->until_ns = dl_lease_until_ns(&handle->lock->lease);
            least_check(handle);
            record->until_ns = sim_host_to_sim(&handle->process->host, handle->until_ns);
            record->fence = dlock_fence(handle->lock);
            record->permit = dlock_permit(handle->lock);
            sim_keep_acquired(handle, record);
        }
    }
}

static bool take(struct sim_handle *handle)
{
    int64_t timeout_ms = timeout_choose();

    handle->mode = sim_world.choice.shared && sim_limit(handle) == 1 && handle->keeps_ms == 0 &&
                           sim_chance(400000)
                       ? DLOCK_SHARED
                       : DLOCK_EXCLUSIVE;
    inv_lock(handle, timeout_ms);
    (void)sim_call(handle, handle->mode == DLOCK_SHARED ? DLOCK_OP_RDLOCK : DLOCK_OP_LOCK,
                   timeout_ms, sim_task_ret_lock);
    return handle->stage == SIM_HELD;
}

/* ---- hold ---- */

void sim_task_stamp(struct sim_handle *handle)
{
    enum dlock_state state = dlock_state(handle->lock);

    record_status(handle, DLT_HELD_STAMP,
                  state == DLOCK_STATE_HELD || state == DLOCK_STATE_DOUBTFUL);
}

static void ret_renew(struct sim_handle *handle, enum dlock_status status)
{
    struct dlt_record *record;

    sim_record_changes(&handle->process->host);
    if (status == DLOCK_OK && handle->told)
        return; /* lost since */
    record = sim_record(handle, DLT_RET_RENEW);
    if (record == NULL)
        return;
    record->status = (uint16_t)status;
    if (status == DLOCK_OK)
        record->until_ns = sim_host_to_sim(&handle->process->host, handle->until_ns);
}

/* Its own, or another thread's, which has to block: an operation of its own would stand in the way
 * of an unlock. */
static void renew(struct sim_handle *handle, bool own)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    bool noted = handle->stage == SIM_HELD && !handle->renewing; /* one at a time is followed */
    uint64_t attempt = handle->attempt;
    int64_t ttl_ms = 0;
    enum dlock_status status;

    if (sim_chance(300000))
        ttl_ms = sim_between(50, sim_world.choice.ttl_ms);
    if (noted)
        record_status(handle, DLT_INV_RENEW, 1);
    handle->renewing |= noted;
    if (own && ttl_ms == 0)
        status = sim_call(handle, DLOCK_OP_RENEW, 0, NULL);
    else
        status = dlock_renew(handle->lock, ttl_ms, &err);
    call_count(handle->process);
    if (noted)
        handle->renewing = false;
    if (noted && handle->attempt == attempt && handle->stage == SIM_HELD)
        ret_renew(handle, status);
}

static void downgrade(struct sim_handle *handle)
{
    enum dlock_status status;

    if (handle->renewing)
        return;
    handle->mode = DLOCK_SHARED;
    handle->renewing = true;
    record_status(handle, DLT_INV_RENEW, 1);
    status = sim_call(handle, DLOCK_OP_DOWNGRADE, 0, NULL);
    handle->renewing = false;
    call_count(handle->process);
    ret_renew(handle, status);
}

/* The status of an unlock, for which closing the client was faster, or whose DONE nobody takes any
 * more. */
static enum dlock_status closed_unlock(const struct sim_handle *handle, enum dlock_status status)
{
    bool closed = status == DLOCK_NOT_HELD ||
                  (handle->async && (status == DLOCK_CLOSED || status == DLOCK_ALREADY));

    if (!handle->process->closing || !closed)
        return status;
    return handle->told ? DLOCK_LOST : DLOCK_CLOSED;
}

/* Acquired and released once more within. */
static void nest(struct sim_handle *handle)
{
    enum dlock_op op = handle->mode == DLOCK_SHARED ? DLOCK_OP_RDLOCK : DLOCK_OP_LOCK;
    enum dlock_status status = sim_call(handle, op, 0, NULL);

    call_count(handle->process);
    if (status != DLOCK_OK)
        return;
    sim_pause(sim_between(1, 5 * SIM_MS));
    if (handle->process->dead || handle->process->closing)
        return;
    status = closed_unlock(handle, sim_call(handle, DLOCK_OP_UNLOCK, 0, NULL));
    call_count(handle->process);
    if (status != DLOCK_OK && status != DLOCK_LOST && status != DLOCK_CLOSED)
        sim_set_misuse("an inner unlock said neither OK nor LOST");
}

int64_t sim_task_hold_ms(const struct sim_handle *handle)
{
    const struct sim_choice *choice = &sim_world.choice;
    uint64_t way = sim_below(100);

    /* To the end of the lease, and on: where nobody renews it, and where much of it is gone. */
    if (way < 20 && (!handle->renewed || sim_now() - handle->inv_ns > choice->ttl_ms * SIM_MS / 3))
        return sim_between(choice->ttl_ms / 2, 3 * choice->ttl_ms / 2);
    if (way < 60)
        return sim_between(0, 2);
    if (way < 90)
        return sim_between(0, choice->hold_ms);
    return sim_between(0, way < 97 ? choice->ttl_ms : 3 * choice->ttl_ms);
}

static void hold(struct sim_handle *handle)
{
    int64_t end_ns = sim_now() + sim_task_hold_ms(handle) * SIM_MS;

    sim_task_stamp(handle);
    while (sim_now() < end_ns && handle->stage == SIM_HELD) {
        int64_t left_ns = end_ns - sim_now();
        int64_t step_ns = sim_between(SIM_MS / 4, sim_world.choice.ttl_ms * SIM_MS / 5);

        sim_pause(step_ns < left_ns ? step_ns : left_ns);
        if (handle->stage != SIM_HELD || handle->process->dead)
            return;
        sim_task_stamp(handle);
        if (handle->told && sim_chance(700000))
            return;
        if (sim_chance(100000))
            renew(handle, true);
        else if (sim_chance(50000) && handle->mode == DLOCK_EXCLUSIVE && sim_limit(handle) == 1 &&
                 sim_world.choice.kind != SIM_SESSION && !handle->recursive && handle->keep_ms == 0)
            downgrade(handle);
        else if (sim_keeps() && handle->mode == DLOCK_EXCLUSIVE && sim_chance(100000))
            sim_keep_change(handle);
        else if (handle->recursive && sim_chance(200000))
            nest(handle);
    }
}

/* ---- unlock ---- */

static enum dlock_status give_once(struct sim_handle *handle)
{
    struct dlt_record *record = sim_record(handle, DLT_INV_UNLOCK);
    enum dlock_status status;

    if (record != NULL) {
        record->until_ns = sim_in_ms(sim_task_op_timeout_ms(handle) + driver_ms(handle));
        record->data = (uint64_t)handle->keep_ms;
        handle->unlocking = sim_world.history.count - 1;
    }
    handle->stage = SIM_UNLOCKING;
    status = sim_call(handle, DLOCK_OP_UNLOCK, 0, NULL);
    call_count(handle->process);
    status = closed_unlock(handle, status);
    record_status(handle, DLT_RET_UNLOCK, status);
    return status;
}

static void give(struct sim_handle *handle)
{
    enum dlock_status status = give_once(handle);

    for (unsigned i = 0; i < 3 && status != DLOCK_OK && status != DLOCK_LOST; i++) {
        if (status == DLOCK_NOT_HELD && !handle->process->dead &&
            (i == 0 || sim_world.choice.kind != SIM_SESSION)) /* [SES-2] */
            sim_set_misuse("an unlock of a lock that was held said NOT_HELD");
        if (!goes_on(handle->process) || sim_chance(400000))
            break;
        sim_pause(sim_between(1, sim_world.choice.ttl_ms * SIM_MS));
        if (!goes_on(handle->process))
            break;
        status = give_once(handle);
    }
    handle->stage = SIM_IDLE;
}

/* ---- the thread ---- */

static void meddle(struct sim_process *process)
{
    struct sim_handle *other = &process->handles[sim_below(sim_world.choice.tasks)];

    if (other->set != NULL)
        return;
    if (sim_chance(500000)) {
        dlock_cancel(other->lock);
        call_count(process);
    } else {
        renew(other, false);
    }
}

static void task(void *arg)
{
    struct sim_handle *handle = arg;
    struct sim_process *process = handle->process;

    while (goes_on(process)) {
        sim_pause(sim_chance(600000) ? sim_between(1, SIM_MS)
                                     : sim_between(1, sim_world.choice.hold_ms * SIM_MS));
        if (goes_on(process) && sim_chance(30000))
            meddle(process);
        if (!goes_on(process))
            break;
        sim_inspect_name(handle);
        if (!goes_on(process))
            break;
        if (handle->set != NULL) {
            sim_set_turn(handle);
            continue;
        }
        if (!take(handle))
            continue;
        hold(handle);
        if (handle->stage == SIM_HELD && !process->dead)
            give(handle);
    }
    sim_process_done(process, &process->tasks);
}

void sim_task_start(struct sim_handle *handle)
{
    handle->process->tasks++;
    (void)sim_fiber_start(&handle->process->host, true, task, handle);
}
