/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/channel.c plugins/etcd/http2.c */
/* Calls of one thread and of many on one connection to a server, which is a thread of the test. */
#include "channel_fixture.h"
#include "fake_member.h"

static struct dlt_member member;

static void member_open(void)
{
    open_channel();
    memset(&member, 0, sizeof member);
    member.fd = server;
}

static void member_close(void)
{
    etcd_channel_leave(&wait);
    etcd_channel_free(channel);
    dlt_member_join(&member);
}

TestSuite(etcd_channel_threads, .init = member_open, .fini = member_close, .timeout = 60);

Test(etcd_channel_threads, each_call_says_what_gRPC_and_etcd_want)
{
    struct asked one;
    struct etcd_call *calls[] = {&one.call};

    dlt_member_start(&member);
    cr_assert(etcd_channel_set_token(channel, "older"));
    cr_assert(etcd_channel_set_token(channel, "sesame"));
    asked_init(&one, "/echo", "hello");
    etcd_channel_run(channel, calls, 1, dlt_host_in(&host, 10000));
    cr_assert_eq(one.call.end, ETCD_ANSWERED, "%s", one.call.text);
    cr_assert_str_eq(one.heard, "hello|");
    cr_assert_str_eq(member.headers, ":method: POST\n:scheme: http\n:path: /echo\n"
                                     ":authority: 127.0.0.1:2379\nte: trailers\n"
                                     "content-type: application/grpc\nuser-agent: dlock\n"
                                     "hasleader: true\n!token: sesame\n");
}

#define THREADS 8
#define TURNS   150

static void *wrong(const char *what)
{
    return (void *)(uintptr_t)what;
}

static void *turns(void *arg)
{
    static const char *const paths[] = {"/echo", "/pieces", "/refuse", "/fail", "/echo"};
    uintptr_t number = (uintptr_t)arg;

    for (unsigned i = 0; i < TURNS; i++) {
        struct asked two[2];
        struct etcd_call *calls[] = {&two[0].call, &two[1].call};
        const char *path = paths[(i + number) % 5];
        char text[2][24], said[2][sizeof text + sizeof "|"];

        for (int k = 0; k < 2; k++) {
            (void)snprintf(text[k], sizeof text[k], "%u of %u, %d", i, (unsigned)number, k);
            (void)snprintf(said[k], sizeof said[k], "%s|", text[k]);
            asked_init(&two[k], k == 0 ? path : "/echo", text[k]);
        }
        etcd_channel_run(channel, calls, 2, dlt_host_in(&host, 20000));
        if (strcmp(two[1].heard, said[1]) != 0 || two[1].call.end != ETCD_ANSWERED)
            return wrong("another thread's answer");
        if (strcmp(path, "/refuse") == 0 ? two[0].call.end != ETCD_UNSENT
                                         : two[0].call.end != ETCD_ANSWERED)
            return wrong("another end");
        if (strcmp(path, "/fail") == 0 ? two[0].call.grpc_status != 14
                                       : two[0].call.grpc_status != 0)
            return wrong("another status");
    }
    return NULL;
}

static void by_threads(void)
{
    pthread_t threads[THREADS];

    struct asked one;
    struct etcd_call *calls[] = {&one.call};

    dlt_member_start(&member);
    asked_init(&one, "/echo", "first"); /* the server says how many it takes */
    etcd_channel_run(channel, calls, 1, dlt_host_in(&host, 20000));
    cr_assert_eq(one.call.end, ETCD_ANSWERED);
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, turns, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *what = NULL;

        (void)pthread_join(threads[i], &what);
        cr_expect_null(what, "thread %d: %s", i, (const char *)what);
    }
    cr_assert_eq(atomic_load(&member.calls), 2 * THREADS * TURNS + 1);
}

Test(etcd_channel_threads, C9_eight_threads_get_their_own_answers)
{
    by_threads();
}

Test(etcd_channel_threads, calls_wait_for_a_server_that_takes_few_at_once)
{
    member.most_calls = 3;
    by_threads();
}

Test(etcd_channel_threads, C8_a_silent_call_ends_at_its_deadline_and_others_are_answered)
{
    struct asked silent, one;
    struct etcd_call *calls[] = {&silent.call};

    dlt_member_start(&member);
    asked_init(&one, "/echo", "hello");
    cr_assert(etcd_channel_begin(&wait, &one.call));
    asked_init(&silent, "/silent", "");
    etcd_channel_run(channel, calls, 1, dlt_host_in(&host, 50));
    cr_assert_eq(silent.call.end, ETCD_CUT);
    cr_assert(etcd_channel_dead(channel));
    while (one.call.end == ETCD_OPEN && etcd_channel_await(&wait, dlt_host_in(&host, 10000)))
        continue;
    cr_assert_eq(one.call.end, ETCD_ANSWERED, "a call from before is still answered");
}
