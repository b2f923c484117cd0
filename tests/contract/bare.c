/* SPDX-License-Identifier: MIT */
/*
 * bare://name - the memory plugin without its optional slots, under a scheme that the kit does not
 * know: docs/plugins.md promises that the kit skips what such a store cannot show.
 */
#include <dlock/plugin.h>

#define BARE_CAPS (DLOCK_CAP_FENCE | DLOCK_CAP_CONCURRENT)

const struct dlock_plugin *dlock_plugin_memory(void); /* the static form */

static enum dlock_status bare_open(void *self, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    enum dlock_status status =
        dlock_plugin_memory()->ops->open(self, host, target, deadline_ns, info, err);

    info->caps &= BARE_CAPS;
    return status;
}

static const char *const bare_schemes[] = {"bare", NULL};
static struct dlock_backend_ops bare_ops;
static struct dlock_plugin bare_plugin;

__attribute__((visibility("default"))) const struct dlock_plugin *dlock_plugin(void)
{
    bare_ops = *dlock_plugin_memory()->ops;
    bare_ops.open = bare_open;
    bare_ops.watch = NULL;
    bare_ops.dequeue = NULL;
    bare_ops.interrupt = NULL;
    bare_ops.inspect = NULL;
    bare_ops.list = NULL;
    bare_ops.break_lock = NULL;
    bare_ops.probe = NULL;
    bare_ops.list_waiters = NULL;
    bare_ops.wait_any = NULL;
    bare_ops.trylock_batch = NULL;
    bare_ops.unlock_batch = NULL;
    bare_plugin = *dlock_plugin_memory();
    bare_plugin.name = "bare";
    bare_plugin.schemes = bare_schemes;
    bare_plugin.caps = BARE_CAPS;
    bare_plugin.ops = &bare_ops;
    return &bare_plugin;
}
