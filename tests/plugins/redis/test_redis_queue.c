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

Test(queue, a_place_is_told_with_its_lease_and_the_counter)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    fence = one.grant.fence;
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert(QUEUED(&two));
    cr_assert_eq(two.grant.lease_ms, 3000);
    cr_assert_eq(two.grant.fence, fence);
    cr_assert_eq(two.grant.queue_position, 0);
    cr_assert_eq(two.grant.waiters, 0);
    cr_assert_gt(two.grant.holder_ms, 50000);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_eq(two.grant.queue_position, 1);
    cr_assert_eq(two.grant.waiters, 1);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY, "again, after an answer that was lost");
    cr_assert_eq(two.grant.queue_position, 0, "the same place");
    cr_assert_eq(dlt_try(&one, &d), DLOCK_BUSY);
    cr_assert_not(QUEUED(&one));
    cr_assert_eq(one.grant.waiters, 2);
    cr_assert_eq(dlt_renew(&one, &a), DLOCK_OK);
    cr_assert_eq(one.grant.waiters, 2);
}

Test(queue, WAT_1_OK_the_release_grants_to_the_first)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    fence = one.grant.fence;
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK, "%s", two.err.message);
    cr_assert_gt(two.grant.fence, fence);
    cr_assert_eq(two.grant.fence_room, 31);
    cr_assert_eq(two.grant.lease_ms, 3000);
    cr_assert_eq(dlt_watch(&two, &c, 50), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_BUSY, "nobody is between");
    cr_assert_eq(dlt_renew(&two, &b), DLOCK_OK);
    cr_assert_geq(two.grant.lease_ms, 60000, "the renewer makes it the whole ttl");
    fence = two.grant.fence;
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK);
    cr_assert_gt(two.grant.fence, fence);
}

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

/* WAT-2: the release came between the answer and the watch, and before the subscription. */
Test(queue, WAT_2_a_grant_before_the_first_watch_is_found)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_BUSY, "not yet subscribed: worth a try");
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK);
    cr_assert_geq(two.grant.lease_ms, 60000);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK, "subscribed: heard");
}

/* The model's R3: a grant that ran out before the place was confirmed again is not taken. */
Test(queue, WAT_4_an_old_grant_is_dropped)
{
    dlt_session_close(&two);
    dlt_session_option(&two, "waiter_lease", "500");
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK); /* granted to b, which does not look */
    dlt_sleep_ms(600);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&two, &b, 50), DLOCK_TIMEOUT, "the grant is older than the place");
}

/* The model's R2. */
/* Whoever died in the queue is not counted as waiting. */
Test(queue, the_dead_do_not_wait)
{
    struct dlt_holder holder;
    size_t count = 1;

    dlt_session_close(&two);
    dlt_session_option(&two, "waiter_lease", "800");
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&one, &a), DLOCK_OK);
    cr_assert_eq(one.grant.waiters, 2);
    dlt_sleep_ms(850);
    cr_assert_eq(dlt_inspect(&one, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(holder.waiters, 0);
    dlt_request(&one, &d, "job", 'd', 60000);
    cr_assert_eq(dlt_enqueue(&one, &d), DLOCK_BUSY);
    cr_assert_eq(one.grant.waiters, 0);
    cr_assert_eq(one.grant.queue_position, 0);
    one.ops->forget(one.self, &d.req);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    dlt_sleep_ms(850);
    cr_assert_eq(dlt_renew(&one, &a), DLOCK_OK);
    cr_assert_eq(one.grant.waiters, 1, "d, whose place is longer");
}

Test(queue, REFRESH_never_enqueues)
{
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_BUSY, "a free name");
    cr_assert_not(QUEUED(&two));
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_BUSY);
    cr_assert_not(QUEUED(&two));
    cr_assert_eq(two.grant.waiters, 0);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}:q dl:{job}:w"), "0");
}

Test(queue, a_place_ends_by_itself_and_others_move_up)
{
    dlt_session_close(&two);
    dlt_session_option(&two, "waiter_lease", "1500");
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &c), DLOCK_BUSY);
    for (int i = 0; i < 4; i++) { /* b is dead, c lives */
        dlt_sleep_ms(500);
        cr_assert_eq(dlt_refresh(&two, &c), DLOCK_BUSY);
        cr_assert(QUEUED(&two));
    }
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_BUSY);
    cr_assert_not(QUEUED(&two), "gone");
}

/* The model's R6: whoever asks, a free name goes to the first waiter. */
Test(queue, a_lease_that_ran_out_goes_to_the_first_and_not_to_who_asks)
{
    a.req.ttl_ms = 1000;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &c), DLOCK_BUSY);
    dlt_sleep_ms(1020);
    cr_assert_eq(dlt_try(&one, &d), DLOCK_BUSY, "a stranger's question");
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK, "frees it for the first");
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK);
}

Test(queue, the_first_takes_it_by_asking_when_the_holder_died)
{
    a.req.ttl_ms = 1000;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    dlt_sleep_ms(1020);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK);
    cr_assert_geq(two.grant.lease_ms, 60000);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK, "again");
}

Test(queue, readers_are_granted_together_and_pass_no_writer)
{
    b.req.mode = c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK);
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_BUSY, "d was first");
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &d, 50), DLOCK_TIMEOUT, "c still reads");
    cr_assert_eq(dlt_unlock(&two, &c), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &d, 2000), DLOCK_OK);
}

Test(queue, downgrade_lets_waiting_readers_in)
{
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
}

Test(queue, LEA_1_LEA_2_leaving_passes_on)
{
    cr_assert_eq(dlt_leave(&two, &b), DLOCK_OK, "an unknown token");
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK); /* granted to b */
    cr_assert_eq(dlt_leave(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK);
    cr_assert_eq(dlt_leave(&two, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&one, &d), DLOCK_OK);
}

Test(queue, LEA_1_a_writer_who_leaves_lets_readers_behind_it_in)
{
    a.req.mode = c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_leave(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &c, 2000), DLOCK_OK);
}

Test(queue, breaking_grants_to_the_first)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_break(&one, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
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

/* INT-1, INT-2 */
Test(queue, INT_2_interrupt_ends_who_reads_and_who_sleeps)
{
    struct watcher first, second;
    struct dlt_session other;

    dlt_session_join(&other, &two);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&other, &c), DLOCK_BUSY);
    watcher_start(&first, &two, &b);
    dlt_sleep_ms(20);
    watcher_start(&second, &other, &c);
    dlt_sleep_ms(20);
    two.ops->interrupt(two.self, &b.req);
    (void)pthread_join(first.thread, NULL);
    cr_assert_eq(first.status, DLOCK_CANCELED);
    cr_assert_eq(dlt_watch(&two, &b, 1000), DLOCK_CANCELED, "sticky");
    other.ops->interrupt(other.self, &c.req);
    (void)pthread_join(second.thread, NULL);
    cr_assert_eq(second.status, DLOCK_CANCELED);
    cr_assert_eq(dlt_leave(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_leave(&other, &c), DLOCK_OK);
    dlt_session_close(&other);
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
Test(queue, LEA_1_a_prefix_may_have_any_bytes)
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

Test(queue, watch_without_a_place_is_unavailable)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&two, &b, 1000), DLOCK_UNAVAILABLE);
    two.ops->interrupt(two.self, &b.req);
    cr_assert_eq(dlt_watch(&two, &b, 1000), DLOCK_CANCELED);
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
