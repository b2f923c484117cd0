/* SPDX-License-Identifier: MIT */
#include "config.h"

enum dlock_status memory_config_read(struct memory_config *config,
                                     const struct dlock_target *target, struct dlock_error *err)
{
    config->id = target->hosts[0];
    if (config->id == NULL || target->hosts[1] != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_INVALID, 0,
                          "want one store name, as in memory://x");
    if (target->path[0] != '\0' || target->user != NULL || target->password != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_INVALID, 0,
                          "memory://%s takes no user, password or path", config->id);
    config->waiter_ttl_ms = target->number(target, "waiter_lease");
    return DLOCK_OK;
}
