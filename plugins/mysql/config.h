/* SPDX-License-Identifier: MIT */
/* config.h - a URI as a server, a database, a table prefix and settings. */
#ifndef MY_CONFIG_H
#define MY_CONFIG_H

#include "net/tls.h"

#include <dlock/plugin.h>
#include <stdbool.h>

#define MY_ORIGIN "mysql"

#ifdef __clang_analyzer__
/* The analyzer does not see what a variadic function returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

#define MY_PREFIX_MAX 32

enum my_strategy { MY_ROW, MY_INSERT, MY_SESSION };

struct my_config {
    const struct dlock_target *target; /* borrowed, and so are the strings that are pointers */
    enum my_strategy strategy;
    const char *strategy_name;
    char host[256];     /* "": a socket */
    const char *socket; /* NULL: TCP */
    unsigned port;
    bool numeric; /* host is an address */
    const char *user;
    char database[65];
    char prefix[MY_PREFIX_MAX + 1];
    char endpoint[64]; /* for messages */
    bool create, galera, spin, tls;
    struct tls_options tls_options;
    int64_t grace_ms; /* strategy session: how long a claim lasts without a ping */
};

/* INVALID, CONFIG. */
enum dlock_status my_config_init(struct my_config *config, const struct dlock_target *target,
                                 struct dlock_error *err);

#endif
