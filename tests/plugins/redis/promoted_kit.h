/* SPDX-License-Identifier: MIT */
/* promoted_kit.h - three servers, of which one after another is the master, with the failover
 * guard. */
#ifndef DLT_PROMOTED_KIT_H
#define DLT_PROMOTED_KIT_H

#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { T_MS = 3000, D_MS = 2000, S_MS = 1000, SLACK_MS = 20000 };

static struct dlt_redis m, r, q; /* the master; the one that is promoted; its replica */
static struct dlt_session s, t;  /* at m, and at the one that is promoted */
static struct dlt_request a, b;

static inline void follow(struct dlt_redis *server, const struct dlt_redis *master)
{
    (void)dlt_redis_ask(server, "REPLICAOF 127.0.0.1 %u", master->port);
}

static inline void linked_wait(struct dlt_redis *server)
{
    for (int i = 0; i < 400; i++) {
        if (strstr(dlt_redis_ask(server, "INFO replication"), "master_link_status:up") != NULL)
            return;
        dlt_sleep_ms(50);
    }
    cr_assert_fail("no replica after 20 s: %s", dlt_redis_ask(server, "INFO replication"));
}

static inline void start(struct dlt_redis *server)
{
    static const char *const args[] = {"--min-replicas-to-write",
                                       "1",
                                       "--min-replicas-max-lag",
                                       "1",
                                       "--repl-diskless-sync-delay",
                                       "0",
                                       NULL};

    cr_assert(dlt_redis_start(server, args), "%s", server->why);
}

static inline void set_up(void)
{
    start(&m);
    start(&r);
    start(&q);
    follow(&r, &m);
    follow(&q, &m);
    linked_wait(&r);
    linked_wait(&q);
}

static inline void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&t);
    dlt_redis_stop(&m);
    dlt_redis_stop(&r);
    dlt_redis_stop(&q);
}

/* The options of session_open. */
static inline void session_begin(struct dlt_session *session, const struct dlt_redis *server)
{
    dlt_session_init(session, "redis", server->address);
    dlt_session_trusted(session); /* who may read min-replicas-to-write */
    dlt_session_option(session, "restart_guard", "3000");
    dlt_session_option(session, "failover", "guard");
    dlt_session_option(session, "waiter_lease", "3000");
    session->call_ms = 5000;
}

static inline void session_open(struct dlt_session *session, const struct dlt_redis *server)
{
    session_begin(session, server);
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

/* As a user who may not read the server's settings. */
static inline void session_blind(struct dlt_session *session, const struct dlt_redis *server)
{
    dlt_session_init(session, "redis", server->address);
    dlt_session_option(session, "restart_guard", "3000");
    dlt_session_option(session, "failover_guard", "5000");
    session->call_ms = 5000;
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
    cr_assert_eq(session->info.caps & DLOCK_CAP_FAILOVER_SAFE, 0);
}

static inline int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Asks until the status is this one. Returns when that was. */
static inline int64_t wait_for(enum dlock_status wanted, struct dlt_session *session,
                               enum dlock_status (*ask)(struct dlt_session *, struct dlt_request *),
                               struct dlt_request *request)
{
    int64_t since = now_ms();
    enum dlock_status status = ask(session, request);

    while (status != wanted && now_ms() - since < SLACK_MS) {
        dlt_sleep_ms(50);
        status = ask(session, request);
    }
    cr_assert_eq(status, wanted, "%d: %s", (int)status, session->err.message);
    return now_ms();
}

/* A master with two replicas, past the guard of its start, and a lock that it granted. */
static inline void hold(void)
{
    session_open(&s, &m);
    dlt_request(&s, &a, "held", 'a', T_MS);
    dlt_request(&s, &b, "free", 'b', T_MS);
    (void)wait_for(DLOCK_OK, &s, dlt_try, &a);
}

/* The lease of "held" lasts for longer than a test, at m and at its replica r. */
static inline void held_last(void)
{
    do
        (void)wait_for(DLOCK_OK, &s, dlt_try, &a);
    while (strcmp(dlt_redis_ask(&m, "PEXPIRE dl:{held} 60000"), "1") != 0);
    for (int i = 0; i < 400; i++) {
        if (strtol(dlt_redis_ask(&r, "PTTL dl:{held}"), NULL, 10) > 2 * T_MS)
            return;
        dlt_sleep_ms(50);
    }
    cr_assert_fail("no lease at the replica after 20 s");
}

/* Returns when it was, or earlier. */
static inline int64_t promote(void)
{
    int64_t at = now_ms();

    cr_assert_str_eq(dlt_redis_ask(&r, "REPLICAOF NO ONE"), "OK");
    follow(&q, &r);
    return at;
}

#endif
