/* SPDX-License-Identifier: MIT */
/* The layer around the slots of the memory plugin, and the descriptors that have it. */
#include "memory_hooked.h"

#include <stdlib.h>
#include <string.h>

static const struct dlock_backend_ops *inner_ops(void)
{
    return dlock_plugin_memory()->ops;
}

static void session_enlist(struct hooked_session *session, struct dlock_session_info *info)
{
    struct memory_hooks *hooks = session->hooks;

    (void)pthread_mutex_lock(&hooks->mutex);
    session->next = hooks->sessions;
    hooks->sessions = session;
    info->caps &= ~hooks->without;
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
    enum dlock_status status = HOOKED_NOT_DECIDED;

    session->host = host;
    if (target->hosts[0] != NULL) {
        struct hooked_call call;

        session->hooks = memory_hooks_of(target->hosts[0]);
        call = hooked_call_enter(session, MEMORY_OPEN, NULL, 0, deadline_ns);
        status = hooked_call_before(&call, err);
    }
    if (status == HOOKED_NOT_DECIDED)
        status = inner_ops()->open(&session->inner, host, target, deadline_ns, info, err);
    if (status == DLOCK_OK)
        session_enlist(session, info);
    return status;
}

static void hooked_close(void *self, bool forked)
{
    struct hooked_session *session = self;

    if (!forked && session->hooks != NULL) {
        struct hooked_call call = hooked_call_enter(session, MEMORY_CLOSE, NULL, 0, INT64_MAX);
        struct dlock_error err = DLOCK_ERROR_INIT;

        (void)hooked_call_before(&call, &err);
        session_delist(session);
    }
    inner_ops()->close(&session->inner, forked);
}

static enum dlock_status hooked_trylock(void *self, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_TRYLOCK, req, 0, req->deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
        hooked_late_add(session, MEMORY_TRYLOCK, req);
    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->trylock(&session->inner, req, grant, err);
    if (call.fault.kind == MEMORY_LOST_REPLY)
        *grant = (struct dlock_grant){.struct_size = sizeof *grant};
    return hooked_call_after(&call, status, err);
}

/* A message that was lost gives each element its status; a call that was not tried, the call. */
static enum dlock_status hooked_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call =
        hooked_call_enter(session, MEMORY_RENEW, n > 0 ? ops[0]->req : NULL, n, deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status == HOOKED_NOT_DECIDED) {
        status = inner_ops()->renew(&session->inner, ops, n, deadline_ns, err);
        if (hooked_call_after(&call, status, err) != DLOCK_UNKNOWN)
            return status;
        status = DLOCK_UNKNOWN;
    }
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = status;
        ops[i]->grant = (struct dlock_grant){.struct_size = sizeof ops[i]->grant};
        if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
            hooked_late_add(session, MEMORY_RENEW, ops[i]->req);
    }
    return status == DLOCK_UNKNOWN ? DLOCK_OK : status;
}

static enum dlock_status hooked_unlock(void *self, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_UNLOCK, req, 0, req->deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
        hooked_late_add(session, MEMORY_UNLOCK, req);
    if (status != HOOKED_NOT_DECIDED) {
        memory_waiter_fini(req->attempt); /* [UNL-4] */
        return status;
    }
    return hooked_call_after(&call, inner_ops()->unlock(&session->inner, req, err), err);
}

static enum dlock_status hooked_leave(void *self, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_LEAVE, req, 0, req->deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (call.fault.kind == MEMORY_LATE_REQUEST && !call.dead)
        hooked_late_add(session, MEMORY_LEAVE, req);
    if (status != HOOKED_NOT_DECIDED)
        return status;
    return hooked_call_after(&call, inner_ops()->dequeue(&session->inner, req, err), err);
}

static void hooked_forget(void *self, const struct dlock_request *req)
{
    struct hooked_session *session = self;

    if (session != NULL) /* [FGT-2] */
        (void)hooked_call_enter(session, MEMORY_FORGET, req, 0, INT64_MAX);
    inner_ops()->forget(session == NULL ? NULL : &session->inner, req);
}

static enum dlock_status hooked_watch(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_WATCH, req, 0, req->deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->watch(&session->inner, req, grant, err);
    if (call.fault.kind == MEMORY_LOST_REPLY && (status == DLOCK_OK || status == DLOCK_BUSY)) {
        *grant = (struct dlock_grant){.struct_size = sizeof *grant};
        return hooked_watch_deaf(&call, req, err);
    }
    return hooked_call_after(&call, status, err);
}

static enum dlock_status hooked_wait_any(void *self, uint32_t *waiters, size_t *count,
                                         int64_t deadline_ns, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_WAIT_ANY, NULL, 0, deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->wait_any(&session->inner, waiters, count, deadline_ns, err);
    return hooked_call_after(&call, status, err);
}

static void hooked_interrupt(void *self, const struct dlock_request *req)
{
    struct hooked_session *session = self;

    inner_ops()->interrupt(&session->inner, req);
    if (req == NULL) /* of wait_any */
        return;
    (void)hooked_call_enter(session, MEMORY_INTERRUPT, req, 0, INT64_MAX); /* wakes the deaf */
}

static enum dlock_status hooked_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                        struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_INSPECT, NULL, 0, deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->inspect(&session->inner, name, name_len, deadline_ns, fn, arg, err);
    return hooked_call_after(&call, status, err);
}

static enum dlock_status hooked_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_LIST, NULL, 0, deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->list(&session->inner, prefix, prefix_len, deadline_ns, fn, arg, err);
    return hooked_call_after(&call, status, err);
}

static enum dlock_status hooked_break(void *self, const unsigned char *name, uint32_t name_len,
                                      const char *owner, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_BREAK, NULL, 0, deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->break_lock(&session->inner, name, name_len, owner, deadline_ns, err);
    return hooked_call_after(&call, status, err);
}

static enum dlock_status hooked_probe(void *self, int64_t deadline_ns,
                                      struct dlock_session_info *info, dlock_check_fn *fn,
                                      void *arg, struct dlock_error *err)
{
    struct hooked_session *session = self;
    struct hooked_call call = hooked_call_enter(session, MEMORY_PROBE, NULL, 0, deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);

    if (status != HOOKED_NOT_DECIDED)
        return status;
    status = inner_ops()->probe(&session->inner, deadline_ns, info, fn, arg, err);
    (void)pthread_mutex_lock(&session->hooks->mutex);
    info->caps &= ~session->hooks->without;
    (void)pthread_mutex_unlock(&session->hooks->mutex);
    return hooked_call_after(&call, status, err);
}

static const struct dlock_backend_ops hooked_ops = {
    .struct_size = sizeof hooked_ops,
    .session_size = sizeof(struct hooked_session),
    .attempt_size = sizeof(struct memory_waiter),
    .open = hooked_open,
    .close = hooked_close,
    .trylock = hooked_trylock,
    .renew = hooked_renew,
    .unlock = hooked_unlock,
    .forget = hooked_forget,
    .watch = hooked_watch,
    .dequeue = hooked_leave,
    .interrupt = hooked_interrupt,
    .inspect = hooked_inspect,
    .list = hooked_list,
    .break_lock = hooked_break,
    .probe = hooked_probe,
    .wait_any = hooked_wait_any,
    .trylock_batch = hooked_trylock_batch,
    .unlock_batch = hooked_unlock_batch,
};

/* One descriptor for each set of capabilities that somebody did without. */
struct variant {
    struct dlock_plugin plugin;
    struct dlock_backend_ops ops;
    uint32_t without;
    struct variant *next;
};

static pthread_mutex_t variants_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct variant *variants;

static struct variant *variant_new(uint32_t without)
{
    struct variant *variant = calloc(1, sizeof *variant);

    if (variant == NULL)
        abort();
    variant->without = without;
    variant->plugin = *dlock_plugin_memory();
    variant->plugin.caps &= ~without;
    variant->plugin.ops = &variant->ops;
    variant->ops = hooked_ops;
    if (without & DLOCK_CAP_WATCH) {
        variant->ops.watch = NULL;
        variant->ops.wait_any = NULL;
        variant->ops.interrupt = NULL;
    }
    if (without & DLOCK_CAP_QUEUE)
        variant->ops.dequeue = NULL;
    return variant;
}

static const struct dlock_plugin *variant_of(uint32_t without)
{
    struct variant *variant = NULL;

    (void)pthread_mutex_lock(&variants_mutex);
    for (variant = variants; variant != NULL; variant = variant->next) {
        if (variant->without == without)
            break;
    }
    if (variant == NULL) {
        variant = variant_new(without);
        variant->next = variants;
        variants = variant;
    }
    (void)pthread_mutex_unlock(&variants_mutex);
    return &variant->plugin;
}

const struct dlock_plugin *dlock_plugin_memory_hooked(void)
{
    return variant_of(0);
}

const struct dlock_plugin *dlock_plugin_memory_limited(const char *store, uint32_t without)
{
    struct memory_hooks *hooks = memory_hooks_of(store);

    if (without & DLOCK_CAP_WATCH)
        without |= DLOCK_CAP_QUEUE;
    if (without & DLOCK_CAP_RWLOCK)
        without |= DLOCK_CAP_DOWNGRADE;
    (void)pthread_mutex_lock(&hooks->mutex);
    hooks->without = without;
    (void)pthread_mutex_unlock(&hooks->mutex);
    return variant_of(without);
}
