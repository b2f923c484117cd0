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

Test(watch, BRK_1_a_waiter_hears_that_its_own_entry_is_gone)
{
    struct watcher watcher;
    int64_t gone = 0;

    open_all("own");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 2500);
    gone = dlt_host_now(&t.host);
    (void)dlt_etcd_ask(&server, "del %s/job/62626262626262626262626262626262", path + 1);
    cr_assert_eq(watcher_join(&watcher), DLOCK_BUSY);
    cr_assert(dlt_ended_within(gone, watcher.end_ns, 2000), "%s", dlt_within_text());
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
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
