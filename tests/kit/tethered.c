/* SPDX-License-Identifier: MIT */
#include "tethered.h"

static enum dlock_status tethered_open(void *self, const struct dlock_host *host,
                                       const struct dlock_target *target, int64_t deadline_ns,
                                       struct dlock_session_info *info, struct dlock_error *err)
{
    enum dlock_status status =
        dlock_plugin_memory_hooked()->ops->open(self, host, target, deadline_ns, info, err);

    info->caps |= DLOCK_CAP_TETHERED;
    return status;
}

const struct dlock_plugin *dlt_tethered_plugin(const char *store)
{
    static struct dlock_backend_ops ops;
    static struct dlock_plugin plugin;

    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.open = tethered_open;
    plugin.ops = &ops;
    plugin.caps |= DLOCK_CAP_TETHERED;
    memory_hooks_clock_set(store, 1);
    return &plugin;
}
