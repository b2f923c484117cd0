/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/watch.c */
/* Does a waiter hear at once what it waits for, and of nothing else? */
#include "name_kit.h"

#include <pthread.h>

/* A watch in a thread of its own. */
struct watcher {
    struct dlt_session *session;
    struct dlt_request *request;
    int64_t timeout_ms;
    pthread_t thread;
    enum dlock_status status;
    int64_t end_ns;
};

static void *watcher_run(void *arg)
{
    struct watcher *watcher = arg;

    watcher->status = dlt_watch(watcher->session, watcher->request, watcher->timeout_ms);
    watcher->end_ns = dlt_host_now(&watcher->session->host);
    return NULL;
}

static void watcher_start(struct watcher *watcher, struct dlt_session *session,
                          struct dlt_request *request, int64_t timeout_ms)
{
    *watcher = (struct watcher){.session = session, .request = request, .timeout_ms = timeout_ms};
    cr_assert_eq(pthread_create(&watcher->thread, NULL, watcher_run, watcher), 0);
    dlt_sleep_ms(100); /* it sleeps in the channel now, mostly */
}

static enum dlock_status watcher_join(struct watcher *watcher)
{
    cr_assert_eq(pthread_join(watcher->thread, NULL), 0);
    return watcher->status;
}

Test(watch, WAT_1_an_unlock_is_heard_at_once)
{
    struct watcher watcher;
    int64_t freed = 0;

    open_all("heard");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 3000);
    freed = dlt_host_now(&s.host);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&watcher), DLOCK_OK, "%s", t.err.message);
    cr_assert(dlt_ended_within(freed, watcher.end_ns, 2500), "%s", dlt_within_text());
    cr_assert_eq(t.grant.lease_ms, 3000);
    cr_assert_gt(t.grant.fence, 0);
    cr_assert_eq(t.grant.waiters, 0);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    close_all();
}

/* The order of the answers to unlock and to the watch must not matter. */
Test(watch, WAT_2_a_release_before_the_watch_is_not_missed)
{
    open_all("before");
    for (int i = 0; i < 3; i++) {
        int64_t begun = 0;

        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        queue(&t, &b);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        begun = dlt_host_now(&s.host);
        cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_OK, "%s", t.err.message);
        cr_assert(dlt_host_within(&s.host, begun, 2500), "%s", dlt_within_text());
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    }
    close_all();
}

Test(watch, WAT_1_the_deadline_is_kept)
{
    int64_t begun = 0;

    open_all("deadline");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    begun = dlt_host_now(&t.host);
    cr_assert_eq(dlt_watch(&t, &b, 300), DLOCK_TIMEOUT);
    cr_assert_geq(dlt_host_now(&t.host) - begun, 300 * DLT_NS_PER_MS);
    cr_assert(dlt_host_within(&t.host, begun, 2500), "%s", dlt_within_text());
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY);
    close_all();
}

Test(watch, WAT_1_without_a_queue_entry_there_is_nothing_to_wait_for)
{
    open_all("nothing");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_UNAVAILABLE);
    close_all();
}

Test(watch, INT_1_INT_2_an_interrupt_ends_the_wait_before_it_and_in_it)
{
    struct watcher watcher;
    int64_t asked = 0;

    open_all("interrupt");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 10000);
    asked = dlt_host_now(&t.host);
    dlt_interrupt(&t, &b);
    dlt_interrupt(&t, &b);
    cr_assert_eq(watcher_join(&watcher), DLOCK_CANCELED);
    cr_assert(dlt_ended_within(asked, watcher.end_ns, 2500), "%s", dlt_within_text());
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_CANCELED, "sticky");
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_CANCELED, "after an answer, too");
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    close_all();
}

Test(watch, LEA_1_a_predecessor_that_gives_up_lets_nobody_in)
{
    struct watcher watcher;

    open_all("gives");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    watcher_start(&watcher, &u, &c, 2500);
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&watcher), DLOCK_OK, "it has found the holder: %s", u.err.message);
    close_all();
}

Test(watch, BRK_1_a_waiter_hears_that_its_own_entry_is_gone)
{
    struct watcher watcher;
    int64_t gone = 0;

    open_all("own");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 2500);
    gone = dlt_host_now(&t.host);
    (void)dlt_etcd_ask(&server, "del own/job/62626262626262626262626262626262");
    cr_assert_eq(watcher_join(&watcher), DLOCK_BUSY);
    cr_assert(dlt_ended_within(gone, watcher.end_ns, 2000), "%s", dlt_within_text());
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    close_all();
}

Test(watch, C13_a_waiting_reader_hears_of_a_downgrade_and_a_writer_does_not)
{
    struct watcher reader;

    open_all("down");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    b.req.mode = DLOCK_SHARED;
    queue(&t, &b);
    watcher_start(&reader, &t, &b, 2500);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(downgrade(&s, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&reader), DLOCK_OK, "%s", t.err.message);
    queue(&u, &c);
    cr_assert_eq(dlt_watch(&u, &c, 300), DLOCK_TIMEOUT);
    close_all();
}

#define WAITERS 40

/* Each hand-off wakes one waiter, which asks once. */
Test(watch, C13_one_event_and_one_question_a_hand_off)
{
    static struct dlt_request requests[WAITERS];
    static struct watcher watchers[WAITERS];
    static struct dlt_session sessions[WAITERS];
    double events = 0, ranges = 0;

    cr_assert(dlt_etcd_start(&server, NULL), "%s", server.why); /* nobody else counts */
    open_all("one");
    dlt_session_close(&t);
    client_init(&t);
    dlt_session_option(&t, "waiter_lease", "60000"); /* all wait for as long as the machine takes */
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        cr_assert_eq(dlt_session_join(&sessions[i], &t), DLOCK_OK);
        dlt_request(&t, &requests[i], "job", (unsigned char)i, 60000);
        requests[i].req.token[0] = 1;
        queue(&sessions[i], &requests[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        watchers[i] = (struct watcher){&sessions[i], &requests[i], 20000, 0, DLOCK_INTERNAL, 0};
        cr_assert_eq(pthread_create(&watchers[i].thread, NULL, watcher_run, &watchers[i]), 0);
    }
    dlt_sleep_ms(700); /* every watch has begun */
    events = dlt_etcd_metric(&server, 0, "etcd_debugging_mvcc_events_total");
    ranges = dlt_etcd_metric(&server, 0,
                             "grpc_server_started_total{grpc_method=\"Range\",grpc_"
                             "service=\"etcdserverpb.KV\",grpc_type=\"unary\"}");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        cr_assert_eq(watcher_join(&watchers[i]), DLOCK_OK, "%d: %s", i, sessions[i].err.message);
        cr_assert_eq(dlt_unlock(&sessions[i], &requests[i]), DLOCK_OK);
    }
    /* A key that ends is an event for its watchers: the next waiter, and a waiter itself. */
    cr_assert_leq(dlt_etcd_metric(&server, 0, "etcd_debugging_mvcc_events_total") - events,
                  2 * WAITERS);
    cr_assert_leq(dlt_etcd_metric(&server, 0,
                                  "grpc_server_started_total{grpc_method=\"Range\",grpc_service="
                                  "\"etcdserverpb.KV\",grpc_type=\"unary\"}") -
                      ranges,
                  WAITERS + 5);
    close_all();
}
