/* SPDX-License-Identifier: MIT */
/* config.h - a URI as a server, a database, the prefix of the tables and settings. */
#ifndef PG_CONFIG_H
#define PG_CONFIG_H

#include "net/address.h"
#include "net/tls.h"

#include <dlock/plugin.h>
#include <stdbool.h>

#define PG_ORIGIN "postgresql"

#ifdef __clang_analyzer__
/* The analyzer does not see what a variadic function returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

#define PG_NAME_MAX     63 /* bytes of an identifier of the server */
#define PG_PREFIX_MAX   32
#define PG_DEFAULT_PORT 5432

enum pg_strategy { PG_ROW, PG_SESSION };

struct pg_config {
    const struct dlock_target *target; /* borrowed, and so are the strings that are pointers */
    enum pg_strategy strategy;
    const char *strategy_name;
    struct address address; /* without a socket */
    char socket[101]; /* the directory of a unix socket, whose port is address.port; "": TCP */
    const char *user;
    char database[PG_NAME_MAX + 1];
    char schema[PG_NAME_MAX + 1];   /* a-z, 0-9 and _: write it in double quotes */
    char prefix[PG_PREFIX_MAX + 1]; /* a-z, 0-9 and _ */
    char endpoint[64];              /* for messages */
    bool create, spin, tls;
    struct tls_options tls_options;
    bool has_number;       /* key=advisory:N */
    int64_t number;        /* that N */
    int64_t grace_ms;      /* strategy session: how long a claim lasts without a ping */
    int64_t waiter_ttl_ms; /* how long a queue entry lasts without a refresh */
};

/* INVALID. */
enum dlock_status pg_config_init(struct pg_config *config, const struct dlock_target *target,
                                 struct dlock_error *err);

#endif
