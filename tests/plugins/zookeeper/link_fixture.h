/* SPDX-License-Identifier: MIT */
/* link_fixture.h - a link to a server of the test's own, and requests on it. */
#ifndef DLT_LINK_FIXTURE_H
#define DLT_LINK_FIXTURE_H

#include "exchange.h"
#include "session_kit.h"
#include "zk_server.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MS  4000 /* a machine that stops for a second does not end the session */
#define TICK_MS DLT_ZK_TICK_MS
#define BASE    "/test"

struct rig {
    struct dlt_host host;
    struct zk_config config;
    struct dlock_target target;
    struct zk_servers greeting;
    struct zk_link *link;
    struct dlock_error err;
};

static struct dlt_zk server;

static void rig_config(struct rig *rig)
{
    dlt_host_init_running(&rig->host);
    rig->err = (struct dlock_error)DLOCK_ERROR_INIT;
    rig->config = (struct zk_config){.ttl_ms = TTL_MS, .count = server.count};
    rig->config.target = &rig->target;
    for (size_t i = 0; i < server.count; i++)
        cr_assert(address_parse(&rig->config.servers[i], server.members[i].address, ZK_PORT));
}

static enum dlock_status rig_connect(struct rig *rig, int64_t ms)
{
    return zk_link_open(&rig->link, &rig->config, &rig->greeting, TICK_MS, &rig->host.table,
                        dlt_host_in(&rig->host, ms), &rig->err);
}

static void rig_greet(struct rig *rig)
{
    cr_assert_eq(zk_servers_ask(&rig->greeting, &rig->config, &rig->host.table,
                                dlt_host_in(&rig->host, 5000), &rig->err),
                 DLOCK_OK, "%s", rig->err.message);
}

static inline void rig_open(struct rig *rig)
{
    rig_config(rig);
    rig_greet(rig);
    cr_assert_eq(rig_connect(rig, 5000), DLOCK_OK, "%s", rig->err.message);
}

static inline void rig_close(struct rig *rig)
{
    zk_link_close(rig->link);
    rig->link = NULL;
}

static struct zk_session_state state_of(struct rig *rig)
{
    struct zk_session_state state;

    zk_link_state(rig->link, &state);
    return state;
}

/* Waits until a session other than this one is connected. */
static inline int64_t await_session(struct rig *rig, int64_t other, int64_t ms)
{
    const int64_t until_ns = dlt_host_in(&rig->host, ms);

    while (dlt_host_now(&rig->host) < until_ns) {
        const struct zk_session_state state = state_of(rig);

        if (state.connected && state.session_id != other)
            return state.session_id;
        dlt_sleep_ms(2);
    }
    cr_assert_fail("no other session in time");
    return 0;
}

static inline bool await_connected(struct rig *rig, bool connected, int64_t ms)
{
    const int64_t until_ns = dlt_host_in(&rig->host, ms);

    while (dlt_host_now(&rig->host) < until_ns) {
        if (state_of(rig).connected == connected)
            return true;
        dlt_sleep_ms(2);
    }
    return false;
}

static enum dlock_status run_in(struct rig *rig, struct zk_exchange *exchange, int64_t *session_id,
                                int64_t ms)
{
    rig->err = (struct dlock_error)DLOCK_ERROR_INIT;
    return zk_exchange_run(exchange, session_id, dlt_host_in(&rig->host, ms), &rig->err);
}

/* One request in any session. *rc: its answer. */
static enum dlock_status ask(struct rig *rig, enum zk_op op, const char *path, int flags, int *rc)
{
    struct zk_exchange *exchange = zk_exchange_new(rig->link, 1);
    struct zk_call *call = zk_exchange_add(exchange, op, path);
    enum dlock_status status = DLOCK_INTERNAL;
    int64_t any = 0;

    call->flags = flags;
    status = run_in(rig, exchange, &any, 3000);
    *rc = call->rc;
    zk_exchange_free(exchange);
    return status;
}

static inline void want_rc(struct rig *rig, enum zk_op op, const char *path, int flags, int rc)
{
    int have = 0;

    cr_assert_eq(ask(rig, op, path, flags, &have), DLOCK_OK, "%s: %s", path, rig->err.message);
    cr_assert_eq(have, rc, "%s: %s", path, zerror(have));
}

/* The base is there. */
static inline void make_base(struct rig *rig)
{
    int rc = 0;

    cr_assert_eq(ask(rig, ZK_CREATE, BASE, ZOO_PERSISTENT, &rc), DLOCK_OK, "%s", rig->err.message);
    cr_assert(rc == ZOK || rc == ZNODEEXISTS, "%s", zerror(rc));
}

#endif
