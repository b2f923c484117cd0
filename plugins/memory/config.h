/* SPDX-License-Identifier: MIT */
/* config.h - the settings of a URI. */
#ifndef MEMORY_CONFIG_H
#define MEMORY_CONFIG_H

#include <dlock/plugin.h>

#define MEMORY_ORIGIN "memory"

struct memory_config {
    const char *id;        /* borrowed from the target */
    int64_t waiter_ttl_ms; /* how long a queue entry lasts, and a grant to a waiter */
};

/* INVALID. */
enum dlock_status memory_config_read(struct memory_config *config,
                                     const struct dlock_target *target, struct dlock_error *err);

#endif
