/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/watch.c */
/*
 * How soon does a waiter know that it has the name, if others write meanwhile? A watch of etcd that
 * begins at a revision of the past is told in steps of 100 ms (WAT-1, C13).
 */
#include "name_kit.h"

#include <pthread.h>
#include <stdlib.h>

#define ROUNDS  21
#define MORE_MS 25 /* than if nobody writes, in the median; a watch of the past adds 50 */

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

/* From the unlock to the grant. `beside`: somebody writes between the queue entry and its watch. */
static int64_t hand_off(bool beside)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int64_t unlocked_ns = 0;
    pthread_t thread;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    queue_up();
    if (beside)
        cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(pthread_create(&thread, NULL, watch_run, &status), 0);
    dlt_sleep_ms(5);
    unlocked_ns = dlt_host_now(&t.host);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(status, DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    if (beside)
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
    int64_t took_ns[2][ROUNDS]; /* alone; beside a writer */
    double alone_ms = 0, beside_ms = 0;

    open_all("handoff");
    for (int i = 0; i < 2 * ROUNDS; i++) {
        dlt_request(&s, &a, "job", 'a', 60000);
        dlt_request(&t, &b, "job", 'b', 60000);
        dlt_request(&u, &c, "another", 'c', 60000);
        took_ns[i % 2][i / 2] = hand_off(i % 2 != 0);
    }
    for (int i = 0; i < 2; i++)
        qsort(took_ns[i], ROUNDS, sizeof took_ns[i][0], by_size);
    alone_ms = (double)took_ns[0][ROUNDS / 2] / 1e6;
    beside_ms = (double)took_ns[1][ROUNDS / 2] / 1e6;
    cr_assert_lt(beside_ms - alone_ms, MORE_MS, "%.1f ms in the median, %.1f if nobody writes",
                 beside_ms, alone_ms);
    close_all();
}
