/* SPDX-License-Identifier: MIT */
/*
 * redlock_kit.h - real servers, and clients of them through the public interface. Names are plain
 * words. Criterion asserts within.
 */
#ifndef DLT_REDLOCK_KIT_H
#define DLT_REDLOCK_KIT_H

#include "proxy_client.h"
#include "redis_server.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>

#define DLT_NODES_MAX 9
#define DLT_TTL_MS    2000

struct dlt_nodes {
    struct dlt_redis servers[DLT_NODES_MAX];
    struct dlt_proxy proxies[DLT_NODES_MAX];
    unsigned count;
    bool proxied;
};

extern struct dlock_error dlt_err; /* of the last call */

/* proxied: clients reach them through a proxy each. */
void dlt_nodes_start(struct dlt_nodes *nodes, unsigned count, bool proxied);
void dlt_nodes_stop(struct dlt_nodes *nodes);

/* A client; the guard is off unless options say otherwise ("op_timeout=1s&ttl=2s"). direct: past
 * the proxies. */
struct dlock_client *dlt_nodes_client(const struct dlt_nodes *nodes, const char *options,
                                      bool direct);
/* Fills uri with what that opens. */
void dlt_nodes_uri(const struct dlt_nodes *nodes, const char *options, bool direct, char *uri,
                   size_t size);

/* A handle with renew off, unless keep; ttl 2 s. */
struct dlock_handle *dlt_lock(struct dlock_client *client, const char *name, bool keep);

/* On how many of the nodes that run the name has an exclusive holder; on one of them. */
unsigned dlt_nodes_holding(struct dlt_nodes *nodes, const char *name);
bool dlt_node_holds(struct dlt_nodes *nodes, unsigned node, const char *name);
/* Waits until so many do, for at most limit_ms. */
bool dlt_nodes_hold_soon(struct dlt_nodes *nodes, const char *name, unsigned count,
                         int64_t limit_ms);

/* A node whose connection was not ready yet when the others granted is told by renewals: until all
 * hold it. */
bool dlt_nodes_all_hold(struct dlt_nodes *nodes, const char *name, struct dlock_handle *lock);

int64_t dlt_now_ms(void);
void dlt_sleep_ms(int64_t ms);

/* Bits of the nodes whose line of dlt_err holds the text. */
unsigned dlt_lines_with(const char *text);

#define OK(call)           cr_assert_eq((call), DLOCK_OK, "%s", dlt_err.message)
#define STATUS(call, want) want_status((call), (want), __LINE__)

static inline void want_status(enum dlock_status got, enum dlock_status want, int line)
{
    cr_assert_eq(got, want, "line %d: %s, want %s: %s", line, dlock_status_name((int)got),
                 dlock_status_name((int)want), dlt_err.message);
}

#endif
