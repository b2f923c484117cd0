/* SPDX-License-Identifier: MIT */
/* The layer around the slots: counts the call, remembers the request, and lets a fault have it. */
#include "hooked.h"

#include <stdlib.h>
#include <string.h>

#define NOT_DECIDED ((enum dlock_status) - 1)

struct call {
    struct hooked_session *session;
    struct memory_fault fault; /* kind 0: none */
    int64_t start_ns;
    int64_t deadline_ns;
    int dead;
};

static const struct dlock_backend_ops *inner_ops(void)
{
    return dlock_plugin_memory()->ops;
}

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

static struct call call_enter(struct hooked_session *session, enum memory_slot slot,
                              const struct dlock_request *req, size_t ops, int64_t deadline_ns)
{
    struct memory_hooks *hooks = session->hooks;
    struct call call = {.session = session, .deadline_ns = deadline_ns};

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
        memory_hooks_nap(hooks, MEMORY_NS_PER_S);
    hooks->held--;
    (void)pthread_mutex_unlock(&hooks->mutex);
}

static void late_add(struct hooked_session *session, enum memory_slot slot,
                     const struct dlock_request *req)
{
    struct memory_hooks *hooks = session->hooks;
    struct hooked_late *late = calloc(1, sizeof *late);
    struct hooked_late **link = &hooks->late;

    if (late == NULL)
        abort();
    late->slot = slot;
    late->host = session->host;
    late->req = *req;
    memcpy(late->name, req->name, req->name_len);
    late->req.name = late->name;
    (void)snprintf(late->label, sizeof late->label, "%s", req->label != NULL ? req->label : "");
    late->req.label = late->label;
    late->req.slot = &late->scratch;
    (void)pthread_mutex_lock(&hooks->mutex);
    while (*link != NULL)
        link = &(*link)->next;
    *link = late;
    (void)pthread_mutex_unlock(&hooks->mutex);
}

/* NOT_DECIDED: execute it. */
static enum dlock_status call_before(const struct call *call, struct dlock_error *err)
{
    enum dlock_status status = call->fault.status;
    int64_t after_ns = call->start_ns + call->fault.ms * MEMORY_NS_PER_MS;

    if (call->dead)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNAVAILABLE, 0, "this session is dead");
    switch (call->fault.kind) {
    case MEMORY_LOST_REQUEST:
    case MEMORY_LATE_REQUEST:
        sleep_until(call->session->hooks, call->session->host, after_ns);
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNKNOWN, 0, "the request was lost");
    case MEMORY_REFUSE:
        return dlock_fail(err, MEMORY_ORIGIN, status, 0, "refused by a test");
    case MEMORY_DIE:
        if (status == DLOCK_OK)
            status = DLOCK_UNAVAILABLE;
        return dlock_fail(err, MEMORY_ORIGIN, status, 0, "the session died");
    case MEMORY_SLOW:
        sleep_until(call->session->hooks, call->session->host, after_ns);
        return NOT_DECIDED;
    default:
        return NOT_DECIDED;
    }
}

/* What the caller is told of an executed call. */
static enum dlock_status call_after(const struct call *call, enum dlock_status status,
                                    struct dlock_error *err)
{
    struct memory_hooks *hooks = call->session->hooks;
    const struct dlock_host *host = call->session->host;
    int64_t wait_ns = call->fault.ms * MEMORY_NS_PER_MS;

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

static void session_enlist(struct hooked_session *session)
{
    struct memory_hooks *hooks = session->hooks;

    (void)pthread_mutex_lock(&hooks->mutex);
    session->next = hooks->sessions;
    hooks->sessions = session;
    (void)pthread_mutex_lock(&session->inner.store->mutex);
    session->inner.store->clock = hooks->has_clock ? &hooks->clock : NULL;
    (void)pthread_mutex_unlock(&session->inner.store->mutex);
    (void)pthread_mutex_unlock(&hooks->mutex);
}

static void session_delist(struct hooked_session *session)
{
    struct memory_hooks *hooks = session->hooks;
    struct hooked_session **link = &hooks->sessions;

    (void)pthread_mutex_lock(&hooks->mutex);
    while (*link != NULL && *link != session)
        link = &(*link)->next;
    if (*link == session)
        *link = session->next;
    (void)pthread_mutex_unlock(&hooks->mutex);
}

static enum dlock_status hooked_open(void *self, const struct dlock_host *host,
                                     const struct dlock_target *target, int64_t deadline_ns,
                                     struct dlock_session_info *info, struct dlock_error *err)
{
    struct hooked_session *session = self;
    enum dlock_status status = NOT_DECIDED;

    session->host = host;
    if (target->hosts[0] != NULL) {
        struct call call;

        session->hooks = memory_hooks_of(target->hosts[0]);
        call = call_enter(session, MEMORY_OPEN, NULL, 0, deadline_ns);
        status = call_before(&call, err);
    }
    if (status == NOT_DECIDED)
        status = inner_ops()->open(&session->inner, host, target, deadline_ns, info, err);
    if (status == DLOCK_OK)
        session_enlist(session);
    return status;
}

static void hooked_close(void *self, int forked)
{
    struct hooked_session *session = self;

    if (!forked && session->hooks != NULL) {
        struct call call = call_enter(session, MEMORY_CLOSE, NULL, 0, INT64_MAX);
        struct dlock_error err = DLOCK_ERROR_INIT;

        (void)call_before(&call, &err);
        session_delist(session);
    }
    inner_ops()->close(&session->inner, forked);
}

static enum dlock_status hooked_trylock(void *self, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_TRYLOCK, req, 0, req->deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
        late_add(session, MEMORY_TRYLOCK, req);
    if (status != NOT_DECIDED)
        return status;
    status = inner_ops()->trylock(&session->inner, req, grant, err);
    if (call.fault.kind == MEMORY_LOST_REPLY)
        *grant = (struct dlock_grant){0};
    return call_after(&call, status, err);
}

/* A message that was lost gives each element its status; a call that was not tried, the call. */
static enum dlock_status hooked_renew(void *self, struct dlock_lease_op *ops, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_RENEW, n > 0 ? ops[0].req : NULL, n, deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (status == NOT_DECIDED) {
        status = inner_ops()->renew(&session->inner, ops, n, deadline_ns, err);
        if (call_after(&call, status, err) != DLOCK_UNKNOWN)
            return status;
        status = DLOCK_UNKNOWN;
    }
    for (size_t i = 0; i < n; i++) {
        ops[i].status = status;
        ops[i].grant = (struct dlock_grant){0};
        if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
            late_add(session, MEMORY_RENEW, ops[i].req);
    }
    return status == DLOCK_UNKNOWN ? DLOCK_OK : status;
}

static enum dlock_status hooked_unlock(void *self, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_UNLOCK, req, 0, req->deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
        late_add(session, MEMORY_UNLOCK, req);
    if (status != NOT_DECIDED)
        return status;
    return call_after(&call, inner_ops()->unlock(&session->inner, req, err), err);
}

static void hooked_forget(void *self, const struct dlock_request *req)
{
    struct hooked_session *session = self;

    (void)call_enter(session, MEMORY_FORGET, req, 0, INT64_MAX);
    inner_ops()->forget(&session->inner, req);
}

static enum dlock_status hooked_watch(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_WATCH, req, 0, req->deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (status != NOT_DECIDED)
        return status;
    return call_after(&call, inner_ops()->watch(&session->inner, req, grant, err), err);
}

static void hooked_interrupt(void *self, const struct dlock_request *req)
{
    struct hooked_session *session = self;

    (void)call_enter(session, MEMORY_INTERRUPT, req, 0, INT64_MAX);
    inner_ops()->interrupt(&session->inner, req);
}

static enum dlock_status hooked_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                                        struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_INSPECT, NULL, 0, deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (status != NOT_DECIDED)
        return status;
    status = inner_ops()->inspect(&session->inner, name, name_len, deadline_ns, fn, arg, err);
    return call_after(&call, status, err);
}

static enum dlock_status hooked_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                     int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_LIST, NULL, 0, deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (status != NOT_DECIDED)
        return status;
    status = inner_ops()->list(&session->inner, prefix, prefix_len, deadline_ns, fn, arg, err);
    return call_after(&call, status, err);
}

static enum dlock_status hooked_break(void *self, const unsigned char *name, uint32_t name_len,
                                      const char *owner, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_BREAK, NULL, 0, deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (status != NOT_DECIDED)
        return status;
    status = inner_ops()->break_lock(&session->inner, name, name_len, owner, deadline_ns, err);
    return call_after(&call, status, err);
}

static enum dlock_status hooked_probe(void *self, int64_t deadline_ns,
                                      struct dlock_session_info *info, dlock_check_fn *fn,
                                      void *arg, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct call call = call_enter(session, MEMORY_PROBE, NULL, 0, deadline_ns);
    enum dlock_status status = call_before(&call, err);

    if (status != NOT_DECIDED)
        return status;
    return call_after(&call, inner_ops()->probe(&session->inner, deadline_ns, info, fn, arg, err),
                      err);
}

static const struct dlock_backend_ops hooked_ops = {
    .struct_size = sizeof hooked_ops,
    .session_size = sizeof(struct hooked_session),
    .slot_size = sizeof(struct memory_waiter),
    .open = hooked_open,
    .close = hooked_close,
    .trylock = hooked_trylock,
    .renew = hooked_renew,
    .unlock = hooked_unlock,
    .forget = hooked_forget,
    .watch = hooked_watch,
    .interrupt = hooked_interrupt,
    .inspect = hooked_inspect,
    .list = hooked_list,
    .break_lock = hooked_break,
    .probe = hooked_probe,
};

static struct dlock_plugin hooked_plugin;

static void hooked_make(void)
{
    hooked_plugin = *dlock_plugin_memory();
    hooked_plugin.ops = &hooked_ops;
}

const struct dlock_plugin *dlock_plugin_memory_hooked(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, hooked_make);
    return &hooked_plugin;
}
