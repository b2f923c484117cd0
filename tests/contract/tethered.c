/* SPDX-License-Identifier: MIT */
/*
 * tethered://name - the memory plugin with leases that no time ends, as those that live in the
 * session of a client: with it all cases have to pass where core gives back what has run out.
 */
#include <dlock/plugin.h>

#define ENDLESS_MS (INT64_C(7) * 24 * 3600 * 1000)

const struct dlock_plugin *dlock_plugin_memory(void); /* the static form */

static const struct dlock_backend_ops *memory(void)
{
    return dlock_plugin_memory()->ops;
}

static struct dlock_request endless(const struct dlock_request *req)
{
    struct dlock_request request = *req;

    request.ttl_ms = ENDLESS_MS;
    return request;
}

/* The store keeps it for longer than core is told [TET-2]. */
static void grant_cut(const struct dlock_request *req, struct dlock_grant *grant)
{
    if (grant->lease_ms > req->ttl_ms)
        grant->lease_ms = req->ttl_ms;
    grant->holder_ms = -1;
}

static enum dlock_status tethered_open(void *self, const struct dlock_host *host,
                                       const struct dlock_target *target, int64_t deadline_ns,
                                       struct dlock_session_info *info, struct dlock_error *err)
{
    enum dlock_status status = memory()->open(self, host, target, deadline_ns, info, err);

    info->caps |= DLOCK_CAP_TETHERED;
    return status;
}

static enum dlock_status tethered_trylock(void *self, const struct dlock_request *req,
                                          struct dlock_grant *grant, struct dlock_error *err)
{
    struct dlock_request request = endless(req);
    enum dlock_status status = memory()->trylock(self, &request, grant, err);

    if (status == DLOCK_OK || status == DLOCK_BUSY)
        grant_cut(req, grant);
    return status;
}

static enum dlock_status tethered_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                        int64_t deadline_ns, struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i]->req;
        struct dlock_request request = endless(req);
        struct dlock_lease_op *const one[] = {ops[i]};
        enum dlock_status status;

        ops[i]->req = &request;
        status = memory()->renew(self, one, 1, deadline_ns, err);
        ops[i]->req = req;
        if (status != DLOCK_OK)
            return status;
        grant_cut(req, &ops[i]->grant);
    }
    return DLOCK_OK;
}

/* What the plugin knows of the end is what it does not tell: the claim may be over sooner. */
struct inspection {
    dlock_holder_fn *fn;
    void *arg;
};

static bool holder_pass(void *arg, const struct dlock_holder *holder)
{
    const struct inspection *inspection = arg;
    struct dlock_holder shown = *holder;

    shown.remaining_ms = 1;
    return inspection->fn(inspection->arg, &shown);
}

static enum dlock_status tethered_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                          int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                          struct dlock_error *err)
{
    struct inspection inspection = {fn, arg};

    return memory()->inspect(self, name, name_len, deadline_ns, holder_pass, &inspection, err);
}

static enum dlock_status tethered_probe(void *self, int64_t deadline_ns,
                                        struct dlock_session_info *info, dlock_check_fn *fn,
                                        void *arg, struct dlock_error *err)
{
    enum dlock_status status = memory()->probe(self, deadline_ns, info, fn, arg, err);

    info->caps |= DLOCK_CAP_TETHERED;
    return status;
}

static const char *const tethered_schemes[] = {"tethered", NULL};
static struct dlock_backend_ops tethered_ops;
static struct dlock_plugin tethered_plugin;

__attribute__((visibility("default"))) const struct dlock_plugin *dlock_plugin(void)
{
    tethered_ops = *memory();
    tethered_ops.open = tethered_open;
    tethered_ops.trylock = tethered_trylock;
    tethered_ops.renew = tethered_renew;
    tethered_ops.inspect = tethered_inspect;
    tethered_ops.probe = tethered_probe;
    tethered_plugin = *dlock_plugin_memory();
    tethered_plugin.name = "tethered";
    tethered_plugin.schemes = tethered_schemes;
    tethered_plugin.caps |= DLOCK_CAP_TETHERED;
    tethered_plugin.ops = &tethered_ops;
    return &tethered_plugin;
}
