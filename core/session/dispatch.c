/* SPDX-License-Identifier: MIT */
#include "session/dispatch.h"
#include "session/slot.h"
#include "session/ttl_grid.h"
#include "sys/error.h"

#include <stdio.h>
#include <string.h>

#define MAY(name) (UINT32_C(1) << DLOCK_##name)

/* The statuses that any slot may return that talks to the store. */
#define MAY_FAIL                                                                                  \
    (MAY(UNKNOWN) | MAY(UNAVAILABLE) | MAY(NO_QUORUM) | MAY(AUTH) | MAY(PROTOCOL) | MAY(CONFIG) | \
     MAY(UNSUPPORTED) | MAY(INVALID) | MAY(FORKED) | MAY(NOMEM) | MAY(INTERNAL) | MAY(NO_STORE))

static enum dlock_status status_check(const struct dl_plugin *plugin, const char *slot,
                                      uint32_t allowed, enum dlock_status status,
                                      struct dlock_error *err)
{
    if ((unsigned)status >= 32 || (allowed & UINT32_C(1) << status) == 0)
        return dl_error(err, DLOCK_INTERNAL, "plugin %s: %s answered %s (%d), which it may not",
                        plugin->name, slot, dlock_status_name((int)status), (int)status);
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        return status;
    if (err->message[0] == '\0') {
        (void)snprintf(err->message, sizeof err->message, "%s (plugin %s gives no reason, from %s)",
                       dlock_status_text((int)status), plugin->name, slot);
        (void)snprintf(err->origin, sizeof err->origin, "%s", plugin->name);
    }
    err->status = status;
    return status;
}

static enum dlock_status ttls_check(const struct dl_plugin *plugin, const char *slot,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    if (!dl_ttl_grid_valid(info))
        return dl_error(err, DLOCK_INTERNAL,
                        "plugin %s: %s reports ttls that none fits: at least %lld ms, at most %lld "
                        "ms, in steps of %lld ms",
                        plugin->name, slot, (long long)info->ttl_least_ms,
                        (long long)info->ttl_most_ms, (long long)info->ttl_step_ms);
    return DLOCK_OK;
}

/* A batch goes to one server. */
static void parallelism_check(const struct dl_plugin *plugin, struct dlock_session_info *info)
{
    const struct dlock_backend_ops *ops = &plugin->ops;

    if (ops->trylock_batch == NULL || ops->unlock_batch == NULL || ops->server_of != NULL ||
        (info->caps & DLOCK_CAP_SESSION) != 0)
        info->parallelism = 0;
}

static enum dlock_status info_check(const struct dl_plugin *plugin, const char *slot,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    uint64_t beyond;
    char text[DL_SLOT_CAPS_TEXT];

    info->struct_size = sizeof *info;
    info->caps &= DLOCK_CAP_ALL; /* as in the descriptor, dl_abi_check */
    beyond = info->caps & ~plugin->caps;
    dl_slot_caps_text(text, sizeof text, beyond);
    if (beyond != 0)
        return dl_error(err, DLOCK_INTERNAL,
                        "plugin %s: %s gives capabilities that its descriptor has not:%s",
                        plugin->name, slot, text);
    info->server[sizeof info->server - 1] = '\0';
    info->endpoint[sizeof info->endpoint - 1] = '\0';
    parallelism_check(plugin, info);
    return ttls_check(plugin, slot, info, err);
}

enum dlock_status dl_dispatch_open(const struct dl_plugin *plugin, void *self,
                                   const struct dlock_host *host, const struct dlock_target *target,
                                   int64_t deadline_ns, struct dlock_session_info *info,
                                   struct dlock_error *err)
{
    enum dlock_status status;

    info->struct_size = sizeof *info;
    dl_error_reset(err);
    status = status_check(plugin, "open", MAY(OK) | MAY_FAIL | MAY(PLUGIN_LOAD),
                          dl_slot_open(plugin, self, host, target, deadline_ns, info, err), err);
    return status == DLOCK_OK ? info_check(plugin, "open", info, err) : status;
}

void dl_dispatch_close(const struct dl_plugin *plugin, void *self, bool forked)
{
    dl_slot_close(plugin, self, forked);
}

static void grant_reset(struct dlock_grant *grant)
{
    *grant =
        (struct dlock_grant){.struct_size = sizeof *grant, .waiters = UINT32_MAX, .holder_ms = -1};
}

static enum dlock_status grant_check(const struct dl_plugin *plugin, const char *slot,
                                     uint64_t caps, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    if ((caps & DLOCK_CAP_FENCE) == 0) /* C6: no number without a meaning */
        grant->fence = grant->fence_room = 0;
    if (grant->lease_ms <= 0 ||
        grant->lease_ms > req->ttl_ms) /* C2: the validity is computed from it */
        return dl_error(err, DLOCK_INTERNAL,
                        "plugin %s: %s granted a lease of %lld ms, want 1 to %lld (the ttl)",
                        plugin->name, slot, (long long)grant->lease_ms, (long long)req->ttl_ms);
    if ((caps & DLOCK_CAP_FENCE) != 0 && req->mode == DLOCK_EXCLUSIVE && grant->fence == 0)
        return dl_error(err, DLOCK_INTERNAL, "plugin %s: %s granted without a fencing token",
                        plugin->name, slot);
    if (grant->permit > 0 && grant->permit >= req->limit)
        return dl_error(err, DLOCK_INTERNAL, "plugin %s: %s granted permit %u of %u", plugin->name,
                        slot, grant->permit, req->limit);
    return DLOCK_OK;
}

/* Twice the longest lease leaves room for a store that rounds up. */
static bool is_entry_lease(int64_t lease_ms)
{
    return lease_ms > 0 && lease_ms <= INT64_C(14) * 24 * 3600 * 1000;
}

static enum dlock_status entry_check(const struct dl_plugin *plugin,
                                     const struct dlock_request *req,
                                     const struct dlock_grant *grant, struct dlock_error *err)
{
    if ((grant->flags & DLOCK_GRANT_QUEUED) == 0)
        return DLOCK_BUSY;
    if ((req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) == 0)
        return dl_error(err, DLOCK_INTERNAL, "plugin %s: trylock queued a caller unasked",
                        plugin->name);
    if (!is_entry_lease(grant->lease_ms))
        return dl_error(err, DLOCK_INTERNAL, "plugin %s: trylock gave a queue entry for %lld ms",
                        plugin->name, (long long)grant->lease_ms);
    return DLOCK_BUSY;
}

static enum dlock_status tried_check(const struct dl_plugin *plugin, const char *slot,
                                     uint64_t caps, const struct dlock_request *req,
                                     enum dlock_status status, struct dlock_grant *grant,
                                     struct dlock_error *err)
{
    status = status_check(plugin, slot, MAY(OK) | MAY(BUSY) | MAY_FAIL, status, err);
    if (status == DLOCK_BUSY)
        return entry_check(plugin, req, grant, err);
    return status == DLOCK_OK ? grant_check(plugin, slot, caps, req, grant, err) : status;
}

enum dlock_status dl_dispatch_trylock(const struct dl_plugin *plugin, void *self, uint64_t caps,
                                      const struct dlock_request *req, struct dlock_grant *grant,
                                      struct dlock_error *err)
{
    enum dlock_status status;

    grant_reset(grant);
    dl_error_reset(err);
    status = dl_slot_trylock(plugin, self, req, grant, err);
    return tried_check(plugin, "trylock", caps, req, status, grant, err);
}

enum dlock_status dl_dispatch_lock(const struct dl_plugin *plugin, void *self, uint64_t caps,
                                   const struct dlock_request *req, struct dlock_grant *grant,
                                   struct dlock_error *err)
{
    enum dlock_status status;

    grant_reset(grant);
    dl_error_reset(err);
    status = status_check(plugin, "lock", MAY(OK) | MAY(TIMEOUT) | MAY(CANCELED) | MAY_FAIL,
                          dl_slot_lock(plugin, self, req, grant, err), err);
    return status == DLOCK_OK ? grant_check(plugin, "lock", caps, req, grant, err) : status;
}

enum dlock_status dl_dispatch_watch(const struct dl_plugin *plugin, void *self, uint64_t caps,
                                    const struct dlock_request *req, struct dlock_grant *grant,
                                    struct dlock_error *err)
{
    uint32_t may = MAY(BUSY) | MAY(TIMEOUT) | MAY(CANCELED) | MAY_FAIL;
    enum dlock_status status;

    if ((plugin->caps & DLOCK_CAP_QUEUE) != 0)
        may |= MAY(OK);
    grant_reset(grant);
    dl_error_reset(err);
    status = status_check(plugin, "watch", may, dl_slot_watch(plugin, self, req, grant, err), err);
    return status == DLOCK_OK ? grant_check(plugin, "watch", caps, req, grant, err) : status;
}

enum dlock_status dl_dispatch_wait_any(const struct dl_plugin *plugin, void *self,
                                       uint32_t *waiters, size_t *count, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    size_t room = *count;
    enum dlock_status status;

    dl_error_reset(err);
    status = status_check(plugin, "wait_any", MAY(OK) | MAY(TIMEOUT) | MAY(CANCELED) | MAY_FAIL,
                          dl_slot_wait_any(plugin, self, waiters, count, deadline_ns, err), err);
    if (status == DLOCK_OK && (*count == 0 || *count > room))
        return dl_error(err, DLOCK_INTERNAL, "plugin %s: wait_any gave %zu numbers, want 1 to %zu",
                        plugin->name, *count, room);
    return status;
}

enum dlock_status dl_dispatch_dequeue(const struct dl_plugin *plugin, void *self,
                                      const struct dlock_request *req, struct dlock_error *err)
{
    dl_error_reset(err);
    return status_check(plugin, "dequeue", MAY(OK) | MAY_FAIL,
                        dl_slot_dequeue(plugin, self, req, err), err);
}

void dl_dispatch_interrupt(const struct dl_plugin *plugin, void *self,
                           const struct dlock_request *req)
{
    dl_slot_interrupt(plugin, self, req);
}

void dl_dispatch_renew(const struct dl_plugin *plugin, void *self,
                       struct dlock_lease_op *const *ops, size_t n, int64_t deadline_ns,
                       struct dlock_error *err)
{
    enum dlock_status whole;

    for (size_t i = 0; i < n; i++) {
        ops[i]->struct_size = sizeof *ops[i];
        grant_reset(&ops[i]->grant);
        ops[i]->status = DLOCK_INTERNAL;
    }
    dl_error_reset(err);
    whole = status_check(plugin, "renew", MAY(OK) | MAY_FAIL,
                         dl_slot_renew(plugin, self, ops, n, deadline_ns, err), err);
    for (size_t i = 0; i < n; i++) {
        if (whole != DLOCK_OK)
            ops[i]->status = whole;
        else
            ops[i]->status =
                status_check(plugin, "renew", MAY(OK) | MAY(LOST) | MAY_FAIL, ops[i]->status, err);
        if (ops[i]->status == DLOCK_OK)
            ops[i]->status = grant_check(plugin, "renew", 0, ops[i]->req, &ops[i]->grant, err);
    }
}

enum dlock_status dl_dispatch_unlock(const struct dl_plugin *plugin, void *self,
                                     const struct dlock_request *req, struct dlock_error *err)
{
    dl_error_reset(err);
    return status_check(plugin, "unlock", MAY(OK) | MAY(LOST) | MAY_FAIL,
                        dl_slot_unlock(plugin, self, req, err), err);
}

static void batch_reset(struct dlock_batch_op *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ops[i]->struct_size = sizeof *ops[i];
        ops[i]->status = DLOCK_INTERNAL;
        grant_reset(&ops[i]->grant);
        dl_error_reset(ops[i]->err);
    }
}

/* The failure of the whole call is that of each element. */
static void batch_fail(struct dlock_batch_op *const *ops, size_t n, enum dlock_status status,
                       const struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = dl_error(ops[i]->err, status, "%s", err->message);
        ops[i]->err->code = err->code;
        memcpy(ops[i]->err->origin, err->origin, sizeof err->origin);
    }
}

typedef enum dlock_status batch_fn(const struct dl_plugin *plugin, void *self,
                                   struct dlock_batch_op *const *ops, size_t n,
                                   struct dlock_error *err);

/* The answers of the elements are not checked yet. */
static void batch_call(const struct dl_plugin *plugin, const char *slot, batch_fn *fn, void *self,
                       struct dlock_batch_op *const *ops, size_t n)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status whole;

    batch_reset(ops, n);
    whole = status_check(plugin, slot, MAY(OK) | MAY_FAIL, fn(plugin, self, ops, n, &err), &err);
    if (whole != DLOCK_OK)
        batch_fail(ops, n, whole, &err);
}

void dl_dispatch_trylock_batch(const struct dl_plugin *plugin, void *self, uint64_t caps,
                               struct dlock_batch_op *const *ops, size_t n)
{
    static const char slot[] = "trylock_batch";

    batch_call(plugin, slot, dl_slot_trylock_batch, self, ops, n);
    for (size_t i = 0; i < n; i++)
        ops[i]->status = tried_check(plugin, slot, caps, ops[i]->req, ops[i]->status,
                                     &ops[i]->grant, ops[i]->err);
}

void dl_dispatch_unlock_batch(const struct dl_plugin *plugin, void *self,
                              struct dlock_batch_op *const *ops, size_t n)
{
    static const char slot[] = "unlock_batch";

    batch_call(plugin, slot, dl_slot_unlock_batch, self, ops, n);
    for (size_t i = 0; i < n; i++)
        ops[i]->status =
            status_check(plugin, slot, MAY(OK) | MAY(LOST) | MAY_FAIL, ops[i]->status, ops[i]->err);
}

void dl_dispatch_forget(const struct dl_plugin *plugin, void *self, const struct dlock_request *req)
{
    if (plugin->ops.forget != NULL)
        dl_slot_forget(plugin, self, req);
}

uint32_t dl_dispatch_server_of(const struct dl_plugin *plugin, void *self,
                               const unsigned char *name, uint32_t name_len)
{
    return plugin->ops.server_of != NULL ? dl_slot_server_of(plugin, self, name, name_len) : 0;
}

static enum dlock_status slot_missing(const struct dl_plugin *plugin, const char *slot,
                                      struct dlock_error *err)
{
    return dl_error(err, DLOCK_UNSUPPORTED, "the %s backend cannot %s", plugin->name, slot);
}

enum dlock_status dl_dispatch_inspect(const struct dl_plugin *plugin, void *self,
                                      const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    if (plugin->ops.inspect == NULL)
        return slot_missing(plugin, "inspect", err);
    dl_error_reset(err);
    return status_check(plugin, "inspect", MAY(OK) | MAY_FAIL,
                        dl_slot_inspect(plugin, self, name, name_len, deadline_ns, fn, arg, err),
                        err);
}

enum dlock_status dl_dispatch_list_waiters(const struct dl_plugin *plugin, void *self,
                                           const unsigned char *name, uint32_t name_len,
                                           int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                           struct dlock_error *err)
{
    if (plugin->ops.list_waiters == NULL)
        return slot_missing(plugin, "list_waiters", err);
    dl_error_reset(err);
    return status_check(
        plugin, "list_waiters", MAY(OK) | MAY_FAIL,
        dl_slot_list_waiters(plugin, self, name, name_len, deadline_ns, fn, arg, err), err);
}

enum dlock_status dl_dispatch_list(const struct dl_plugin *plugin, void *self,
                                   const unsigned char *prefix, uint32_t prefix_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err)
{
    if (plugin->ops.list == NULL)
        return slot_missing(plugin, "list", err);
    dl_error_reset(err);
    return status_check(plugin, "list", MAY(OK) | MAY_FAIL,
                        dl_slot_list(plugin, self, prefix, prefix_len, deadline_ns, fn, arg, err),
                        err);
}

enum dlock_status dl_dispatch_break(const struct dl_plugin *plugin, void *self,
                                    const unsigned char *name, uint32_t name_len, const char *owner,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    if (plugin->ops.break_lock == NULL)
        return slot_missing(plugin, "break a lock", err);
    dl_error_reset(err);
    return status_check(plugin, "break_lock", MAY(OK) | MAY(NOT_HELD) | MAY_FAIL,
                        dl_slot_break(plugin, self, name, name_len, owner, deadline_ns, err), err);
}

enum dlock_status dl_dispatch_probe(const struct dl_plugin *plugin, void *self, int64_t deadline_ns,
                                    struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    enum dlock_status status;

    if (plugin->ops.probe == NULL)
        return slot_missing(plugin, "say how its store is set up", err);
    info->struct_size = sizeof *info;
    dl_error_reset(err);
    status = status_check(plugin, "probe", MAY(OK) | MAY_FAIL,
                          dl_slot_probe(plugin, self, deadline_ns, info, fn, arg, err), err);
    return status == DLOCK_OK ? info_check(plugin, "probe", info, err) : status;
}
