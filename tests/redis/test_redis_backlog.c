/* SPDX-License-Identifier: MIT */
/* Threads that share a connection have more to say than the kernel takes at once: is all of it
 * sent, and in order? (C1, C4) */
#include "redis_kit.h"
#include "wire.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session s;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

TestSuite(share, .init = set_up, .fini = tear_down, .timeout = 60);

enum { KEEPERS = 8, NAMES = 60 };

struct keeper {
    struct dlt_session view;
    struct dlock_lease_op ops[NAMES];
    enum dlock_status status;
    pthread_t thread;
};

static struct dlt_request kept[KEEPERS][NAMES];
static char long_names[KEEPERS][NAMES][256];

static void *keeper_run(void *arg)
{
    struct keeper *keeper = arg;

    keeper->status =
        keeper->view.ops->renew(keeper->view.self, keeper->ops, NAMES,
                                dlt_host_in(keeper->view.shared, 8000), &keeper->view.err);
    return NULL;
}

/* A quarter of a megabyte from each of them, while the server does not read. */
Test(share, C1_what_does_not_fit_is_sent_later_and_in_order)
{
    static struct keeper keepers[KEEPERS];

    dlt_session_init(&s, "redis+unix", server.socket);
    dlt_session_option(&s, "sockets", "1");
    dlt_session_option(&s, "spin", "0"); /* who spins sends the rest by the way */
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    for (int k = 0; k < KEEPERS; k++) {
        dlt_session_join(&keepers[k].view, &s);
        for (int i = 0; i < NAMES; i++) {
            (void)snprintf(long_names[k][i], sizeof long_names[k][i], "%d.%d.%0240d", k, i, 0);
            memset(strchr(long_names[k][i], '\0') - 240, 1, 240); /* three bytes each in a key */
            dlt_request(&s, &kept[k][i], long_names[k][i], (unsigned char)('a' + k), 60000);
            cr_assert_eq(dlt_try(&s, &kept[k][i]), DLOCK_OK);
            keepers[k].ops[i].req = &kept[k][i].req;
        }
    }
    dlt_redis_pause(&server, true);
    for (int k = 0; k < KEEPERS; k++)
        cr_assert_eq(pthread_create(&keepers[k].thread, NULL, keeper_run, &keepers[k]), 0);
    dlt_sleep_ms(200);
    dlt_redis_pause(&server, false);
    for (int k = 0; k < KEEPERS; k++) {
        (void)pthread_join(keepers[k].thread, NULL);
        cr_assert_eq(keepers[k].status, DLOCK_OK, "%s", keepers[k].view.err.message);
        for (int i = 0; i < NAMES; i++)
            cr_assert_eq(keepers[k].ops[i].status, DLOCK_OK, "%d.%d: %d", k, i,
                         keepers[k].ops[i].status);
    }
    cr_assert_null(strstr(strstr(dlt_redis_ask(&server, "CLIENT LIST TYPE normal"),
                                 "user=" DLT_REDIS_LEAST " ") +
                              1,
                          "user=" DLT_REDIS_LEAST " "),
                   "one connection");
}

static bool fits_all(const void *asked, redisReply *reply)
{
    return asked == NULL && reply != NULL;
}

struct asker {
    struct redis_wire *wire;
    struct redis_exchange exchange;
};

static void *wire_run(void *arg)
{
    struct asker *asker = arg;

    (void)redis_wire_ask(asker->wire, &asker->exchange);
    return NULL;
}

/* TRY-4: what is given up before a byte of it left never leaves. */
Test(share, C4_what_waits_to_be_sent_is_taken_back)
{
    static struct asker first = {
        .exchange = {.len = (size_t)64 << 20, .reply_max = 99, .fits = fits_all}};
    struct redis_exchange second = {.bytes = "+", .len = 1, .reply_max = 99, .fits = fits_all};
    struct redis_place place;
    struct redis_facts facts;
    struct redis_wire *wire = NULL;
    pthread_t thread;
    char *bytes = calloc(1, first.exchange.len);

    dlt_session_init(&s, "redis", server.address);
    cr_assert_eq(redis_place_init(&place, &s.target, &s.err), DLOCK_OK);
    cr_assert_eq(redis_wire_open(&wire, &place, NULL, &s.host.table, dlt_host_in(&s.host, 5000),
                                 &facts, &s.err),
                 DLOCK_OK);
    dlt_redis_pause(&server, true);
    first.wire = wire;
    first.exchange.bytes = bytes;
    first.exchange.deadline_ns = dlt_host_in(&s.host, 2000);
    cr_assert_eq(pthread_create(&thread, NULL, wire_run, &first), 0);
    dlt_sleep_ms(500); /* more than a socket takes */
    second.deadline_ns = dlt_host_in(&s.host, 100);
    cr_assert(redis_wire_ask(wire, &second));
    cr_assert_eq(second.status, DLOCK_UNAVAILABLE, "%s", second.why);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(first.exchange.status, DLOCK_UNKNOWN, "%s", first.exchange.why);
    dlt_redis_pause(&server, false);
    redis_wire_close(wire);
    free(bytes);
}
