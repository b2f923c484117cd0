/* SPDX-License-Identifier: MIT */
/* The slots that wait: for a grant or a release (watch), or in the server (lock). */
#include "world.h"

#include <string.h>

/* ---- who waits ---- */

void sim_waiter_list(const struct dlock_request *req)
{
    struct sim_process *process = sim_self_process();
    struct sim_waiter *waiter = req->attempt;

    if (waiter->req != NULL)
        return;
    for (const struct sim_waiter *w = process->waiters; w != NULL; w = w->next)
        if (w == waiter) {
            sim_set_misuse("[FGT-1] a slot was cleared that the plugin still used");
            return;
        }
    waiter->req = req;
    waiter->next = process->waiters;
    process->waiters = waiter;
}

void sim_waiter_unlist(const struct dlock_request *req)
{
    struct sim_waiter *waiter = req->attempt;
    struct sim_waiter **link = &sim_self_process()->waiters;

    while (*link != NULL && *link != waiter)
        link = &(*link)->next;
    if (*link != NULL)
        *link = waiter->next;
    waiter->req = NULL;
}

/* Wakes who waits for it. */
static void waiter_wake(struct sim_process *process, struct sim_waiter *waiter)
{
    if (waiter->sleeper != NULL)
        sim_wake(waiter->sleeper);
    if (waiter->req->waiter == 0)
        return;
    waiter->news = true;
    if (process->any_sleeper != NULL)
        sim_wake(process->any_sleeper);
}

void sim_waiter_grant(struct sim_process *process, const unsigned char *token,
                      const struct dlock_grant *grant, uint64_t promotion)
{
    for (struct sim_waiter *w = process->waiters; w != NULL; w = w->next)
        if (memcmp(w->req->token, token, DLOCK_TOKEN_SIZE) == 0) {
            if (promotion != w->queued_by) /* another master's */
                return;
            if (w->granted && w->grant.fence >= grant->fence)
                return;
            w->granted = true;
            w->granted_by = promotion;
            w->grant = *grant;
            waiter_wake(process, w);
        }
}

void sim_waiters_poke(struct sim_process *process, uint32_t name)
{
    for (struct sim_waiter *w = process->waiters; w != NULL; w = w->next)
        if ((uint32_t)(w->req->name[0] - 'a') == name) {
            w->poked = true;
            waiter_wake(process, w);
        }
}

/* [WAT-4] */
static bool fresh(const struct sim_waiter *waiter)
{
    return waiter->granted && waiter->enqueued && waiter->grant.fence > waiter->seen_fence;
}

/* ---- watch ---- */

/* OK: what happened is in the waiter; else what ends the wait. */
static enum dlock_status watched(struct sim_waiter *waiter)
{
    if (fresh(waiter) && (!waiter->interrupted || waiter->grant.fence <= waiter->interrupt_fence))
        return DLOCK_OK;
    if (waiter->interrupted || sim_self_process()->dead)
        return DLOCK_CANCELED;
    return waiter->poked && !waiter->enqueued ? DLOCK_BUSY : DLOCK_TIMEOUT;
}

enum dlock_status sim_slot_watch(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    struct sim_session *session = self;
    struct sim_waiter *waiter = req->attempt;
    int64_t until_ns = sim_host_to_sim(sim_self_host(), req->deadline_ns);
    enum dlock_status status;

    sim_slot_enter(session, req);
    if (!sim_world.quiet && sim_chance(sim_world.profile->refuse)) {
        sim_record_nemesis(DLT_NEMESIS_FAULT, 0, (uint32_t)(req->name[0] - 'a'));
        (void)sim_slot_leave(session, DLOCK_OK, err); /* and works on [FAI-1] */
        return dlock_fail(err, "sim", DLOCK_UNAVAILABLE, 0, "the simulation cannot watch now");
    }
    if (sim_chance(2000)) { /* [WAT-3] */
        sim_pause(sim_between(1, SIM_MS));
        return sim_slot_leave(session, DLOCK_BUSY, err);
    }
    waiter->sleeper = sim_fiber_self();
    while ((status = watched(waiter)) == DLOCK_TIMEOUT && sim_now() < until_ns)
        (void)sim_block(until_ns);
    waiter->sleeper = NULL;
    if (status == DLOCK_OK) {
        *grant = waiter->grant;
        waiter->granted = false;
    }
    session->busy = false;
    return status;
}

static size_t news_take(struct sim_process *process, uint32_t *waiters, size_t room)
{
    size_t count = 0;

    for (struct sim_waiter *w = process->waiters; w != NULL && count < room; w = w->next) {
        if (!w->news)
            continue;
        w->news = false;
        waiters[count++] = w->req->waiter;
    }
    return count;
}

enum dlock_status sim_slot_wait_any(void *self, uint32_t *waiters, size_t *count,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    struct sim_process *process = sim_self_process();
    int64_t until_ns = sim_host_to_sim(&process->host, deadline_ns);
    size_t room = *count;

    (void)self;
    if (process->any_runs)
        sim_set_misuse("two threads in wait_any");
    if (!sim_world.quiet && sim_chance(sim_world.profile->refuse))
        return dlock_fail(err, "sim", DLOCK_UNAVAILABLE, 0, "the simulation cannot watch now");
    process->any_runs = true;
    sim_yield();
    process->any_sleeper = sim_fiber_self();
    while ((*count = news_take(process, waiters, room)) == 0 && !process->any_interrupted &&
           sim_now() < until_ns)
        (void)sim_block(until_ns);
    process->any_sleeper = NULL;
    sim_yield();
    process->any_runs = false;
    if (*count > 0)
        return DLOCK_OK;
    if (process->any_interrupted) {
        process->any_interrupted = false;
        return DLOCK_CANCELED;
    }
    return DLOCK_TIMEOUT;
}

/* [INT-4] */
static void any_interrupt(struct sim_process *process)
{
    process->any_interrupted = true;
    if (process->any_sleeper != NULL)
        sim_wake(process->any_sleeper);
}

void sim_slot_interrupt(void *self, const struct dlock_request *req)
{
    struct sim_waiter *waiter;

    (void)self;
    if (req == NULL) {
        any_interrupt(sim_self_process());
        return;
    }
    waiter = req->attempt;
    if (!waiter->interrupted && waiter->granted)
        waiter->interrupt_fence = waiter->grant.fence;
    waiter->interrupted = true;
    if (waiter->sleeper != NULL)
        sim_wake(waiter->sleeper);
}

/* ---- lock ---- */

/* In which the server made us wait: the lease counts from a ping that was sent since. */
static enum dlock_status confirm(struct sim_session *session, const struct dlock_request *req,
                                 struct dlock_grant *grant)
{
    int64_t now_ns = sim_host_now(sim_self_host());
    uint64_t fence = grant->fence;
    struct sim_answer answer;
    struct sim_ask ask;
    enum dlock_status status;

    sim_ask_make(&ask, SIM_RENEW, session, req);
    status =
        sim_net_exchange(session, &ask, 1, &answer, now_ns + req->op_timeout_ms * SIM_MS, NULL);
    if (status == DLOCK_OK && answer.status == DLOCK_OK) {
        *grant = answer.grant;
        grant->fence = fence;
        grant->since_ns = now_ns;
        return DLOCK_OK;
    }
    return DLOCK_UNKNOWN;
}

/* [LCK-1]: is it ours, or are we out of the line? */
static enum dlock_status call_off(struct sim_session *session, const struct dlock_request *req,
                                  struct dlock_grant *grant, enum dlock_status why)
{
    int64_t now_ns = sim_host_now(sim_self_host());
    struct sim_answer answer;
    struct sim_ask ask;
    enum dlock_status status;

    sim_ask_make(&ask, SIM_CANCEL, session, req);
    status =
        sim_net_exchange(session, &ask, 1, &answer, now_ns + req->op_timeout_ms * SIM_MS, NULL);
    if (status != DLOCK_OK)
        return DLOCK_UNKNOWN;
    if (answer.status != DLOCK_OK)
        return why;
    *grant = answer.grant;
    grant->since_ns = now_ns;
    return DLOCK_OK;
}

enum dlock_status sim_slot_lock(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    struct sim_session *session = self;
    struct sim_waiter *waiter = req->attempt;
    struct sim_answer answer;
    struct sim_ask ask;
    enum dlock_status status;

    sim_slot_enter(session, req);
    sim_fresh_check(session);
    sim_waiter_list(req);
    waiter->sleeper = sim_fiber_self();
    sim_ask_make(&ask, SIM_LOCK, session, req);
    if (waiter->interrupted)
        status = DLOCK_CANCELED;
    else
        status = sim_net_exchange(session, &ask, 1, &answer, req->deadline_ns, waiter);
    waiter->sleeper = NULL;
    if (status == DLOCK_OK) {
        status = answer.status;
        *grant = answer.grant;
        status = confirm(session, req, grant);
    } else if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED) {
        status = call_off(session, req, grant, status);
    }
    return sim_slot_leave(session, status, err);
}
