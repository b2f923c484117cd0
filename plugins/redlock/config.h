/* SPDX-License-Identifier: MIT */
/*
 * config.h - the nodes of a client and how to use them: what the URI says.
 *
 * The errors of this plugin name the nodes, so that they are made here, too.
 */
#ifndef REDLOCK_CONFIG_H
#define REDLOCK_CONFIG_H

#include "resp/config.h"
#include "resp/keys.h"

#define REDLOCK_ORIGIN    "redlock"
#define REDLOCK_NODES_MAX DLOCK_NODE_ERRORS_MAX

/* Freed by redlock_config_free; a zeroed one is fine. */
struct redlock_config {
    struct resp_config nodes[REDLOCK_NODES_MAX];
    unsigned count, need;    /* need: nodes that are a majority */
    int64_t node_timeout_ms; /* 0: computed from the ttl */
    int64_t restart_guard_ms;
    int64_t retry_delay_ms;
    unsigned retry_count;
    bool spin;
    bool fences;                    /* fence=on: leases have fencing tokens */
    unsigned named;                 /* bits: nodes whose node= has a user of its own */
    char *common[2];                /* owned: user and prefix of the URI */
    char *texts[REDLOCK_NODES_MAX]; /* owned: the lines of node=, cut into their parts */
    size_t text_lens[REDLOCK_NODES_MAX];
};

/* OK, INVALID, CONFIG or NOMEM. The names of certificate files still belong to the target. */
enum dlock_status redlock_config_init(struct redlock_config *config,
                                      const struct dlock_target *target, struct dlock_error *err);
void redlock_config_free(struct redlock_config *config);
/* "h1:6379 and 2 more" */
void redlock_config_print(const struct redlock_config *config, char *out, size_t size);

/* Reads the present password of a node, from the URI or from the node's line of node=. *secret: to
 * be freed by dl_secret_free; NULL: there is none. */
enum dlock_status redlock_config_secret(const struct redlock_config *config, unsigned node,
                                        const struct dlock_target *target, char **secret,
                                        struct dlock_error *err);

/* The time that one node has to answer. ttl_ms: of the lease; 0: the request is not about one. */
int64_t redlock_config_timeout_ns(const struct redlock_config *config, int64_t ttl_ms);

/* Fills err with the status and one line, which begins with the names of the nodes. Returns the
 * status. */
__attribute__((format(printf, 4, 5))) enum dlock_status
redlock_config_fail(struct dlock_error *err, const struct redlock_config *config,
                    enum dlock_status status, const char *format, ...);
/* The same where the name's key of the lock, or a key beside it, is no key of a lock. */
enum dlock_status redlock_config_fail_key(struct dlock_error *err,
                                          const struct redlock_config *config,
                                          enum dlock_status status, const struct resp_keys *keys);

#endif
