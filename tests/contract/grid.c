/* SPDX-License-Identifier: MIT */
/*
 * grid:///path - the SQLite plugin with leases of whole seconds, one at least: with it all cases
 * have to pass on a store that cannot give every ttl. A ttl that is none of them is INTERNAL here,
 * so that none can slip past core.
 */
#include <dlock/plugin.h>

#define STEP_MS 1000

const struct dlock_plugin *dlock_plugin_sqlite(void); /* the static form */

static const struct dlock_backend_ops *sqlite(void)
{
    return dlock_plugin_sqlite()->ops;
}

static enum dlock_status ttl_check(const struct dlock_request *req, struct dlock_error *err)
{
    if (req->ttl_ms >= STEP_MS && req->ttl_ms % STEP_MS == 0)
        return DLOCK_OK;
    return dlock_fail(err, "grid", DLOCK_INTERNAL, 0, "a ttl of %lld ms is not in the grid",
                      (long long)req->ttl_ms);
}

static enum dlock_status grid_open(void *self, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    info->ttl_least_ms = info->ttl_step_ms = STEP_MS;
    return sqlite()->open(self, host, target, deadline_ns, info, err);
}

static enum dlock_status grid_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = ttl_check(req, err);

    return status == DLOCK_OK ? sqlite()->trylock(self, req, grant, err) : status;
}

static enum dlock_status grid_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        enum dlock_status status = ttl_check(ops[i]->req, err);

        if (status != DLOCK_OK)
            return status;
    }
    return sqlite()->renew(self, ops, n, deadline_ns, err);
}

static enum dlock_status grid_probe(void *self, int64_t deadline_ns,
                                    struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    info->ttl_least_ms = info->ttl_step_ms = STEP_MS;
    return sqlite()->probe(self, deadline_ns, info, fn, arg, err);
}

static const char *const grid_schemes[] = {"grid", NULL};
static struct dlock_backend_ops grid_ops;
static struct dlock_plugin grid_plugin;

__attribute__((visibility("default"))) const struct dlock_plugin *dlock_plugin(void)
{
    grid_ops = *sqlite();
    grid_ops.open = grid_open;
    grid_ops.trylock = grid_trylock;
    grid_ops.renew = grid_renew;
    grid_ops.probe = grid_probe;
    grid_plugin = *dlock_plugin_sqlite();
    grid_plugin.name = "grid";
    grid_plugin.schemes = grid_schemes;
    grid_plugin.ops = &grid_ops;
    return &grid_plugin;
}
