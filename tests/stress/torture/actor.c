/* SPDX-License-Identifier: MIT */
#include "call.h"
#include "oracle.h"
#include "resource.h"
#include "survivor.h"
#include "worker.h"

#include <stdlib.h>
#include <time.h>

#define UNLOCKS_MOST 4
#define INSPECTS     10 /* one in so many turns begins with an inspect */

static void pause_us(int64_t us)
{
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    if (us > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static bool one_in(struct actor *actor, uint64_t cases)
{
    return chance_below(&actor->chance, cases) == 0;
}

static void note(struct grip *grip, enum dlt_event event, uint16_t status, int64_t until_ns)
{
    struct dlt_record record = grip->record;

    record.event = (uint8_t)event;
    record.status = status;
    record.until_ns = until_ns;
    if (event == DLT_INV_LOCK)
        record.data = grip->data;
    else if (event == DLT_RET_LOCK && status == DLOCK_OK)
        keep_acquired(grip, &record);
    else if (event == DLT_INV_UNLOCK)
        record.data = (uint64_t)grip->keep_ms;
    dlt_log_write(grip->actor->worker->log, &record);
}

static void stage_set(struct grip *grip, enum grip_stage stage)
{
    (void)pthread_mutex_lock(&grip->guard);
    grip->stage = stage;
    (void)pthread_mutex_unlock(&grip->guard);
}

/* The end of the lease as far as the handle says so; 0: it is over. */
static int64_t until_of(const struct grip *grip)
{
    int64_t now_ns = dlt_log_now_ns();
    int64_t left_ms = dlock_remaining_ms(grip->lock);

    return left_ms > 0 ? now_ns + left_ms * NS_PER_MS : 0;
}

/* ---- losses ---- */

static void lost_note(struct grip *grip)
{
    struct worker *worker = grip->actor->worker;

    oracle_leave(worker->shared, grip->record.name_id, grip->actor->place);
    note(grip, DLT_LOST, 0, 0);
    grip->told = true;
    atomic_fetch_add(&worker->shared->lost, 1);
}

void actor_lost(void *arg, const struct dlock_notice *event)
{
    struct grip *grip = event->user;
    const struct worker *worker = arg;

    (void)pthread_mutex_lock(&grip->guard);
    /* News that was overtaken by the end of what it is about is nobody's. */
    if (dlock_state(event->lock) != DLOCK_STATE_LOST || grip->stage == GRIP_FREE)
        atomic_fetch_add(&worker->shared->late_news, 1);
    else if (grip->stage == GRIP_TAKING)
        grip->early = true;
    else
        lost_note(grip);
    (void)pthread_mutex_unlock(&grip->guard);
}

/* ---- take ---- */

static int64_t timeout_choose(struct actor *actor)
{
    static const int64_t timeouts[] = {0, 0, 0, 1, 20, 100, 500, 1000, 3000, 3000, 8000, 8000};

    if (one_in(actor, 12))
        return DLOCK_FOREVER;
    return timeouts[chance_below(&actor->chance, sizeof timeouts / sizeof timeouts[0])];
}

static void inv_lock(struct grip *grip, int64_t timeout_ms)
{
    const struct worker *worker = grip->actor->worker;
    int64_t most_ms = timeout_ms;

    if (timeout_ms == 0) /* one exchange, and one more to take it back */
        most_ms = 2 * worker->op_timeout_ms;
    else if (worker->order->session)
        most_ms += worker->op_timeout_ms;
    most_ms += call_later_ms(grip);
    note(grip, DLT_INV_LOCK,
         (uint16_t)((timeout_ms != 0 ? DLT_CALL_WAITS : 0) | (grip->renewed ? DLT_CALL_KEPT : 0)),
         timeout_ms == DLOCK_FOREVER ? 0 : dlt_log_now_ns() + most_ms * NS_PER_MS);
}

static void ret_lock(struct grip *grip, enum dlock_status status)
{
    struct worker *worker = grip->actor->worker;
    bool ok = status == DLOCK_OK;
    int64_t until_ns = ok ? until_of(grip) : 0;

    (void)pthread_mutex_lock(&grip->guard);
    grip->record.fence = ok ? dlock_fence(grip->lock) : 0;
    grip->record.permit = ok ? dlock_permit(grip->lock) : 0;
    note(grip, DLT_RET_LOCK, (uint16_t)status, until_ns);
    grip->stage = ok ? GRIP_HELD : GRIP_FREE;
    if (ok)
        oracle_enter(worker->shared, grip->record.name_id, grip->actor->place, &grip->record,
                     until_ns);
    if (ok && grip->early)
        lost_note(grip);
    (void)pthread_mutex_unlock(&grip->guard);
    atomic_fetch_add(&worker->shared->calls, 1);
    atomic_fetch_add(&worker->shared->acquired, ok);
    atomic_fetch_add(&worker->shared->unknown, status == DLOCK_UNKNOWN);
}

static bool take(struct grip *grip)
{
    struct actor *actor = grip->actor;
    int64_t timeout_ms = timeout_choose(actor);
    bool shared = (actor->worker->caps & DLOCK_CAP_RWLOCK) != 0 &&
                  actor->worker->order->limit == 0 && grip->keeps_ms == 0 && one_in(actor, 4);
    enum dlock_status status;

    grip->record.attempt_id = dlt_log_attempt(actor->worker->log);
    grip->record.mode = shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    grip->record.fence = 0;
    grip->record.permit = 0;
    grip->told = grip->early = false;
    stage_set(grip, GRIP_TAKING);
    inv_lock(grip, timeout_ms);
    status = call_make(grip, shared ? DLOCK_OP_RDLOCK : DLOCK_OP_LOCK, timeout_ms);
    ret_lock(grip, status);
    return status == DLOCK_OK;
}

/* ---- hold ---- */

/* False: the handle says that it holds nothing any more. */
static bool stamp(struct grip *grip)
{
    struct dlt_record record = grip->record;
    enum dlock_state state;

    record.event = DLT_HELD_STAMP;
    record.clock_ns = dlt_log_now_ns();
    state = dlock_state(grip->lock);
    record.until_ns = until_of(grip);
    record.status = state == DLOCK_STATE_HELD || state == DLOCK_STATE_DOUBTFUL;
    dlt_log_write(grip->actor->worker->log, &record);
    if (record.status == 1)
        oracle_extend(grip->actor->worker->shared, grip->record.name_id, grip->actor->place,
                      record.until_ns);
    return record.status == 1;
}

static void renew(struct grip *grip, bool downgrade)
{
    struct actor *actor = grip->actor;
    enum dlock_status status;
    int64_t until_ns;

    (void)pthread_mutex_lock(&grip->guard);
    if (downgrade)
        grip->record.mode = DLOCK_SHARED;
    (void)pthread_mutex_unlock(&grip->guard);
    if (downgrade)
        oracle_downgrade(actor->worker->shared, grip->record.name_id, actor->place);
    note(grip, DLT_INV_RENEW, 1, 0);
    status = call_make(grip, downgrade ? DLOCK_OP_DOWNGRADE : DLOCK_OP_RENEW, 0);
    until_ns = status == DLOCK_OK ? until_of(grip) : 0;
    (void)pthread_mutex_lock(&grip->guard);
    if (status != DLOCK_OK || !grip->told) /* renewed, and lost since */
        note(grip, DLT_RET_RENEW, (uint16_t)status, until_ns);
    (void)pthread_mutex_unlock(&grip->guard);
}

static int64_t hold_choose_us(struct actor *actor)
{
    int64_t ttl_us = actor->worker->order->ttl_ms * 1000;
    uint64_t way = chance_below(&actor->chance, 1000);

    if (actor->worker->order->long_holds)
        return chance_between(&actor->chance, 0, way < 500 ? ttl_us / 2 : 2 * ttl_us);
    if (way < 650)
        return chance_between(&actor->chance, 0, 500);
    if (way < 960)
        return chance_between(&actor->chance, 0, 10000);
    return chance_between(&actor->chance, 0, way < 995 ? ttl_us / 5 : 2 * ttl_us);
}

/* Whoever writes looked at the handle some time ago, as programs do. Those with permits share no
 * resource. */
static void protected_write(struct grip *grip)
{
    if (grip->record.limit == 0 && grip->record.mode == DLOCK_EXCLUSIVE && grip->record.fence != 0)
        (void)resource_write(grip->actor->worker->shared, grip->actor->worker->log, &grip->record);
}

static void hold(struct grip *grip)
{
    struct actor *actor = grip->actor;
    int64_t end_ns = dlt_log_now_ns() + hold_choose_us(actor) * 1000;
    int64_t step_us = actor->worker->order->ttl_ms * 1000 / 20;

    (void)stamp(grip);
    keep_change(grip);
    do {
        int64_t left_us = (end_ns - dlt_log_now_ns()) / 1000;
        bool held;

        pause_us(left_us < step_us ? left_us : step_us);
        protected_write(grip);
        held = stamp(grip);
        if (!held && !one_in(actor, 4))
            return;
        if (one_in(actor, 15) && grip->record.mode == DLOCK_EXCLUSIVE && grip->record.limit == 0 &&
            grip->keep_ms == 0 && (actor->worker->caps & DLOCK_CAP_DOWNGRADE) != 0)
            renew(grip, true);
        else if (one_in(actor, 15))
            renew(grip, false);
    } while (dlt_log_now_ns() < end_ns);
    protected_write(grip);
}

/* ---- programs ---- */

static void program_start(struct grip *grip)
{
    struct actor *actor = grip->actor;
    const struct worker_order *order = actor->worker->order;

    if (order->programs)
        grip->program = survivor_start(
            order->directory, grip->record.name_id, actor->place, grip->record.attempt_id,
            chance_between(&actor->chance, order->ttl_ms / 2, 3 * order->ttl_ms));
}

static void program_end(struct grip *grip)
{
    oracle_leave(grip->actor->worker->shared, grip->record.name_id, grip->actor->place);
    survivor_reap(grip->program);
    grip->program = 0;
}

/* ---- give ---- */

static enum dlock_status give_once(struct grip *grip)
{
    enum dlock_status status;
    /* It may have to wait for a renewal that was sent before. */
    int64_t most_ms = 2 * grip->actor->worker->op_timeout_ms + call_later_ms(grip);

    oracle_leave(grip->actor->worker->shared, grip->record.name_id, grip->actor->place);
    note(grip, DLT_INV_UNLOCK, 0, dlt_log_now_ns() + most_ms * NS_PER_MS);
    status = call_make(grip, DLOCK_OP_UNLOCK, 0);
    note(grip, DLT_RET_UNLOCK, (uint16_t)status, 0);
    atomic_fetch_add(&grip->actor->worker->shared->unknown, status == DLOCK_UNKNOWN);
    return status;
}

static void give(struct grip *grip)
{
    enum dlock_status status = DLOCK_INTERNAL;

    (void)stamp(grip);
    stage_set(grip, GRIP_GIVING);
    for (int i = 0;
         i < UNLOCKS_MOST && status != DLOCK_OK && status != DLOCK_LOST && status != DLOCK_NOT_HELD;
         i++) {
        if (i > 0)
            pause_us(
                chance_between(&grip->actor->chance, 0, grip->actor->worker->order->ttl_ms * 500));
        status = give_once(grip);
        if (one_in(grip->actor, 3))
            break;
    }
    stage_set(grip, GRIP_FREE);
}

/* ---- the thread ---- */

static void think(struct actor *actor)
{
    int64_t most_us = 2 * actor->worker->order->think_us;

    if (one_in(actor, 3))
        pause_us(chance_between(&actor->chance, 0, 3 * most_us));
    else
        pause_us(chance_between(&actor->chance, 0, most_us));
}

void *actor_run(void *arg)
{
    struct actor *actor = arg;
    struct worker *worker = actor->worker;
    unsigned names = worker->order->names;

    while (!worker_stopping(worker)) {
        /* Most want the first one. */
        unsigned name = one_in(actor, 2) ? 0 : (unsigned)chance_below(&actor->chance, names);
        struct grip *grip = &actor->grips[name];

        think(actor);
        if (one_in(actor, INSPECTS))
            inspect_name(grip);
        if (one_in(actor, 40))
            dlock_cancel(worker->actors[chance_below(&actor->chance, worker->order->threads)]
                             .grips[name]
                             .lock);
        if (!take(grip))
            continue;
        program_start(grip);
        hold(grip);
        give(grip);
        program_end(grip);
    }
    return NULL;
}

static bool grip_init(struct grip *grip, struct actor *actor, uint32_t name)
{
    struct worker *worker = actor->worker;
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .user = grip};
    struct dlock_error err = DLOCK_ERROR_INIT;
    char text[32];
    int length = name_text(text, name);

    grip->actor = actor;
    grip->record.name_id = name;
    grip->record.limit = worker->order->limit;
    grip->renewed = actor->place % 4 != 3;
    grip->async = worker->polls_events && actor->place % 5 != 0;
    (void)pthread_mutex_init(&grip->guard, NULL);
    (void)pthread_cond_init(&grip->done, NULL);
    options.renew = grip->renewed ? DLOCK_ON : DLOCK_OFF;
    /* Leases go from hand to hand between equal ones only. */
    options.ttl_ms = actor->place % 3 == 2 ? worker->order->ttl_ms / 2 : worker->order->ttl_ms;
    options.op_timeout_ms = worker->op_timeout_ms;
    options.limit = worker->order->limit;
    options.end = worker->order->programs ? DLOCK_END_PROGRAMS : DLOCK_END_PROCESS;
    keep_choose(grip, &options);
    inspect_publish(grip, &options);
    if (dlock_new(worker->client, text, (size_t)length, &options, &grip->lock, &err) == DLOCK_OK)
        return true;
    (void)fprintf(stderr, "dlock-torture: %s\n", err.message);
    return false;
}

bool actor_init(struct actor *actor, struct worker *worker, unsigned place)
{
    bool right = true;

    actor->worker = worker;
    actor->place = place;
    actor->chance = chance_of(worker->order->seed ^ (uint64_t)place << 32 ^
                              (uint64_t)worker->order->generation << 48);
    for (uint32_t i = 0; right && i < worker->order->names; i++)
        right = grip_init(&actor->grips[i], actor, i);
    return right;
}

void actor_fini(struct actor *actor)
{
    for (uint32_t i = 0; i < actor->worker->order->names; i++)
        dlock_free(actor->grips[i].lock);
}
