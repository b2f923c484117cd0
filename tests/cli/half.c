/* SPDX-License-Identifier: MIT */
/*
 * A plugin whose list breaks off after two names, as that of a store with too many of them, and
 * whose locks are given to everybody, without fencing tokens; only the name "held" is somebody's,
 * and nobody knows for how long. A store with a path does not exist until it is made. Leases are
 * whole seconds, from two to sixty.
 */
#include <dlock/plugin.h>
#include <string.h>

static enum dlock_status half_open(void *self, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    (void)self, (void)host, (void)deadline_ns;
    if (target->path[0] != '\0' && target->number(target, "create") == 0)
        return dlock_fail(err, "half", DLOCK_NO_STORE, 0, "%s does not exist", target->path);
    info->caps = 0;
    (void)snprintf(info->server, sizeof info->server, "half");
    (void)snprintf(info->endpoint, sizeof info->endpoint, "here");
    info->ttl_least_ms = 2000;
    info->ttl_most_ms = 60000;
    info->ttl_step_ms = 1000;
    return DLOCK_OK;
}

static void half_close(void *self, bool forked)
{
    (void)self, (void)forked;
}

static enum dlock_status half_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    (void)self, (void)err;
    grant->lease_ms = req->ttl_ms;
    return req->name_len == 4 && memcmp(req->name, "held", 4) == 0 ? DLOCK_BUSY : DLOCK_OK;
}

static enum dlock_status half_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    const struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = name,
        .name_len = name_len,
        .waiters = UINT32_MAX,
        .remaining_ms = -1,
        .held_ms = -1,
        .owner = "x",
        .label = "somebody",
    };

    (void)self, (void)deadline_ns, (void)err;
    if (name_len == 4 && memcmp(name, "held", 4) == 0)
        (void)fn(arg, &info);
    return DLOCK_OK;
}

static enum dlock_status half_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    (void)self, (void)deadline_ns, (void)err;
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = DLOCK_OK;
        ops[i]->grant.lease_ms = ops[i]->req->ttl_ms;
    }
    return DLOCK_OK;
}

static enum dlock_status half_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    (void)self, (void)req, (void)err;
    return DLOCK_OK;
}

static enum dlock_status half_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err)
{
    static const char *const names[] = {"one", "two"};

    (void)self, (void)prefix, (void)prefix_len, (void)deadline_ns;
    for (size_t i = 0; i < 2; i++) {
        const struct dlock_holder info = {
            .struct_size = sizeof info,
            .name = (const unsigned char *)names[i],
            .name_len = 3,
            .waiters = UINT32_MAX,
            .remaining_ms = 1000,
            .held_ms = -1,
            .owner = "x",
            .label = "",
        };

        if (fn(arg, &info) != 0)
            break;
    }
    return dlock_fail(err, "half", DLOCK_UNKNOWN, 0, "no answer in time");
}

static const char *const half_schemes[] = {"half", NULL};
static const struct dlock_option_spec half_options[] = {
    {"create", "bool", "on", NULL, "make the store if it does not exist"},
    {NULL, NULL, NULL, NULL, NULL},
};

static const struct dlock_backend_ops half_ops = {
    .struct_size = sizeof half_ops,
    .session_size = 1,
    .open = half_open,
    .close = half_close,
    .trylock = half_trylock,
    .renew = half_renew,
    .unlock = half_unlock,
    .inspect = half_inspect,
    .list = half_list,
};

static const struct dlock_plugin half_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof half_plugin,
    .name = "half",
    .version = "1",
    .schemes = half_schemes,
    .options = half_options,
    .ops = &half_ops,
};

DLOCK_PLUGIN_ENTRY(half, &half_plugin)
