/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/client.c plugins/resp/subscriber.c */
/*
 * The connections on which waiters are told of releases: does another thread wait for one to be
 * made, and is a connection that died in silence noticed? The slots of the plugin, three real
 * servers behind proxies (C13, INT-1).
 */
#include "proxy_client.h"
#include "redis_server.h"
#include "redlock_slots.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define NODES   3
#define TTL_MS  120000
#define LONG_MS 90000 /* a watch that nothing ends */

static struct dlt_redis servers[NODES];
static struct dlt_proxy proxies[NODES];
static struct dlt_session holder, waiter; /* of two clients; the holder's is past the proxies */
static struct dlt_request held, wanted;

static void open_at(struct dlt_session *session, bool direct)
{
    const char *addresses[NODES];

    for (unsigned i = 0; i < NODES; i++)
        addresses[i] = direct ? servers[i].address : proxies[i].address;
    dlt_redlock_target(session, addresses, NODES);
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

/* One holds the name, another one has found it held. */
static void set_up(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert(dlt_redis_start(&servers[i], NULL), "%s", servers[i].why);
        cr_assert(dlt_proxy_start(&proxies[i], servers[i].address, "resp", NULL), "%s",
                  proxies[i].answer);
    }
    open_at(&holder, true);
    open_at(&waiter, false);
    dlt_request(&holder, &held, "x", 1, TTL_MS);
    cr_assert_eq(dlt_try(&holder, &held), DLOCK_OK, "%s", holder.err.message);
    dlt_request(&waiter, &wanted, "x", 2, TTL_MS);
    cr_assert_eq(dlt_try(&waiter, &wanted), DLOCK_BUSY, "%s", waiter.err.message);
}

static void tear_down(void)
{
    waiter.ops->forget(waiter.self, &wanted.req);
    (void)dlt_unlock(&holder, &held);
    dlt_session_close(&waiter);
    dlt_session_close(&holder);
    for (unsigned i = 0; i < NODES; i++) {
        (void)dlt_proxy_stop(&proxies[i]);
        dlt_redis_stop(&servers[i]);
    }
}

TestSuite(redlock_ears, .init = set_up, .fini = tear_down, .timeout = 120);

static void *watch(void *arg)
{
    static enum dlock_status status;

    (void)arg;
    do /* it may return for no reason [WAT-3] */
        status = waiter.ops->watch(waiter.self, dlt_due(&waiter, &wanted, LONG_MS), &waiter.grant,
                                   &waiter.err);
    while (status == DLOCK_BUSY);
    return &status;
}

/* C13: a connection that is cut in silence, and whose end still acknowledges, tells nothing: it is
 * noticed and made anew. */
Test(redlock_ears, C13_a_subscription_that_died_in_silence_is_noticed)
{
    char await[40];
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, watch, NULL), 0);
    for (unsigned i = 0; i < NODES; i++)
        while (strcmp(dlt_redis_ask(&servers[i], "ZCARD rl:{x}:q"), "1") != 0)
            dlt_sleep_ms(20);
    dlt_sleep_ms(500); /* the third one hears, too */
    cr_assert(dlt_proxy_tell(&proxies[1], "blackhole both"), "%s", proxies[1].answer);
    (void)snprintf(await, sizeof await, "await accepted>=%d 45000",
                   (int)dlt_proxy_count(&proxies[1], 0, "accepted") + 1);
    cr_expect(dlt_proxy_tell(&proxies[1], "%s", await), "%s", proxies[1].answer);
    waiter.ops->interrupt(waiter.self, &wanted.req);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

/* ---- a host that stands still in the middle of connecting ---- */

static sem_t stands, goes_on;
static _Atomic bool armed;

/* Asked when a connection has failed: when to try again. */
static int slow_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    if (armed) {
        armed = false;
        (void)sem_post(&stands);
        (void)sem_wait(&goes_on);
    }
    return getrandom(buf, len, 0) == (ssize_t)len ? 0 : -1;
}

static void *interrupt(void *arg)
{
    (void)arg;
    waiter.ops->interrupt(waiter.self, &wanted.req);
    return NULL;
}

/* INT-1: core calls interrupt with the client's mutex held, which all threads need. */
Test(redlock_ears, INT_1_interrupt_does_not_wait_for_a_connection)
{
    struct timespec until;
    pthread_t watcher, interrupter;
    void *status = NULL;

    (void)sem_init(&stands, 0, 0);
    (void)sem_init(&goes_on, 0, 0);
    waiter.host.table.random = slow_random;
    cr_assert(dlt_proxy_tell(&proxies[0], "accept refuse"), "%s", proxies[0].answer);
    armed = true;
    cr_assert_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
    while (sem_wait(&stands) != 0)
        ;
    cr_assert_eq(pthread_create(&interrupter, NULL, interrupt, NULL), 0);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    cr_expect_eq(pthread_timedjoin_np(interrupter, NULL, &until), 0);
    (void)sem_post(&goes_on);
    cr_assert_eq(pthread_join(watcher, &status), 0);
    cr_expect_eq(*(enum dlock_status *)status, DLOCK_CANCELED);
}
