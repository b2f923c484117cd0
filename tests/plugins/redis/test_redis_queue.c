/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/waiter.c plugins/resp/subscriber.c */
/* Is the queue first come, first served, and is a grant worth what it says? (WAT, LEA, the rules of
 * REFRESH) */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session one, two; /* of two clients */
static struct dlt_request a, b, c, d;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&one, &server), DLOCK_OK);
    cr_assert_eq(dlt_session_start(&two, &server), DLOCK_OK);
    dlt_request(&one, &a, "job", 'a', 60000);
    dlt_request(&two, &b, "job", 'b', 60000);
    dlt_request(&two, &c, "job", 'c', 60000);
    dlt_request(&two, &d, "job", 'd', 60000);
}

static void tear_down(void)
{
    struct dlt_request *all[] = {&a, &b, &c, &d};

    for (size_t i = 0; i < 4; i++)
        if (two.self != NULL)
            two.ops->forget(two.self, &all[i]->req);
    dlt_session_close(&one);
    dlt_session_close(&two);
    dlt_redis_stop(&server);
}

TestSuite(queue, .init = set_up, .fini = tear_down);

#define QUEUED(session) (((session)->grant.flags & DLOCK_GRANT_QUEUED) != 0)

/* The scripts have a short way for names that nobody waits for, and this one. */
Test(queue, UNL_1_only_the_holder_while_others_wait)
{
    struct dlt_request reader;

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&two, &c), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_LOST, "a place is no hold");
    cr_assert_eq(dlt_break(&one, "job", "64646464646464646464646464646464"), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_renew(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_BUSY);
    cr_assert(QUEUED(&two));
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    dlt_request(&one, &reader, "job", 'r', 60000);
    reader.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &reader), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_LOST);
    cr_assert_eq(dlt_try(&two, &c), DLOCK_BUSY);
}

struct watcher {
    struct dlt_session *session;
    struct dlt_request *request;
    enum dlock_status status;
    struct dlock_grant grant;
    pthread_t thread;
};

static void *watcher_run(void *arg)
{
    struct watcher *watcher = arg;
    struct dlock_error err = DLOCK_ERROR_INIT;

    watcher->grant = (struct dlock_grant){.holder_ms = -1};
    watcher->status = watcher->session->ops->watch(watcher->session->self, &watcher->request->req,
                                                   &watcher->grant, &err);
    return NULL;
}

static void watcher_start(struct watcher *watcher, struct dlt_session *session,
                          struct dlt_request *request)
{
    *watcher = (struct watcher){.session = session, .request = request};
    request->req.deadline_ns = dlt_host_in(session->shared, 20000);
    cr_assert_eq(pthread_create(&watcher->thread, NULL, watcher_run, watcher), 0);
}

/* HST-1, WAT-5: one connection hears for all sessions of a client, whoever reads. */
Test(queue, many_watch_and_each_gets_its_own)
{
    enum { COUNT = 8 };
    static struct dlt_session sessions[COUNT];
    static struct dlt_request holders[COUNT], waiters[COUNT];
    static struct watcher watchers[COUNT];
    static char names[COUNT][8];
    char *clients = NULL;

    for (size_t i = 0; i < COUNT; i++) {
        dlt_session_join(&sessions[i], &two);
        (void)snprintf(names[i], sizeof names[i], "n%zu", i);
        dlt_request(&one, &holders[i], names[i], 'h', 60000);
        dlt_request(&sessions[i], &waiters[i], names[i], (unsigned char)('0' + i), 60000);
        cr_assert_eq(dlt_try(&one, &holders[i]), DLOCK_OK);
        cr_assert_eq(dlt_queue_up(&sessions[i], &waiters[i]), DLOCK_BUSY);
        two.subscribed = true;
    }
    for (size_t i = 0; i < COUNT; i++)
        watcher_start(&watchers[i], &sessions[i], &waiters[i]);
    dlt_sleep_ms(20);
    cr_assert_str_eq(dlt_redis_ask(&server, "PUBSUB NUMPAT"), "0");
    clients = strdup(dlt_redis_ask(&server, "CLIENT LIST TYPE pubsub"));
    cr_assert(clients != NULL && strchr(clients, '\n') == strrchr(clients, '\n'),
              "one subscriber: %s", clients);
    free(clients);
    for (size_t i = 0; i < COUNT; i += 2) /* those who read among them */
        cr_assert_eq(dlt_unlock(&one, &holders[i]), DLOCK_OK);
    for (size_t i = 0; i < COUNT; i += 2)
        (void)pthread_join(watchers[i].thread, NULL);
    for (size_t i = 1; i < COUNT; i += 2)
        cr_assert_eq(dlt_unlock(&one, &holders[i]), DLOCK_OK);
    for (size_t i = 1; i < COUNT; i += 2)
        (void)pthread_join(watchers[i].thread, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(watchers[i].status, DLOCK_OK, "%zu", i);
        cr_assert_eq(dlt_unlock(&sessions[i], &waiters[i]), DLOCK_OK);
        dlt_session_close(&sessions[i]);
    }
}

Test(queue, INT_2_a_grant_that_came_first_is_told)
{
    struct watcher reader;
    struct dlt_session other;

    dlt_session_join(&other, &two);
    dlt_request(&other, &d, "else", 'd', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    dlt_request(&one, &a, "else", 'a', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&other, &d), DLOCK_BUSY); /* took in what had come for b */
    two.ops->interrupt(two.self, &b.req);
    watcher_start(&reader, &two, &b);
    (void)pthread_join(reader.thread, NULL);
    cr_assert_eq(reader.status, DLOCK_OK);
    cr_assert_eq(dlt_leave(&other, &d), DLOCK_OK);
    dlt_session_close(&other);
}

/* WAT-1: without a place there is nothing to be told. */
/* The channel's name begins with the prefix. */
Test(queue, DEQ_1_a_prefix_may_have_any_bytes)
{
    struct dlt_session spaced;

    dlt_session_init(&spaced, "redis", server.address);
    dlt_session_option(&spaced, "prefix", "my \n locks:");
    dlt_session_trusted(&spaced);
    cr_assert_eq(dlt_session_open(&spaced), DLOCK_OK);
    cr_assert_eq(dlt_try(&spaced, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&spaced, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&spaced, &a), DLOCK_OK, "%s", spaced.err.message);
    cr_assert_eq(dlt_watch(&spaced, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&spaced, &b), DLOCK_OK);
    dlt_session_close(&spaced);
}

/* Failures T49: killed while somebody waits. */
Test(queue, a_subscriber_that_is_killed_costs_one_question)
{
    struct watcher watcher;

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    watcher_start(&watcher, &two, &b);
    dlt_sleep_ms(20);
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE pubsub");
    (void)pthread_join(watcher.thread, NULL);
    cr_assert_eq(watcher.status, DLOCK_BUSY, "worth a try");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK); /* unheard */
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_BUSY, "subscribed again");
    cr_assert_eq(dlt_refresh(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK, "and hears");
}

/* ... or between two waits. */
Test(queue, a_subscriber_that_was_killed_is_noticed_before_it_is_relied_on)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_leave(&two, &b), DLOCK_OK);
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE pubsub");
    dlt_sleep_ms(20);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_BUSY);
}

/* Waiters keep no keys alive. */
Test(queue, the_keys_of_a_queue_end_by_themselves)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    for (int i = 0; i < 2; i++) {
        const char *left = dlt_redis_ask(&server, "PTTL dl:{job}:%s", i == 0 ? "q" : "w");

        cr_assert(strtol(left, NULL, 10) > 3000 && strtol(left, NULL, 10) <= 13000, "%s", left);
    }
    cr_assert_eq(dlt_leave(&two, &b), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}:q"), "0");
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "PTTL dl:{job}:q"), NULL, 10), 3000,
                 "the queue began anew, and the hash did not");
}

/* What is not used any more goes away by itself. */
Test(queue, every_key_ends_by_itself)
{
    static const char *const keys[] = {"dl:{job}", "dl:{job}:m", "dl:{other}:r", "dl:{other}:m"};

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    dlt_request(&one, &b, "other", 'b', 60000);
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &b), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "DBSIZE"), "4");
    for (size_t i = 0; i < 4; i++)
        cr_assert_str_neq(dlt_redis_ask(&server, "PTTL %s", keys[i]), "-1", "%s", keys[i]);
}
