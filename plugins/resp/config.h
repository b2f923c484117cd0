/* SPDX-License-Identifier: MIT */
/*
 * config.h - the address of a Redis server and the settings for it, from the URI.
 *
 * The plugin fills it from its target. The files of resp take the prefix of keys, the name of the
 * server in errors and the options of TLS from it.
 */
#ifndef RESP_CONFIG_H
#define RESP_CONFIG_H

#include "lib/time.h"
#include "net/address.h"
#include "net/tls.h"

#include <dlock/plugin.h>
#include <stdbool.h>

#define RESP_PREFIX_MAX    64
#define RESP_COMMANDS_MOST 24

/* Whether another server may become the master: the failover guard. */
enum resp_failover {
    RESP_FAILOVER_UNSAFE, /* nobody minds */
    RESP_FAILOVER_IF_REPLICAS,
    RESP_FAILOVER_ALWAYS
};

/* The texts are borrowed. It may be copied. */
struct resp_config {
    const char *origin;                /* the plugin, for errors */
    const struct dlock_target *target; /* to read the password again; NULL: `password` stays */
    const char *const *commands; /* that the scripts need, and the scripts themselves; NULL ends */
    const char *user, *password;
    const char *path;       /* of a unix socket; NULL: TCP */
    struct address address; /* TCP */
    bool secure;            /* TLS */
    const char *sni;        /* the name of the certificate; NULL: the host's name */
    struct tls_options tls;
    int64_t database;
    const char *prefix;
    bool raw;   /* key=raw: the name itself is a key, too */
    bool moves; /* sentinels name the server: it may be another one soon */
    bool spin;  /* poll for an answer before sleeping for it */
    bool unsafe_eviction;
    int64_t restart_guard_ms;
    bool asks_past;       /* it matters whether the server was a replica */
    bool settings_hidden; /* the user may not read them, as an earlier question found */
    char endpoint[64];
    bool all_keys; /* declare every key that a script may use, as a cluster wants: more bytes */
    enum resp_failover failover;
    int64_t failover_guard_ms; /* T + D of plugins/redis/guard/guard.h; 0: the server's settings say
                                  D */
};

/* Reads the options of TLS for these configs; `secure` of each is set already. INVALID: there are
 * options of TLS and no config is secure, or the options contradict each other. */
enum dlock_status resp_config_take_tls(struct resp_config *configs, unsigned count,
                                       const struct dlock_target *target, struct dlock_error *err);

#define RESP_SECRET_MAX ((size_t)16 * 1024) /* bytes that read_secret may give, with the NUL */

/* Reads the present password of the URI, again for each new connection [SEC-1]. *secret: to be
 * freed by dl_secret_free; NULL: there is none. */
enum dlock_status resp_config_read_secret(const struct dlock_target *target, const char *origin,
                                          char **secret, struct dlock_error *err);

#endif
