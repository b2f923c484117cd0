/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/link/connection.c plugins/redis/link/pipeline.c */
/* Threads that share a connection have more to say than the kernel takes at once: is all of it
 * sent, and in order? (C1, C4) */
#include "redis/link/config.h"
#include "redis/link/pipeline.h"
#include "redis_kit.h"

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

enum { ASKERS = 8 };

static bool fits_all(const void *asked, redisReply *reply)
{
    return asked == NULL && reply != NULL;
}

struct asker {
    struct redis_pipeline *pipeline;
    struct redis_exchange exchange;
};

static void *pipeline_run(void *arg)
{
    struct asker *asker = arg;

    (void)redis_pipeline_exchange(asker->pipeline, &asker->exchange);
    return NULL;
}

static struct redis_pipeline *pipeline_make(const char *scheme, const char *address)
{
    static struct resp_config config;
    struct redis_service service;
    struct redis_nodes nodes;
    struct resp_info server_info;
    struct redis_pipeline *pipeline = NULL;

    dlt_session_init(&s, scheme, address);
    cr_assert_eq(redis_config_init(&config, &service, &nodes, &s.target, &s.err), DLOCK_OK);
    cr_assert_eq(redis_pipeline_open(&pipeline, &config, NULL, &s.host.table,
                                     dlt_host_in(&s.host, 5000), &server_info, &s.err),
                 DLOCK_OK);
    return pipeline;
}

/* A command of a quarter of a megabyte whose answer is its own. */
static void asker_fill(struct asker *asker, struct redis_pipeline *pipeline, int number)
{
    static const char script[] = "return #ARGV[1]";
    size_t len = ((size_t)256 << 10) + (size_t)number;
    char *bytes = malloc(len + 100);
    int head = snprintf(bytes, len + 100, "*4\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$%zu\r\n",
                        sizeof script - 1, script, len);

    memset(bytes + head, 'x', len);
    memcpy(bytes + head + len, "\r\n", 2);
    *asker = (struct asker){.pipeline = pipeline,
                            .exchange = {.bytes = bytes,
                                         .len = (size_t)head + len + 2,
                                         .reply_max = 99,
                                         .deadline_ns = dlt_host_in(&s.host, 5000),
                                         .validate = fits_all}};
}

/* A quarter of a megabyte from each of them, which is more than a socket takes, while the server
 * does not read. */
Test(share, C1_what_does_not_fit_is_sent_later_and_in_order)
{
    static struct asker askers[ASKERS];
    pthread_t threads[ASKERS];
    struct redis_pipeline *pipeline = pipeline_make("redis+unix", server.socket);

    dlt_redis_pause(&server, true);
    for (int i = 0; i < ASKERS; i++) {
        asker_fill(&askers[i], pipeline, i);
        cr_assert_eq(pthread_create(&threads[i], NULL, pipeline_run, &askers[i]), 0);
    }
    dlt_sleep_ms(200);
    dlt_redis_pause(&server, false);
    for (int i = 0; i < ASKERS; i++) {
        struct redis_exchange *exchange = &askers[i].exchange;

        (void)pthread_join(threads[i], NULL);
        cr_assert_eq(exchange->status, DLOCK_OK, "%d: %s", i, exchange->why);
        cr_assert_eq(exchange->reply->integer, (256 << 10) + i);
        freeReplyObject(exchange->reply);
        free((char *)exchange->bytes);
    }
    redis_pipeline_close(pipeline);
}

static void await_asked(struct redis_pipeline *pipeline)
{
    bool asked = false;

    for (int i = 0; i < 5000 && !asked; i++) {
        dlt_sleep_ms(2);
        (void)pthread_mutex_lock(&pipeline->mutex);
        asked = pipeline->first != NULL;
        (void)pthread_mutex_unlock(&pipeline->mutex);
    }
    cr_assert(asked);
}

/* TRY-4: what is given up before a byte of it left never leaves. */
Test(share, C4_what_waits_to_be_sent_is_taken_back)
{
    static struct asker first = {
        .exchange = {.len = (size_t)64 << 20, .reply_max = 99, .validate = fits_all}};
    struct redis_exchange second = {.bytes = "+", .len = 1, .reply_max = 99, .validate = fits_all};
    struct redis_pipeline *pipeline = pipeline_make("redis", server.address);
    pthread_t thread;
    char *bytes = calloc(1, first.exchange.len);

    dlt_redis_pause(&server, true);
    first.pipeline = pipeline;
    first.exchange.bytes = bytes;
    first.exchange.deadline_ns = dlt_host_in(&s.host, 8000);
    cr_assert_eq(pthread_create(&thread, NULL, pipeline_run, &first), 0);
    await_asked(pipeline);
    dlt_sleep_ms(200); /* more than a socket takes */
    second.deadline_ns = dlt_host_in(&s.host, 100);
    cr_assert(redis_pipeline_exchange(pipeline, &second));
    cr_assert_eq(second.status, DLOCK_UNAVAILABLE, "%s", second.why);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(first.exchange.status, DLOCK_UNKNOWN, "%s", first.exchange.why);
    dlt_redis_pause(&server, false);
    redis_pipeline_close(pipeline);
    free(bytes);
}

/* C8: who is given the lead while nothing can be sent has a deadline all the same. */
Test(share, C8_the_next_leader_gives_up_in_time_though_nothing_can_be_sent)
{
    static struct asker first = {
        .exchange = {.len = (size_t)64 << 20, .reply_max = 99, .validate = fits_all}};
    struct redis_exchange second = {.bytes = "+", .len = 1, .reply_max = 99, .validate = fits_all};
    struct redis_pipeline *pipeline = pipeline_make("redis", server.address);
    pthread_t thread;
    char *bytes = calloc(1, first.exchange.len);
    int64_t until_ns = 0;

    dlt_redis_pause(&server, true);
    first.pipeline = pipeline;
    first.exchange.bytes = bytes;
    first.exchange.deadline_ns = dlt_host_in(&s.host, 6000);
    cr_assert_eq(pthread_create(&thread, NULL, pipeline_run, &first), 0);
    await_asked(pipeline);
    until_ns = first.exchange.deadline_ns + 1000 * DLT_NS_PER_MS;
    second.deadline_ns = until_ns;
    cr_assert(redis_pipeline_exchange(pipeline, &second));
    cr_assert(dlt_host_within(&s.host, until_ns, 5000), "%s", dlt_within_text());
    cr_assert_eq(second.status, DLOCK_UNAVAILABLE, "%s", second.why);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(first.exchange.status, DLOCK_UNKNOWN, "%s", first.exchange.why);
    dlt_redis_pause(&server, false);
    redis_pipeline_close(pipeline);
    free(bytes);
}
