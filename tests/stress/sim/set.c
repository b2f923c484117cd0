/* SPDX-License-Identifier: MIT */
/* Is a set held whole or not at all, and do sets in any order never wait in a circle (C18)? Each of
 * its names has a handle of the simulation, and attempts of its own in the history. */
#include "set.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>

#define SETS 700000 /* of a million tasks */

/* Where leases live in sessions a set needs one for each name. */
bool sim_takes_sets(void)
{
    return sim_world.profile->sets && sim_world.choice.kind != SIM_SESSION;
}

void sim_set_check_less(struct dlt_check_options *options)
{
    if (!sim_takes_sets())
        return;
    options->explained = false;
    options->unordered = true;
    options->stall_ns = 0;
}

/* The first one is that of the task. */
static struct sim_handle *member(struct sim_handle *handle, size_t i)
{
    struct sim_handle *handles = handle->process->handles;
    size_t task = (size_t)(handle - handles);

    return i == 0 ? handle : &handles[SIM_TASKS + task * (SIM_MEMBERS - 1) + i - 1];
}

/* Different names, in any order. */
static void names_choose(uint32_t chosen[SIM_MEMBERS])
{
    uint32_t names[SIM_NAMES];

    for (uint32_t i = 0; i < SIM_NAMES; i++)
        names[i] = i;
    for (uint32_t i = 0; i < SIM_MEMBERS; i++) {
        uint32_t at = i + (uint32_t)sim_below(sim_world.choice.names - i);

        chosen[i] = names[at];
        names[at] = names[i];
    }
}

bool sim_set_open(struct sim_handle *handle, const struct dlock_options *options)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    char texts[SIM_MEMBERS][2] = {""};
    const char *names[SIM_MEMBERS];
    uint32_t chosen[SIM_MEMBERS];

    if (!sim_takes_sets() || !sim_chance(SETS))
        return false;
    names_choose(chosen);
    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        texts[i][0] = (char)('a' + (int)chosen[i]);
        names[i] = texts[i];
    }
    handle->async = handle->recursive = false;
    if (dlock_set_new(handle->process->client, names, NULL, SIM_MEMBERS, options, &handle->set,
                      &err) != DLOCK_OK) {
        (void)fprintf(stderr, "set.c: %s\n", err.message);
        abort();
    }
    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        struct sim_handle *one = member(handle, i);

        *one = *handle;
        one->name = chosen[i];
        one->lock = (struct dlock_handle *)dlock_set_member(handle->set, i);
    }
    return true;
}

void sim_set_free(struct sim_handle *handle)
{
    struct dlock_set *set = handle->set;

    for (size_t i = 0; i < SIM_MEMBERS; i++)
        member(handle, i)->lock = NULL; /* nobody looks at what is being freed */
    handle->set = NULL;
    dlock_set_free(set);
}

/* ---- what holds of the whole ---- */

static bool is_held(enum dlock_state state)
{
    return state == DLOCK_STATE_HELD || state == DLOCK_STATE_DOUBTFUL;
}

static void whole_check(struct sim_handle *handle)
{
    enum dlock_state whole = dlock_set_state(handle->set);
    bool all = true, lost = false;

    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        enum dlock_state state = dlock_state(member(handle, i)->lock);

        all &= is_held(state);
        lost |= state == DLOCK_STATE_LOST;
    }
    if (is_held(whole) != all || (whole == DLOCK_STATE_LOST) != lost)
        sim_set_misuse("C18: the state of a set is not that of its members");
}

static void none_check(struct sim_handle *handle)
{
    for (size_t i = 0; i < SIM_MEMBERS; i++)
        if (is_held(dlock_state(member(handle, i)->lock)))
            sim_set_misuse("C18: a set that was not acquired holds a name");
}

/* ---- take, hold, give ---- */

/* Which of its names a set waits for is not known: no attempt is said to wait. */
static void inv_lock(struct sim_handle *handle, int64_t timeout_ms)
{
    int64_t most_ms =
        (timeout_ms > 0 ? timeout_ms : 0) + (SIM_MEMBERS + 2) * sim_task_op_timeout_ms(handle);
    struct dlt_record *record = sim_task_attempt(handle);

    if (record == NULL)
        return;
    record->until_ns = timeout_ms == DLOCK_FOREVER ? 0 : sim_in_ms(most_ms);
    record->status = handle->renewed ? DLT_CALL_KEPT : 0;
}

static bool take(struct sim_handle *handle)
{
    int64_t timeout_ms =
        sim_chance(500000) ? DLOCK_FOREVER : sim_between(0, 6 * sim_world.choice.ttl_ms);
    bool shared = sim_world.choice.shared && sim_chance(200000);
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status;

    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        member(handle, i)->mode = shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        inv_lock(member(handle, i), timeout_ms);
    }
    status =
        dlock_set_acquire(handle->set, shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE, timeout_ms, &err);
    for (size_t i = 0; i < SIM_MEMBERS; i++)
        sim_task_ret_lock(member(handle, i), status);
    if (handle->process->dead || handle->process->closing)
        return false;
    if (status == DLOCK_OK)
        whole_check(handle);
    else
        none_check(handle);
    return status == DLOCK_OK;
}

static bool any_told(struct sim_handle *handle)
{
    bool told = false;

    for (size_t i = 0; i < SIM_MEMBERS; i++)
        told |= member(handle, i)->told;
    return told;
}

static void hold(struct sim_handle *handle)
{
    int64_t end_ns = sim_now() + sim_task_hold_ms(handle) * SIM_MS;

    while (sim_now() < end_ns && handle->stage == SIM_HELD) {
        int64_t left_ns = end_ns - sim_now();
        int64_t step_ns = sim_between(SIM_MS / 4, sim_world.choice.ttl_ms * SIM_MS / 5);

        sim_pause(step_ns < left_ns ? step_ns : left_ns);
        if (handle->stage != SIM_HELD || handle->process->dead || handle->process->closing)
            return;
        whole_check(handle);
        for (size_t i = 0; i < SIM_MEMBERS; i++)
            sim_task_stamp(member(handle, i));
        if (any_told(handle) && sim_chance(700000))
            return;
    }
}

static void inv_unlock(struct sim_handle *handle)
{
    struct dlt_record *record = sim_record(handle, DLT_INV_UNLOCK);

    if (record != NULL) {
        record->until_ns = sim_in_ms((SIM_MEMBERS + 1) * sim_task_op_timeout_ms(handle));
        handle->unlocking = sim_world.history.count - 1;
    }
    handle->stage = SIM_UNLOCKING;
}

/* The unlock of a set says that a name was lost, and not which. Of another one it says nothing. */
static enum dlock_status status_of(const struct sim_handle *handle, bool lost,
                                   enum dlock_status status)
{
    if (handle->told || lost)
        return DLOCK_LOST;
    if (status == DLOCK_LOST)
        return handle->until_ns <= sim_host_now(&handle->process->host) ? DLOCK_LOST
                                                                        : DLOCK_UNAVAILABLE;
    return status == DLOCK_NOT_HELD && handle->process->closing ? DLOCK_CLOSED : status;
}

static void give(struct sim_handle *handle)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    bool lost[SIM_MEMBERS];
    bool any = false;
    enum dlock_status status;

    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        lost[i] = dlock_state(member(handle, i)->lock) == DLOCK_STATE_LOST;
        any |= lost[i];
        inv_unlock(member(handle, i));
    }
    status = dlock_set_unlock(handle->set, &err);
    for (size_t i = 0; i < SIM_MEMBERS; i++) {
        struct sim_handle *one = member(handle, i);
        struct dlt_record *record = sim_record(one, DLT_RET_UNLOCK);

        if (record != NULL)
            record->status = (uint16_t)status_of(one, lost[i], status);
        one->stage = SIM_IDLE;
    }
    if (handle->process->dead || handle->process->closing)
        return;
    if (any && status != DLOCK_LOST && status != DLOCK_UNKNOWN)
        sim_set_misuse("C18: the unlock of a set that lost a name said neither LOST nor UNKNOWN");
    if (status == DLOCK_OK || status == DLOCK_LOST)
        none_check(handle);
    else if (status == DLOCK_NOT_HELD)
        sim_set_misuse("C18: the unlock of a set that was held said NOT_HELD");
}

void sim_set_turn(struct sim_handle *handle)
{
    if (!take(handle))
        return;
    hold(handle);
    if (handle->stage == SIM_HELD && !handle->process->dead)
        give(handle);
}
