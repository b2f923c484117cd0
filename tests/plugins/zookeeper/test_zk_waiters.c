/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c plugins/zookeeper/unlock.c plugins/zookeeper/slot.c */
/* Does the queue keep its order, and pass on what is free? */
#include "name_kit.h"

#include <pthread.h>
#include <stdatomic.h>

static struct dlt_request d, e;

static void open_queue(const char *test)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', DLT_ZK_TTL_MS);
    dlt_request(&s, &e, "job", 'e', DLT_ZK_TTL_MS);
}

static void close_queue(void)
{
    forget(&s, &d);
    forget(&s, &e);
    close_all();
}

static void shared(struct dlt_request *request)
{
    request->req.mode = DLOCK_SHARED;
}

Test(waiters, TRY_queued_says_where_and_for_how_long_and_again_keeps_the_entry)
{
    uint64_t fence = 0;

    open_queue("where");
    cr_assert_eq(try_with(&s, &a, DLOCK_REQ_ENQUEUE), DLOCK_OK, "a free name is taken");
    fence = s.grant.fence;
    queue(&t, &b);
    lease_counts(&t);
    cr_assert_gt(t.grant.fence, fence);
    cr_assert_eq(t.grant.queue_position, 0);
    cr_assert_eq(t.grant.waiters, 0);
    fence = t.grant.fence;
    queue(&u, &c);
    cr_assert_eq(u.grant.queue_position, 1);
    cr_assert_eq(u.grant.waiters, 1);
    queue(&t, &b);
    cr_assert_eq(t.grant.queue_position, 0, "the same entry");
    cr_assert_eq(t.grant.fence, fence);
    cr_assert_eq(t.grant.waiters, 1);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY);
    cr_assert_eq(s.grant.flags, 0, "only ENQUEUE makes an entry");
    cr_assert_eq(s.grant.waiters, 2);
    cr_assert_eq(s.grant.queue_position, 2);
    cr_assert_eq(nodes_count("job", ""), 3);
    close_queue();
}

Test(waiters, WAT_4_an_unlock_grants_in_the_order_of_arrival)
{
    uint64_t last = 0, entry = 0;

    open_queue("order");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    queue(&t, &b);
    entry = t.grant.fence;
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY, "it belongs to the first waiter");
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, last);
    cr_assert_gt(t.grant.fence, entry);
    lease_counts(&t);
    cr_assert_eq(t.grant.waiters, 1);
    last = t.grant.fence + t.grant.fence_room;
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_gt(u.grant.fence, last);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_OK);
    close_queue();
}

Test(waiters, REFRESH_never_enqueues_and_takes_nothing)
{
    open_queue("refresh");
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST, "no such name");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_str_eq(t.err.message, "");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST, "a free name");
    cr_assert_eq(nodes_count("job", ""), 0);
    close_queue();
}

Test(waiters, LEA_3_an_entry_ends_with_its_session_and_the_dead_are_passed_over)
{
    open_queue("dead");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* dies */
    queue(&u, &c);
    expire(&t);
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    cr_assert_eq(u.grant.queue_position, 0);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the dead one before it is passed over");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(nodes_count("job", ""), 0);
    close_queue();
}

Test(waiters, C13_readers_are_granted_together_and_pass_no_writer)
{
    open_queue("readers");
    shared(&b);
    shared(&c);
    shared(&e);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    queue(&s, &d); /* a writer */
    queue(&s, &e); /* a reader behind it */
    cr_assert_eq(s.grant.queue_position, 3);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&s, &e), DLOCK_BUSY);
    cr_assert_eq(s.grant.queue_position, 1, "two readers hold the name");
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(t.grant.waiters, 2);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_neq(t.grant.fence, u.grant.fence);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    shared(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "it does not pass the writer");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "one reader is left");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK);
    cr_assert_eq(refresh(&s, &e), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &d), DLOCK_OK);
    cr_assert_eq(refresh(&s, &e), DLOCK_OK);
    close_queue();
}

Test(waiters, C13_a_reader_that_enqueues_joins_readers_at_once)
{
    open_queue("joins");
    shared(&a);
    shared(&b);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    close_queue();
}

Test(waiters, LEA_1_LEA_2_dequeue_gives_up_the_entry_or_passes_the_lock_on)
{
    open_queue("dequeue");
    shared(&c);
    cr_assert_eq(dlt_dequeue(&s, &a), DLOCK_OK, "an unknown token");
    shared(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* a writer */
    queue(&u, &c);
    for (int i = 0; i < 2; i++) /* may be repeated */
        cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the reader behind the writer is let in");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&s, &e);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK, "it was granted");
    cr_assert_eq(refresh(&s, &e), DLOCK_OK, "and passed on");
    close_queue();
}

Test(waiters, FGT_1_what_is_forgotten_goes_by_itself)
{
    open_queue("forgotten");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    forget(&t, &b);
    nodes_left("job", HEX_OF_B, 0);
    forget(&s, &a);
    nodes_left("job", "", 0);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    leftovers_gone(&s);
    leftovers_gone(&t);
    close_queue();
}

#define THREADS 8
#define ROUNDS  25

static atomic_int writers, readers, violations;
static _Atomic uint64_t last_fence;

/* Waits by asking again, so that the order of the queue alone decides. */
static void hold(struct dlt_session *session, struct dlt_request *request, bool is_reader)
{
    enum dlock_status status = try_with(session, request, DLOCK_REQ_ENQUEUE);

    for (int i = 0; i < 10000 && status == DLOCK_BUSY; i++) {
        dlt_sleep_ms(1);
        status = try_with(session, request, DLOCK_REQ_REFRESH);
    }
    if (status != DLOCK_OK) {
        atomic_fetch_add(&violations, 1);
        return;
    }
    atomic_fetch_add(is_reader ? &readers : &writers, 1);
    if (atomic_load(&writers) > 1 || (atomic_load(&writers) == 1 && atomic_load(&readers) > 0))
        atomic_fetch_add(&violations, 1);
    if (!is_reader && atomic_exchange(&last_fence, session->grant.fence) >= session->grant.fence)
        atomic_fetch_add(&violations, 1);
    atomic_fetch_sub(is_reader ? &readers : &writers, 1);
    if (dlt_unlock(session, request) != DLOCK_OK)
        atomic_fetch_add(&violations, 1);
}

static void *thread_run(void *arg)
{
    const unsigned char number = *(const unsigned char *)arg;
    struct dlt_session session;
    struct dlt_request request;

    client_init(&session);
    if (dlt_session_open(&session) != DLOCK_OK)
        atomic_fetch_add(&violations, 1);
    for (int i = 0; i < ROUNDS && session.self != NULL; i++) {
        dlt_request(&session, &request, "job", number, DLT_ZK_TTL_MS);
        request.req.token[0] = (unsigned char)i;
        request.req.mode = (number + i) % 3 == 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        hold(&session, &request, request.req.mode == DLOCK_SHARED);
    }
    dlt_session_close(&session);
    return NULL;
}

Test(waiters, TRY_1_TRY_6_of_many_clients_the_right_ones_are_inside)
{
    pthread_t threads[THREADS];
    unsigned char numbers[THREADS];

    open_queue("crowd");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = (unsigned char)(i + 1);
        cr_assert_eq(pthread_create(&threads[i], NULL, thread_run, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(atomic_load(&violations), 0);
    cr_assert_eq(nodes_count("job", ""), 0);
    close_queue();
}
