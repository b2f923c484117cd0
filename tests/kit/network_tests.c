/* SPDX-License-Identifier: MIT */
/*
 * What dlock-slot-check does not do to a network: a connection with TLS is cut, a part of an answer
 * is missing, a server is stopped in the middle of a statement. Is the answer there by the
 * deadline, is it the truth, and does the store hold what it says? (C4, C8, C9)
 */
#include "network_tests.h"
#include "proxy_client.h"
#include "strategies.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Between two places to cut. */
#ifdef DLT_LONG
#define BYTES 7
#else
#define BYTES 53
#endif

#define OTHER    255 /* owner */
#define CALM_MS  10000
#define SHORT_MS 150
#define SLACK_MS 3000 /* of a busy machine; a hang lasts longer */

enum what { TRY, READ, RENEW, UNLOCK, INSPECT };
static const char *const words[] = {"trylock", "tryrdlock", "renew", "unlock", "inspect"};

static struct dlt_store_server server;
static struct dlt_proxy proxy;
static struct dlt_session s, direct; /* through the proxy, and not */
static struct dlt_request a, b;
static bool session_lock; /* the lock ends with the connection */
static bool torn;         /* the stream makes no sense: an answer may say so */
static char fault[64];    /* of the proxy, now */

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static void begin_here(const char *strategy, const char *framing)
{
    cr_assert(dlt_proxy_start(&proxy, server.address, framing, NULL), "%s", proxy.answer);
    session_lock = strcmp(strategy, "session") == 0;
    dlt_network_session(&direct, strategy);
    cr_assert_eq(dlt_session_open(&direct), DLOCK_OK, "%s", direct.err.message);
    dlt_network_session(&s, strategy);
    (void)snprintf(s.address, sizeof s.address, "%s", proxy.address);
    dlt_request(&direct, &b, "job", OTHER, 60000);
    cr_assert_eq(dlt_try(&direct, &b), DLOCK_OK, "%s", direct.err.message);
    cr_assert_eq(dlt_unlock(&direct, &b), DLOCK_OK, "%s", direct.err.message);
}

static void begin(const char *strategy)
{
    server = dlt_network_server();
    cr_assert(server.start(server.self), "%s", server.why);
    begin_here(strategy, dlt_network.framing);
}

static void begin_tls(const char *strategy)
{
    char authority[96];

    server = dlt_network_server();
    cr_assert(server.start_tls(server.self, "server"), "%s", server.why);
    begin_here(strategy, "raw");
    (void)snprintf(authority, sizeof authority, "%s/ca.pem", server.directory);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "ca", authority);
}

static void end(void)
{
    dlt_session_close(&s);
    dlt_session_close(&direct);
    (void)dlt_proxy_stop(&proxy);
    server.stop(server.self);
}

/* A session as core would make it after a failure, on a network that is good again. */
static void reopen(void)
{
    int64_t begin_ns = dlt_host_now(&direct.host);

    dlt_session_close(&s);
    cr_assert(dlt_host_within(&direct.host, begin_ns, SLACK_MS), "close: %s: %s", fault,
              dlt_within_text());
    tell("kill fin"); /* else what was kept back arrives now, in a race with what comes next */
    tell("pass");
    s.call_ms = CALM_MS;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void ready(enum what what)
{
    unsigned char owner = (unsigned char)(a.req.token[0] % 200 + 1); /* never OTHER */

    reopen();
    dlt_request(&s, &a, "job", owner, 60000);
    a.req.mode = what == READ ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    if (what == RENEW || what == UNLOCK)
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static enum dlock_status call(enum what what)
{
    struct dlt_holder holder;
    size_t count = 1;

    switch (what) {
    case RENEW:
        return dlt_renew(&s, &a);
    case UNLOCK:
        return dlt_unlock(&s, &a);
    case INSPECT:
        return dlt_inspect(&s, "job", &holder, &count);
    default:
        return dlt_try(&s, &a);
    }
}

/* The connection of a dead session is there until the server has seen its end. */
static void nobody_holds(const char *said)
{
    int64_t begin_ns = dlt_host_now(&direct.host);
    enum dlock_status status = DLOCK_BUSY;

    dlt_request(&direct, &b, "job", OTHER, 60000);
    while (status == DLOCK_BUSY &&
           (dlt_host_now(&direct.host) - begin_ns) / DLT_NS_PER_MS < 15000) {
        status = dlt_try(&direct, &b);
        dlt_sleep_ms(1);
    }
    cr_assert_eq(status, DLOCK_OK, "%s: %s", fault, said);
    cr_assert_eq(dlt_unlock(&direct, &b), DLOCK_OK);
}

static void somebody_holds(const char *said)
{
    enum dlock_status status = DLOCK_INTERNAL;

    dlt_request(&direct, &b, "job", OTHER, 60000);
    status = dlt_try(&direct, &b);
    cr_assert_eq(status, DLOCK_BUSY, "%s: %s: %s: %s", fault, said, dlock_status_name((int)status),
                 direct.err.message);
}

static void check_taken(enum dlock_status status)
{
    if (status == DLOCK_OK)
        somebody_holds("OK, and nobody has it");
    cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
              "%s: %s", fault, dlock_status_name((int)status));
    if (status == DLOCK_UNKNOWN && !session_lock) {
        reopen();
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s: the same token: %s", fault, s.err.message);
    }
    if (status != DLOCK_UNAVAILABLE && !session_lock) {
        reopen();
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s: %s", fault, s.err.message);
    }
    dlt_session_close(&s);
    nobody_holds(dlock_status_name((int)status));
}

static void check_renewed(enum dlock_status status)
{
    if (session_lock) {
        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_LOST, "%s: %s",
                  fault, dlock_status_name((int)status));
    } else {
        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "%s: %s", fault, dlock_status_name((int)status));
        somebody_holds("a renewal ends no lease");
        reopen();
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s: %s", fault, s.err.message);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s: %s", fault, s.err.message);
    }
    dlt_session_close(&s);
    nobody_holds("renewed");
}

static void check_released(enum dlock_status status)
{
    if (status == DLOCK_UNAVAILABLE && !session_lock)
        somebody_holds("a definite failure that released");
    if (session_lock)
        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_LOST, "%s: %s",
                  fault, dlock_status_name((int)status));
    else
        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "%s: %s", fault, dlock_status_name((int)status));
    if (status != DLOCK_OK && !session_lock) {
        reopen();
        status = dlt_unlock(&s, &a);
        cr_assert(status == DLOCK_OK || status == DLOCK_LOST, "%s: repeated: %s", fault,
                  dlock_status_name((int)status));
    }
    if (status != DLOCK_OK)
        dlt_session_close(&s);
    nobody_holds("released");
}

static void check(enum what what, enum dlock_status status)
{
    if (what == TRY || what == READ)
        check_taken(status);
    else if (what == RENEW)
        check_renewed(status);
    else if (what == UNLOCK)
        check_released(status);
    else
        cr_assert(status == DLOCK_OK || status == DLOCK_UNAVAILABLE ||
                      (torn && status == DLOCK_UNKNOWN),
                  "%s: %s", fault, dlock_status_name((int)status));
}

/* One operation under one fault. True: it was answered. */
static bool strike(enum what what, int64_t call_ms, const char *order)
{
    int64_t begin_ns = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    ready(what);
    (void)snprintf(fault, sizeof fault, "%s, %s", words[what], order);
    tell(order);
    s.call_ms = call_ms;
    begin_ns = dlt_host_now(&direct.host);
    status = call(what);
    if (torn && status == DLOCK_PROTOCOL) /* which may have been a yes */
        status = DLOCK_UNKNOWN;
    cr_assert(dlt_host_within(&direct.host, begin_ns, call_ms + SLACK_MS), "%s: %s", fault,
              dlt_within_text());
    check(what, status);
    return status == DLOCK_OK;
}

/* Here and there in what goes in that direction, until all of it has passed. */
static void cut_each(const char *direction, const char *how)
{
    for (int what = TRY; what <= INSPECT; what++) {
        bool answered = false;
        char order[48];

        for (unsigned at = 0; !answered; at += BYTES) {
            (void)snprintf(order, sizeof order, "cut %s %u %s", direction, at, how);
            answered = strike((enum what)what, CALM_MS, order);
            cr_assert_lt(at, 10000);
        }
    }
}

/* Every operation, or every n-th. */
static void half_open(int n)
{
    for (int what = TRY; what <= INSPECT; what += n) {
        cr_assert(!strike((enum what)what, SHORT_MS, "blackhole c2s"));
        cr_assert(!strike((enum what)what, SHORT_MS, "blackhole s2c"));
        cr_assert(!strike((enum what)what, SHORT_MS, "cut c2s 5 hang"));
    }
}

/* ---- the same over TLS, where an answer is whole records or nothing ---- */

#define TLS(name)             \
    static void name(void);   \
    Test(tls_row, name)       \
    {                         \
        begin_tls("row");     \
        name();               \
        end();                \
    }                         \
    Test(tls_session, name)   \
    {                         \
        begin_tls("session"); \
        name();               \
        end();                \
    }                         \
    static void name(void)

TLS(C4_C9_what_is_sent_is_cut_off_here_and_there)
{
    cut_each("c2s", "rst");
}

TLS(C4_C9_what_is_answered_is_cut_off_here_and_there)
{
    cut_each("s2c", "fin");
}

TLS(C8_a_link_with_TLS_that_is_half_open)
{
    half_open(UNLOCK);
}

/* TCP does not lose what lies in between; a server that is no good may. */
EACH(C9_an_answer_with_a_part_missing)
{
    char order[48];

    torn = true;
    for (unsigned n = 1; n <= dlt_network.frames; n++) {
        (void)snprintf(order, sizeof order, "drop s2c +%u", n);
        (void)strike(TRY, SHORT_MS, order);
        (void)strike(INSPECT, SHORT_MS, order);
    }
}

/* At a time that is another one in each round. */
static void *stop_meanwhile(void *after_us)
{
    const struct timespec pause = {.tv_nsec = *(const long *)after_us * 1000};

    (void)nanosleep(&pause, NULL);
    server.pause(server.self, true);
    return NULL;
}

EACH(C4_C8_the_server_is_stopped_in_the_middle_of_a_statement)
{
    for (int what = TRY; what <= INSPECT; what++) {
        for (long us = 50; us < 1200; us += 190) {
            enum dlock_status status = DLOCK_INTERNAL;
            int64_t begin_ns = 0;
            pthread_t thread;

            ready((enum what)what);
            (void)snprintf(fault, sizeof fault, "%s, stopped after %ld us", words[what], us);
            s.call_ms = SHORT_MS;
            cr_assert_eq(pthread_create(&thread, NULL, stop_meanwhile, &us), 0);
            begin_ns = dlt_host_now(&direct.host);
            status = call((enum what)what);
            cr_assert(dlt_host_within(&direct.host, begin_ns, SHORT_MS + SLACK_MS), "%s: %s", fault,
                      dlt_within_text());
            (void)pthread_join(thread, NULL);
            server.pause(server.self, false);
            check((enum what)what, status);
        }
    }
}
