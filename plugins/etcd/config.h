/* SPDX-License-Identifier: MIT */
/* config.h - what the URI of an etcd store says. */
#ifndef ETCD_CONFIG_H
#define ETCD_CONFIG_H

#include "net/address.h"
#include "net/tls.h"

#include <dlock/plugin.h>

#define ETCD_ORIGIN      "etcd"
#define ETCD_MEMBERS_MAX 9
#define ETCD_PORT        2379
#define ETCD_PREFIX_MAX  255

struct etcd_config {
    const struct dlock_target *target; /* for the password, which is read for each login */
    struct address members[ETCD_MEMBERS_MAX];
    size_t count;
    char prefix[ETCD_PREFIX_MAX + 2]; /* of all keys: "" or "path/" */
    size_t prefix_len;
    bool raw;    /* key=raw: a slash in a name stays one */
    bool secure; /* etcds */
    struct tls_options tls;
    const char *sni;  /* NULL: the host */
    const char *user; /* NULL: no login */
    int64_t waiter_lease_ms;
    uint64_t fence_scale; /* 32 or 1 */
};

enum dlock_status etcd_config_init(struct etcd_config *config, const struct dlock_target *target,
                                   struct dlock_error *err);

#endif
