/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/watch.c */
/*
 * How soon does a waiter know that it has the name, if others write meanwhile? A watch of etcd that
 * begins at a revision of the past is told in steps of 100 ms (WAT-1, C13).
 */
#include "name_kit.h"

#include <pthread.h>
#include <stdlib.h>

#define ROUNDS    21
#define MEDIAN_MS 25 /* of a busy machine; one or two on a quiet one */

static int64_t told_ns;

static void *watch_run(void *arg)
{
    enum dlock_status *status = arg;

    *status = dlt_watch(&t, &b, 5000);
    told_ns = dlt_host_now(&t.host);
    return NULL;
}

static void queue_up(void)
{
    b.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert(t.grant.flags & DLOCK_GRANT_QUEUED);
    b.req.flags = 0;
}

/* From the unlock to the grant. Somebody writes between the queue entry and its watch. */
static int64_t hand_off(void)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int64_t unlocked_ns = 0;
    pthread_t thread;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    queue_up();
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(pthread_create(&thread, NULL, watch_run, &status), 0);
    dlt_sleep_ms(5);
    unlocked_ns = dlt_host_now(&t.host);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(status, DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK, "%s", u.err.message);
    return told_ns - unlocked_ns;
}

static int by_size(const void *one, const void *other)
{
    const int64_t *x = one, *y = other;

    return (*x > *y) - (*x < *y);
}

Test(handoff, WAT_1_a_waiter_beside_writers_is_told_at_once)
{
    int64_t took_ns[ROUNDS];

    open_all("handoff");
    for (int i = 0; i < ROUNDS; i++) {
        dlt_request(&s, &a, "job", 'a', 60000);
        dlt_request(&t, &b, "job", 'b', 60000);
        dlt_request(&u, &c, "another", 'c', 60000);
        took_ns[i] = hand_off();
    }
    qsort(took_ns, ROUNDS, sizeof took_ns[0], by_size);
    cr_assert_lt(took_ns[ROUNDS / 2], MEDIAN_MS * DLT_NS_PER_MS, "%.1f ms in the median",
                 (double)took_ns[ROUNDS / 2] / 1e6);
    close_all();
}
