/* SPDX-License-Identifier: MIT */
/* What happens to one call: it is counted, its request is remembered, and a fault may have it. */
#include "memory_hooked.h"

#include <stdlib.h>
#include <string.h>

static void seen_fill(struct memory_seen *seen, const void *self, const struct dlock_request *req,
                      size_t ops)
{
    *seen = (struct memory_seen){.self = self, .req = req, .ops = ops};
    if (req == NULL)
        return;
    seen->name_len = req->name_len;
    memcpy(seen->name, req->name, req->name_len);
    seen->mode = req->mode;
    seen->flags = req->flags;
    memcpy(seen->token, req->token, sizeof seen->token);
    seen->ttl_ms = req->ttl_ms;
    seen->deadline_ns = req->deadline_ns;
    if (req->label != NULL)
        (void)snprintf(seen->label, sizeof seen->label, "%s", req->label);
}

/* The fault at the head of the slot's list, if this call is its turn. */
static struct memory_fault fault_take(struct memory_hooks *hooks, enum memory_slot slot)
{
    struct memory_fault *list = hooks->faults[slot];
    struct memory_fault hit = {0};

    if (hooks->fault_count[slot] == 0)
        return hit;
    if (list[0].skip > 0) {
        list[0].skip--;
        return hit;
    }
    hit = list[0];
    if (--list[0].times == 0) {
        hooks->fault_count[slot]--;
        memmove(list, list + 1, hooks->fault_count[slot] * sizeof *list);
    }
    return hit;
}

struct hooked_call hooked_call_enter(struct hooked_session *session, enum memory_slot slot,
                                     const struct dlock_request *req, size_t ops,
                                     int64_t deadline_ns)
{
    struct memory_hooks *hooks = session->hooks;
    struct hooked_call call = {.session = session, .deadline_ns = deadline_ns};

    call.start_ns = session->host->now_ns(session->host->ctx);
    (void)pthread_mutex_lock(&hooks->mutex);
    hooks->calls[slot]++;
    seen_fill(&hooks->last[slot], session, req, ops);
    call.fault = fault_take(hooks, slot);
    call.dead = session->dead;
    if (call.fault.kind == MEMORY_DIE)
        session->dead = 1;
    (void)pthread_cond_broadcast(&hooks->moved);
    (void)pthread_mutex_unlock(&hooks->mutex);
    return call;
}

static void sleep_until(struct memory_hooks *hooks, const struct dlock_host *host, int64_t until_ns)
{
    uint64_t go = 0;
    int64_t left = 0;

    (void)pthread_mutex_lock(&hooks->mutex);
    go = hooks->go;
    left = until_ns - host->now_ns(host->ctx);
    while (left > 0 && hooks->go == go) {
        memory_hooks_nap(hooks, left);
        left = until_ns - host->now_ns(host->ctx);
    }
    (void)pthread_mutex_unlock(&hooks->mutex);
}

static void hold_back(struct memory_hooks *hooks)
{
    uint64_t go = 0;

    (void)pthread_mutex_lock(&hooks->mutex);
    go = hooks->go;
    hooks->held++;
    (void)pthread_cond_broadcast(&hooks->moved);
    while (hooks->go == go)
        memory_hooks_nap(hooks, DL_NS_PER_S);
    hooks->held--;
    (void)pthread_mutex_unlock(&hooks->mutex);
}

void hooked_late_add(struct hooked_session *session, enum memory_slot slot,
                     const struct dlock_request *req)
{
    struct memory_hooks *hooks = session->hooks;
    struct hooked_late *late = calloc(1, sizeof *late);
    struct hooked_late **link = &hooks->late;

    if (late == NULL)
        abort();
    late->slot = slot;
    late->host = session->host;
    late->config = session->inner.config;
    late->req = *req;
    memcpy(late->name, req->name, req->name_len);
    late->req.name = late->name;
    (void)snprintf(late->label, sizeof late->label, "%s", req->label != NULL ? req->label : "");
    late->req.label = late->label;
    late->req.attempt = &late->scratch;
    (void)pthread_mutex_lock(&hooks->mutex);
    while (*link != NULL)
        link = &(*link)->next;
    *link = late;
    (void)pthread_mutex_unlock(&hooks->mutex);
}

enum dlock_status hooked_call_before(const struct hooked_call *call, struct dlock_error *err)
{
    enum dlock_status status = call->fault.status;
    int64_t after_ns = call->start_ns + call->fault.ms * DL_NS_PER_MS;

    if (call->dead)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNAVAILABLE, 0, "this session is dead");
    switch (call->fault.kind) {
    case MEMORY_LOST_REQUEST:
    case MEMORY_LATE_REQUEST:
        sleep_until(call->session->hooks, call->session->host, after_ns);
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNKNOWN, 0, "the request was lost");
    case MEMORY_REFUSE:
        sleep_until(call->session->hooks, call->session->host, after_ns);
        return dlock_fail(err, MEMORY_ORIGIN, status, 0, "refused by a test");
    case MEMORY_IN_TIME:
        sleep_until(call->session->hooks, call->session->host,
                    after_ns < call->deadline_ns ? after_ns : call->deadline_ns);
        return after_ns <= call->deadline_ns
                   ? HOOKED_NOT_DECIDED
                   : dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNAVAILABLE, 0, "no time was left");
    case MEMORY_DIE:
        if (status == DLOCK_OK)
            status = DLOCK_UNAVAILABLE;
        return dlock_fail(err, MEMORY_ORIGIN, status, 0, "the session died");
    case MEMORY_SLOW:
        sleep_until(call->session->hooks, call->session->host, after_ns);
        return HOOKED_NOT_DECIDED;
    default:
        return HOOKED_NOT_DECIDED;
    }
}

enum dlock_status hooked_call_after(const struct hooked_call *call, enum dlock_status status,
                                    struct dlock_error *err)
{
    struct memory_hooks *hooks = call->session->hooks;
    const struct dlock_host *host = call->session->host;
    int64_t wait_ns = call->fault.ms * DL_NS_PER_MS;

    switch (call->fault.kind) {
    case MEMORY_LOST_REPLY:
        sleep_until(hooks, host, call->start_ns + wait_ns);
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNKNOWN, 0, "the reply was lost");
    case MEMORY_LATE_REPLY:
        sleep_until(hooks, host, call->deadline_ns + wait_ns);
        return status;
    case MEMORY_HELD_REPLY:
        hold_back(hooks);
        return status;
    default:
        return status;
    }
}

static int is_interrupted(const struct hooked_call *call, const struct dlock_request *req)
{
    const struct memory_waiter *waiter = req->attempt;
    struct memory_store *store = call->session->inner.store;
    int interrupted = 0;

    (void)pthread_mutex_lock(&store->mutex);
    interrupted = waiter->interrupted;
    (void)pthread_mutex_unlock(&store->mutex);
    return interrupted;
}

enum dlock_status hooked_watch_deaf(const struct hooked_call *call, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct memory_hooks *hooks = call->session->hooks;
    const struct dlock_host *host = call->session->host;
    int interrupted = 0;

    (void)pthread_mutex_lock(&hooks->mutex);
    for (;;) {
        int64_t left = call->deadline_ns - host->now_ns(host->ctx);

        interrupted = is_interrupted(call, req);
        if (interrupted || left <= 0)
            break;
        memory_hooks_nap(hooks, left);
    }
    (void)pthread_mutex_unlock(&hooks->mutex);
    return dlock_fail(err, MEMORY_ORIGIN, interrupted ? DLOCK_CANCELED : DLOCK_TIMEOUT, 0,
                      "the notification was lost");
}
