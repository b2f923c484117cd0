/* SPDX-License-Identifier: MIT */
#include "session/slot.h"
#include "sys/trace.h"

#include <dlock/types.h>
#include <stdio.h>

void dl_slot_caps_text(char *out, size_t size, uint64_t caps)
{
#define CAP_NAME(name) {DLOCK_CAP_##name, #name},
    static const struct {
        uint64_t cap;
        const char *name;
    } names[] = {DLOCK_CAP_MAP(CAP_NAME){0, NULL}};
#undef CAP_NAME
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; names[i].name != NULL && used < size; i++)
        if ((caps & names[i].cap) != 0)
            used += (size_t)snprintf(out + used, size - used, " %s", names[i].name);
}

static void add_info(struct dl_trace *trace, enum dlock_status status,
                     const struct dlock_session_info *info)
{
    char caps[DL_SLOT_CAPS_TEXT];

    if (trace->fd < 0 || status != DLOCK_OK)
        return;
    dl_slot_caps_text(caps, sizeof caps, info->caps);
    dl_trace_add(trace, "server=\"%.*s\" caps:%s", (int)sizeof info->server, info->server, caps);
}

static void add_flag(struct dl_trace *trace, uint32_t flags, uint32_t flag, const char *word)
{
    if ((flags & flag) != 0)
        dl_trace_add(trace, "%s", word);
}

static void add_request(struct dl_trace *trace, const struct dlock_request *req)
{
    if (trace->fd < 0)
        return;
    dl_trace_quote(trace, req->name, req->name_len);
    dl_trace_token(trace, req->token);
    dl_trace_add(trace, "%s", req->mode == DLOCK_SHARED ? "shared" : "exclusive");
    add_flag(trace, req->flags, DLOCK_REQ_ENQUEUE, "ENQUEUE");
    add_flag(trace, req->flags, DLOCK_REQ_REFRESH, "REFRESH");
    add_flag(trace, req->flags, DLOCK_REQ_DOWNGRADE, "DOWNGRADE");
    add_flag(trace, req->flags, DLOCK_REQ_ADOPT, "ADOPT");
    dl_trace_add(trace, "ttl=%lldms", (long long)req->ttl_ms);
    if (req->keep_ms > 0)
        dl_trace_add(trace, "keep=%lldms", (long long)req->keep_ms);
    if (req->limit > 1)
        dl_trace_add(trace, "limit=%u", req->limit);
    if (req->data_len > 0)
        dl_trace_add(trace, "data=%ubytes", req->data_len);
    if (req->waiter != 0)
        dl_trace_add(trace, "waiter=%u", req->waiter);
    dl_trace_deadline(trace, req->deadline_ns);
}

static void add_grant(struct dl_trace *trace, enum dlock_status status,
                      const struct dlock_grant *grant)
{
    if (trace->fd < 0)
        return;
    if (status == DLOCK_OK || (grant->flags & DLOCK_GRANT_QUEUED) != 0)
        dl_trace_add(trace, "lease=%lldms fence=%llu", (long long)grant->lease_ms,
                     (unsigned long long)grant->fence);
    if (status == DLOCK_OK && grant->permit > 0)
        dl_trace_add(trace, "permit=%u", grant->permit);
    if (status == DLOCK_BUSY)
        dl_trace_add(trace, "holder=%lldms", (long long)grant->holder_ms);
    if (grant->waiters != UINT32_MAX)
        dl_trace_add(trace, "waiters=%u", grant->waiters);
    add_flag(trace, grant->flags, DLOCK_GRANT_QUEUED, "QUEUED");
    add_flag(trace, grant->flags, DLOCK_GRANT_UNREPORTED, "UNREPORTED");
}

enum dlock_status dl_slot_open(const struct dl_plugin *plugin, void *self,
                               const struct dlock_host *host, const struct dlock_target *target,
                               int64_t deadline_ns, struct dlock_session_info *info,
                               struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "open", self);
    if (trace.fd >= 0) {
        dl_trace_add(&trace, "%s:", target->scheme);
        for (size_t i = 0; target->hosts != NULL && target->hosts[i] != NULL; i++)
            dl_trace_add(&trace, "%s", target->hosts[i]);
        if (target->path[0] != '\0')
            dl_trace_add(&trace, "%s", target->path);
        dl_trace_deadline(&trace, deadline_ns);
    }
    status = plugin->ops.open(self, host, target, deadline_ns, info, err);
    add_info(&trace, status, info);
    dl_trace_end(&trace, status, err);
    return status;
}

void dl_slot_close(const struct dl_plugin *plugin, void *self, bool forked)
{
    struct dl_trace trace;

    dl_trace_begin(&trace, plugin->name, "close", self);
    if (forked)
        dl_trace_add(&trace, "forked");
    plugin->ops.close(self, forked);
    dl_trace_done(&trace);
}

enum dlock_status dl_slot_trylock(const struct dl_plugin *plugin, void *self,
                                  const struct dlock_request *req, struct dlock_grant *grant,
                                  struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "trylock", self);
    add_request(&trace, req);
    status = plugin->ops.trylock(self, req, grant, err);
    add_grant(&trace, status, grant);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_lock(const struct dl_plugin *plugin, void *self,
                               const struct dlock_request *req, struct dlock_grant *grant,
                               struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "lock", self);
    add_request(&trace, req);
    dl_trace_waits(&trace);
    status = plugin->ops.lock(self, req, grant, err);
    dl_trace_quote(&trace, req->name, req->name_len);
    dl_trace_token(&trace, req->token);
    add_grant(&trace, status, grant);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_watch(const struct dl_plugin *plugin, void *self,
                                const struct dlock_request *req, struct dlock_grant *grant,
                                struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "watch", self);
    add_request(&trace, req);
    dl_trace_waits(&trace);
    status = plugin->ops.watch(self, req, grant, err);
    dl_trace_quote(&trace, req->name, req->name_len);
    dl_trace_token(&trace, req->token);
    add_grant(&trace, status, grant);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_wait_any(const struct dl_plugin *plugin, void *self, uint32_t *waiters,
                                   size_t *count, int64_t deadline_ns, struct dlock_error *err)
{
    struct dl_trace trace;
    size_t room = *count;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "wait_any", self);
    dl_trace_deadline(&trace, deadline_ns);
    dl_trace_waits(&trace);
    status = plugin->ops.wait_any(self, waiters, count, deadline_ns, err);
    for (size_t i = 0; status == DLOCK_OK && i < *count && i < room; i++)
        dl_trace_add(&trace, "waiter=%u", waiters[i]);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_dequeue(const struct dl_plugin *plugin, void *self,
                                  const struct dlock_request *req, struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "dequeue", self);
    add_request(&trace, req);
    status = plugin->ops.dequeue(self, req, err);
    dl_trace_end(&trace, status, err);
    return status;
}

void dl_slot_interrupt(const struct dl_plugin *plugin, void *self, const struct dlock_request *req)
{
    struct dl_trace trace;

    dl_trace_begin(&trace, plugin->name, "interrupt", self);
    if (req != NULL)
        dl_trace_token(&trace, req->token);
    plugin->ops.interrupt(self, req);
    dl_trace_done(&trace);
}

/* A line for each lease, all with the time of the call. */
static void renew_trace(const struct dl_trace *call, struct dlock_lease_op *const *ops, size_t n,
                        const struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct dl_trace trace;

        dl_trace_begin(&trace, call->plugin, call->slot, call->session);
        trace.begin_ns = call->begin_ns;
        dl_trace_add(&trace, "%zu/%zu", i + 1, n);
        add_request(&trace, ops[i]->req);
        add_grant(&trace, ops[i]->status, &ops[i]->grant);
        dl_trace_end(&trace, ops[i]->status, err);
    }
}

enum dlock_status dl_slot_renew(const struct dl_plugin *plugin, void *self,
                                struct dlock_lease_op *const *ops, size_t n, int64_t deadline_ns,
                                struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "renew", self);
    dl_trace_add(&trace, "%zu", n);
    dl_trace_deadline(&trace, deadline_ns);
    status = plugin->ops.renew(self, ops, n, deadline_ns, err);
    if (trace.fd >= 0 && status == DLOCK_OK)
        renew_trace(&trace, ops, n, err);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_unlock(const struct dl_plugin *plugin, void *self,
                                 const struct dlock_request *req, struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "unlock", self);
    add_request(&trace, req);
    status = plugin->ops.unlock(self, req, err);
    dl_trace_end(&trace, status, err);
    return status;
}

/* A line for each element, all with the time of the call. */
static void batch_trace(const struct dl_trace *call, struct dlock_batch_op *const *ops, size_t n,
                        bool grants)
{
    for (size_t i = 0; i < n; i++) {
        struct dl_trace trace;

        dl_trace_begin(&trace, call->plugin, call->slot, call->session);
        trace.begin_ns = call->begin_ns;
        dl_trace_add(&trace, "%zu/%zu", i + 1, n);
        add_request(&trace, ops[i]->req);
        if (grants)
            add_grant(&trace, ops[i]->status, &ops[i]->grant);
        dl_trace_end(&trace, ops[i]->status, ops[i]->err);
    }
}

typedef enum dlock_status batch_fn(void *self, struct dlock_batch_op *const *ops, size_t n,
                                   struct dlock_error *err);

/* grants: elements that are OK have one. */
static enum dlock_status batch_call(const struct dl_plugin *plugin, const char *slot, batch_fn *fn,
                                    bool grants, void *self, struct dlock_batch_op *const *ops,
                                    size_t n, struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, slot, self);
    dl_trace_add(&trace, "%zu", n);
    status = fn(self, ops, n, err);
    if (trace.fd >= 0 && status == DLOCK_OK)
        batch_trace(&trace, ops, n, grants);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_trylock_batch(const struct dl_plugin *plugin, void *self,
                                        struct dlock_batch_op *const *ops, size_t n,
                                        struct dlock_error *err)
{
    return batch_call(plugin, "trylock_batch", plugin->ops.trylock_batch, true, self, ops, n, err);
}

enum dlock_status dl_slot_unlock_batch(const struct dl_plugin *plugin, void *self,
                                       struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err)
{
    return batch_call(plugin, "unlock_batch", plugin->ops.unlock_batch, false, self, ops, n, err);
}

void dl_slot_forget(const struct dl_plugin *plugin, void *self, const struct dlock_request *req)
{
    struct dl_trace trace;

    dl_trace_begin(&trace, plugin->name, "forget", self);
    dl_trace_token(&trace, req->token);
    plugin->ops.forget(self, req);
    dl_trace_done(&trace);
}

uint32_t dl_slot_server_of(const struct dl_plugin *plugin, void *self, const unsigned char *name,
                           uint32_t name_len)
{
    return plugin->ops.server_of(self, name, name_len);
}

enum dlock_status dl_slot_inspect(const struct dl_plugin *plugin, void *self,
                                  const unsigned char *name, uint32_t name_len, int64_t deadline_ns,
                                  dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "inspect", self);
    dl_trace_quote(&trace, name, name_len);
    dl_trace_deadline(&trace, deadline_ns);
    status = plugin->ops.inspect(self, name, name_len, deadline_ns, fn, arg, err);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_list(const struct dl_plugin *plugin, void *self,
                               const unsigned char *prefix, uint32_t prefix_len,
                               int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "list", self);
    dl_trace_quote(&trace, prefix, prefix_len);
    dl_trace_deadline(&trace, deadline_ns);
    status = plugin->ops.list(self, prefix, prefix_len, deadline_ns, fn, arg, err);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_list_waiters(const struct dl_plugin *plugin, void *self,
                                       const unsigned char *name, uint32_t name_len,
                                       int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "list_waiters", self);
    dl_trace_quote(&trace, name, name_len);
    dl_trace_deadline(&trace, deadline_ns);
    status = plugin->ops.list_waiters(self, name, name_len, deadline_ns, fn, arg, err);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_break(const struct dl_plugin *plugin, void *self,
                                const unsigned char *name, uint32_t name_len, const char *owner,
                                int64_t deadline_ns, struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "break_lock", self);
    dl_trace_quote(&trace, name, name_len);
    if (owner != NULL)
        dl_trace_add(&trace, "owner=%.8s..", owner);
    dl_trace_deadline(&trace, deadline_ns);
    status = plugin->ops.break_lock(self, name, name_len, owner, deadline_ns, err);
    dl_trace_end(&trace, status, err);
    return status;
}

enum dlock_status dl_slot_probe(const struct dl_plugin *plugin, void *self, int64_t deadline_ns,
                                struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                struct dlock_error *err)
{
    struct dl_trace trace;
    enum dlock_status status;

    dl_trace_begin(&trace, plugin->name, "probe", self);
    dl_trace_deadline(&trace, deadline_ns);
    status = plugin->ops.probe(self, deadline_ns, info, fn, arg, err);
    add_info(&trace, status, info);
    dl_trace_end(&trace, status, err);
    return status;
}
