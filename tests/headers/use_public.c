/* SPDX-License-Identifier: MIT */
/* What an application or a plugin written in C or in C++ does with the headers' macros. */
#include <dlock/dlock.h>
#include <dlock/plugin.h>

static const struct dlock_plugin descriptor = {DLOCK_PLUGIN_MAGIC,
                                               DLOCK_PLUGIN_ABI_MAJOR,
                                               DLOCK_PLUGIN_ABI_MINOR,
                                               sizeof(struct dlock_plugin),
                                               DLOCK_CAP_FENCE,
                                               "toy",
                                               "1",
                                               0,
                                               0,
                                               0,
                                               0,
                                               0};

DLOCK_PLUGIN_ENTRY(toy, &descriptor)

int use_public(struct dlock_handle *lock);
int use_public(struct dlock_handle *lock)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlock_timedlock(lock, DLOCK_FOREVER, &err) == DLOCK_OK)
        return (int)dlock_unlock(lock, &err);
    return (int)dlock_fail(&err, "toy", DLOCK_BUSY, 0, "%d", 1);
}
