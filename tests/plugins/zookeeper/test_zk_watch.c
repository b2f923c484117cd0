/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/watch.c */
/* Does a waiter hear at once what it waits for, and of nothing else? */
#include "connection.h"
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
    dlt_sleep_ms(100); /* it sleeps now, mostly */
}

static enum dlock_status watcher_join(struct watcher *watcher)
{
    cr_assert_eq(pthread_join(watcher->thread, NULL), 0);
    return watcher->status;
}

/* What the link keeps for waits. */
static int watchers_count(const struct dlt_session *session)
{
    struct zk_link *link = inside(session)->link;
    int count = 0;

    zk_link_lock(link);
    for (const struct zk_watcher *at = link->watchers; at != NULL; at = at->next)
        count++;
    zk_link_unlock(link);
    return count;
}

Test(watch, WAT_1_the_deadline_is_kept_and_the_next_watch_hears_what_comes_between)
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
    cr_assert_eq(dlt_watch(&t, &b, 100), DLOCK_TIMEOUT);
    cr_assert_eq(watchers_count(&t), 1, "the same one");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    begun = dlt_host_now(&t.host);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_OK, "%s", t.err.message);
    cr_assert(dlt_host_within(&t.host, begun, 2500), "%s", dlt_within_text());
    close_all();
}

/* Core's validity counts from the last answer QUEUED. */
Test(watch, WAT_4_the_lease_of_a_grant_counts_from_the_last_refresh)
{
    struct watcher watcher;

    open_all("counts");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 20000);
    dlt_sleep_ms(DLT_ZK_TTL_MS + 1500);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&watcher), DLOCK_OK, "%s", t.err.message);
    lease_counts(&t);
    close_all();
}

Test(watch, WAT_1_without_a_queue_entry_the_next_change_is_worth_a_trylock)
{
    struct watcher watcher;
    int64_t freed = 0;

    open_all("nothing");
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_UNAVAILABLE, "before a trylock");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    watcher_start(&watcher, &t, &b, 3000);
    freed = dlt_host_now(&s.host);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&watcher), DLOCK_BUSY);
    cr_assert(dlt_ended_within(freed, watcher.end_ns, 2500), "%s", dlt_within_text());
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_BUSY, "it is gone still");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    close_all();
}

/* Any of the holders, and not only the last one before us. */
Test(watch, WAT_2_without_a_queue_entry_each_permit_that_is_given_back_is_heard)
{
    struct watcher watcher;

    open_all("permits");
    a.req.limit = b.req.limit = c.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    watcher_start(&watcher, &u, &c, 10000);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&watcher), DLOCK_BUSY, "in the wait: %s", u.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&u, &c, 1000), DLOCK_TIMEOUT, "both are held");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&u, &c, 10000), DLOCK_BUSY, "before the wait: %s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(u.grant.permit, 1);
    close_all();
}

Test(watch, WAT_1_with_the_session_the_wait_ends)
{
    struct watcher watcher;
    int64_t begun = 0;

    open_all("session");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 10000);
    begun = dlt_host_now(&t.host);
    expire(&t);
    cr_assert_eq(watcher_join(&watcher), DLOCK_BUSY, "%s", t.err.message);
    cr_assert(dlt_ended_within(begun, watcher.end_ns, 8000), "%s", dlt_within_text());
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_eq(dlt_watch(&t, &b, 1000), DLOCK_UNAVAILABLE, "it has no entry");
    close_all();
}

Test(watch, BRK_1_a_waiter_whose_own_node_is_gone_is_no_holder)
{
    open_all("own");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    (void)dlt_zk_ask(&server, "delete %s/job/_c_" HEX_OF_B "-__WRIT__0000000001", base);
    cr_assert_eq(nodes_count("job", ""), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_BUSY);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    close_all();
}

/* A node that changes, but stays. */
Test(watch, WAT_3_a_change_of_the_predecessor_is_no_release)
{
    struct watcher watcher;

    open_all("changed");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    watcher_start(&watcher, &t, &b, 1000);
    (void)dlt_zk_ask(&server, "set %s/job/_c_" HEX_OF_A "-__WRIT__0000000000 new", base);
    cr_assert_eq(watcher_join(&watcher), DLOCK_TIMEOUT);
    close_all();
}

/* The servers tell nobody else of a node that only its owner may read: core has to poll. */
Test(watch, WAT_1_a_node_that_may_not_be_read_cannot_be_watched)
{
    open_all("unread");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_zk_ask(&server,
                     "setAcl %s/job/_c_" HEX_OF_A
                     "-__WRIT__0000000000 digest:u:8xJeoMakDQaA8NkfWetBIBym4mk=:cdrwa",
                     base);
    queue(&t, &b);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_UNAVAILABLE);
    cr_assert_eq(t.err.status, DLOCK_UNAVAILABLE);
    cr_assert_eq(watchers_count(&t), 0);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_OK, "%s", t.err.message);
    close_all();
}

#define WAITS 500

/* Of waits that ended by their deadlines, nothing is kept until the holder goes. */
Test(watch, UNL_4_waits_that_are_over_leave_no_watchers)
{
    static struct dlt_request requests[WAITS];
    enum dlock_status status = DLOCK_INTERNAL;
    int timeouts = 0;

    open_all("over");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < WAITS; i++) {
        dlt_request(&t, &requests[i], "job", (unsigned char)i, DLT_ZK_TTL_MS);
        requests[i].req.token[0] = (unsigned char)(i / 256);
        queue(&t, &requests[i]);
        status = dlt_watch(&t, &requests[i], 1); /* UNAVAILABLE: not even begun */
        cr_assert(status == DLOCK_TIMEOUT || status == DLOCK_UNAVAILABLE, "%d", status);
        timeouts += status == DLOCK_TIMEOUT;
        cr_assert_eq(dlt_dequeue(&t, &requests[i]), DLOCK_OK);
        forget(&t, &requests[i]);
    }
    cr_assert_gt(timeouts, WAITS / 2);
    cr_assert_eq(watchers_count(&t), 0);
    close_all();
}

#define WAITERS 40

/* Each hand-off wakes one waiter, which asks once. */
Test(watch, C13_a_hand_off_wakes_one_waiter)
{
    static struct dlt_request requests[WAITERS];
    static struct watcher watchers[WAITERS];
    static struct dlt_session sessions[WAITERS];
    int64_t before = 0;

    cr_assert(dlt_zk_start(&server, NULL), "%s", server.why); /* nobody else counts */
    open_all("one");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        sessions[i] = t; /* the same client, in another thread */
        dlt_request(&t, &requests[i], "job", (unsigned char)i, DLT_ZK_TTL_MS);
        requests[i].req.token[0] = 1;
        queue(&sessions[i], &requests[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        watchers[i] = (struct watcher){&sessions[i], &requests[i], 20000, 0, DLOCK_INTERNAL, 0};
        cr_assert_eq(pthread_create(&watchers[i].thread, NULL, watcher_run, &watchers[i]), 0);
    }
    dlt_sleep_ms(700); /* every watch has begun */
    before = dlt_zk_number(&server.members[0], "zk_packets_received");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        cr_assert_eq(watcher_join(&watchers[i]), DLOCK_OK, "%d: %s", i, sessions[i].err.message);
        cr_assert_eq(dlt_unlock(&sessions[i], &requests[i]), DLOCK_OK);
    }
    /* The children and the delete; beside them, a sync of three clients each 100 ms. */
    cr_assert_leq(dlt_zk_number(&server.members[0], "zk_packets_received") - before,
                  2 * WAITERS + 1 + 40);
    close_all();
}
