/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/channel.c plugins/etcd/http2.c */
/* What the kernel takes late, a server that says too much, and numbers of calls that run out. */
#include "http2.h"
#include "scripted_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

TestSuite(etcd_channel_sending, .init = open_channel, .fini = close_channel, .timeout = 30);

#define BIG_CALLS 12 /* more than fits into the kernel's buffer, less than HTTP/2 lets be sent */

static void buffer_shrink(void)
{
    int size = 1; /* the kernel makes it some thousands */

    cr_assert_eq(setsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
}

static void big_begin(struct asked *asked, size_t count, struct etcd_wait *by)
{
    static char text[4000];

    memset(text, 'x', sizeof text - 1);
    for (size_t i = 0; i < count; i++) {
        asked_init(&asked[i], "/big", text);
        cr_assert(etcd_channel_begin(by, &asked[i].call));
    }
    etcd_channel_flush(by);
}

/* Reads so many requests, and then answers all of them. */
static void *read_and_answer(void *arg)
{
    const uint32_t *count = arg;
    static struct dlt_frame frame;
    uint32_t ended = 0;

    while (ended < *count && dlt_frame_read(server, &frame))
        ended += frame.type == FRAME_DATA && (frame.flags & FLAG_END_STREAM) != 0;
    for (uint32_t id = 1; id < 2 * ended; id += 2) {
        (void)dlt_frame_headers(server, 0, id, good);
        (void)dlt_frame_headers(server, FLAG_END_STREAM, id, ok);
    }
    return NULL;
}

Test(etcd_channel_sending, what_the_kernel_does_not_take_at_once_is_sent_later)
{
    static struct asked big[BIG_CALLS];
    uint32_t count = BIG_CALLS;
    pthread_t thread;

    buffer_shrink();
    cr_assert(dlt_frame_say(server, FRAME_SETTINGS, 0, 0, NULL, 0));
    big_begin(big, count, &wait);
    cr_assert_not(etcd_channel_await(&wait, dlt_host_in(&host, 20)), "nobody reads");
    cr_assert_eq(pthread_create(&thread, NULL, read_and_answer, &count), 0);
    for (size_t i = 0; i < count; i++)
        ENDS(&big[i], ETCD_ANSWERED, "");
    (void)pthread_join(thread, NULL);
}

static void *await_one(void *arg)
{
    (void)etcd_channel_await(arg, dlt_host_in(&host, 20000));
    return NULL;
}

/* The thread that sleeps for all had nothing to send when it fell asleep. */
Test(etcd_channel_sending, a_sleeping_leader_sends_what_another_thread_could_not)
{
    static struct asked big[BIG_CALLS];
    struct etcd_wait other = {.pending = false};
    uint32_t count = BIG_CALLS + 1;
    int64_t begun_ns = 0;
    struct asked one;
    pthread_t leader, thread;

    buffer_shrink();
    begin(&one, NULL);
    cr_assert_eq(pthread_create(&leader, NULL, await_one, &wait), 0);
    (void)usleep(20000);
    etcd_channel_join(channel, &other);
    big_begin(big, BIG_CALLS, &other);
    begun_ns = dlt_host_now(&host);
    cr_assert_eq(pthread_create(&thread, NULL, read_and_answer, &count), 0);
    (void)pthread_join(thread, NULL); /* it has read all: only the leader can have sent it */
    cr_assert(dlt_took_within((dlt_host_now(&host) - begun_ns) / 1000000, 900),
              "a sleep lasts a second: %s", dlt_within_text());
    (void)pthread_join(leader, NULL);
    cr_assert_eq(one.call.end, ETCD_ANSWERED);
    while (other.calls != NULL && etcd_channel_await(&other, dlt_host_in(&host, 500)))
        continue;
    for (size_t i = 0; i < BIG_CALLS; i++)
        cr_assert_eq(big[i].call.end, ETCD_ANSWERED, "%zu: %s", i, big[i].call.text);
    etcd_channel_leave(&other);
}

static void unheard(void *ctx, struct etcd_call *call)
{
    (void)ctx;
    (void)call;
}

Test(etcd_http2, a_connection_whose_numbers_have_run_out_takes_no_call)
{
    struct etcd_http2 *http2 = calloc(1, sizeof *http2);
    struct asked last, more;

    cr_assert_not_null(http2);
    http2->on_event = unheard;
    cr_assert(etcd_http2_init(http2, "http", "127.0.0.1:2379"));
    cr_assert_eq(nghttp2_session_set_next_stream_id(http2->session, INT32_MAX), 0);
    asked_init(&last, "/last", "one");
    etcd_call_init(&last.call);
    cr_assert(etcd_http2_submit(http2, &last.call));
    cr_assert_not(etcd_http2_open(http2));
    asked_init(&more, "/more", "one");
    etcd_call_init(&more.call);
    cr_assert_not(etcd_http2_submit(http2, &more.call));
    cr_assert_eq(more.call.end, ETCD_UNSENT);
    cr_assert_eq(last.call.end, ETCD_OPEN);
    etcd_http2_fini(http2);
    free(http2);
}

static _Atomic bool quiet;

static void *say_nonsense(void *arg)
{
    static unsigned char frames[9 * 1024]; /* of a kind that nobody knows, without a payload */

    (void)arg;
    for (size_t i = 3; i < sizeof frames; i += 9)
        frames[i] = 99;
    while (!atomic_load(&quiet) && send(server, frames, sizeof frames, MSG_NOSIGNAL) > 0)
        continue;
    return NULL;
}

/* HTTP/2 wants them to be skipped. */
Test(etcd_channel_sending, C8_a_flood_of_what_is_skipped_does_not_outlast_the_deadline)
{
    struct asked one;
    struct etcd_call *calls[] = {&one.call};
    int64_t begun_ns = dlt_host_now(&host);
    pthread_t thread;

    cr_assert(dlt_frame_say(server, FRAME_SETTINGS, 0, 0, NULL, 0));
    cr_assert_eq(pthread_create(&thread, NULL, say_nonsense, NULL), 0);
    (void)usleep(10000);
    asked_init(&one, "/first", "one");
    etcd_channel_run(channel, calls, 1, dlt_host_in(&host, 100));
    cr_assert(dlt_took_within((dlt_host_now(&host) - begun_ns) / 1000000, 5000), "%s",
              dlt_within_text());
    ENDS(&one, ETCD_CUT, "no answer in time");
    atomic_store(&quiet, true);
    (void)shutdown(server, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
}

/* Each write wakes the server. */
Test(etcd_channel_sending, the_answer_to_a_ping_leaves_with_the_next_call)
{
    static const unsigned char ping[8] = "datagram";
    static struct asked one, two; /* open until the teardown */
    struct dlt_frame frame;

    begin(&one, NULL);
    while (recv(server, frame.payload, sizeof frame.payload, MSG_DONTWAIT) > 0)
        continue;
    cr_assert(dlt_frame_say(server, FRAME_PING, 0, 0, ping, sizeof ping));
    cr_assert(dlt_frame_headers(server, 0, 1, good));
    cr_assert(dlt_frame_headers(server, FLAG_END_STREAM, 1, ok));
    ENDS(&one, ETCD_ANSWERED, "");
    cr_assert_not(etcd_channel_await(&wait, dlt_host_in(&host, 500)), "no call is open");
    cr_assert_lt(recv(server, &frame, 1, MSG_DONTWAIT), 0);
    begin(&two, NULL);
    cr_assert(dlt_frame_read_type(server, FRAME_PING, &frame));
    cr_assert_eq(frame.flags, FLAG_ACK);
    cr_assert_arr_eq(frame.payload, ping, sizeof ping);
}
