/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/lease.c plugins/postgresql/statements.c */
/* Does the queue of strategy row keep its order, pass on what is free, and end by itself? */
#include "row_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct dlt_request d, e;

static void open_queue(const char *test)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', 60000);
    dlt_request(&s, &e, "job", 'e', 60000);
}

static void shared(struct dlt_request *request)
{
    request->req.mode = DLOCK_SHARED;
}

Test(queue, TRY_queued_says_where_and_for_how_long_and_again_keeps_the_entry)
{
    uint64_t fence = 0;

    open_queue("where");
    cr_assert_eq(try_with(&s, &a, DLOCK_REQ_ENQUEUE), DLOCK_OK, "a free name is taken");
    fence = s.grant.fence;
    queue(&t, &b);
    cr_assert_eq(t.grant.lease_ms, 3000);
    cr_assert_eq(t.grant.fence, fence);
    cr_assert_eq(t.grant.queue_position, 0);
    cr_assert_eq(t.grant.waiters, 0);
    cr_assert_gt(t.grant.holder_ms, 50000);
    queue(&u, &c);
    cr_assert_eq(u.grant.queue_position, 1);
    cr_assert_eq(u.grant.waiters, 1);
    queue(&t, &b);
    cr_assert_eq(t.grant.queue_position, 0, "the same entry");
    cr_assert_eq(t.grant.waiters, 1);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY);
    cr_assert_eq(s.grant.flags, 0, "only ENQUEUE makes an entry");
    cr_assert_eq(s.grant.waiters, 2);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.waiters, 2);
    close_all();
}

Test(queue, WAT_1_an_unlock_grants_in_the_order_of_arrival)
{
    uint64_t last = 0;

    open_queue("order");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence;
    queue(&t, &b);
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY, "it belongs to the first waiter");
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    cr_assert_gt(u.grant.fence, last, "the counter is that of the grant");
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, last);
    last = t.grant.fence;
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_gt(u.grant.fence, last);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_OK);
    close_all();
}

Test(queue, UNL_1_only_the_holder_passes_the_name_on)
{
    open_queue("owner");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_LOST);
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY, "the name is still that of the holder");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "twice");
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    close_all();
}

Test(queue, UNL_1_a_lease_that_has_ended_is_lost_and_the_name_goes_to_the_first)
{
    open_queue("late");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    administer("UPDATE row_late_lease SET until = clock_timestamp() - interval '1 s'");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    close_all();
}

struct listed {
    char owners[4]; /* the first byte of each token */
    unsigned count, most;
};

static bool listed_add(void *arg, const struct dlock_waiter *waiter)
{
    struct listed *listed = arg;

    cr_assert_eq(waiter->position, listed->count);
    cr_assert_eq(waiter->waited_ms, -1);
    cr_assert_eq(waiter->mode, waiter->position == 1 ? DLOCK_SHARED : DLOCK_EXCLUSIVE);
    cr_assert_eq(strlen(waiter->owner), 2 * DLOCK_TOKEN_SIZE);
    cr_assert_str_eq(waiter->label, waiter->position == 0 ? "first" : "host:1:test");
    listed->owners[listed->count++] =
        (char)strtol((char[3]){waiter->owner[0], waiter->owner[1]}, NULL, 16);
    return listed->count == listed->most;
}

static const char *waiters_of(const char *name, unsigned most)
{
    static struct listed listed;

    listed = (struct listed){.most = most};
    cr_assert_eq(s.ops->list_waiters(s.self, (const unsigned char *)name, (uint32_t)strlen(name),
                                     dlt_host_in(s.shared, s.call_ms), listed_add, &listed, &s.err),
                 DLOCK_OK, "%s", s.err.message);
    return listed.owners;
}

Test(queue, waiters_are_listed_in_their_order_and_only_live_ones)
{
    open_queue("listed");
    cr_assert_str_eq(waiters_of("job", 9), "", "no such name");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    b.req.label = "first";
    shared(&c);
    queue(&t, &b);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_str_eq(waiters_of("job", 9), "bcd");
    cr_assert_str_eq(waiters_of("job", 2), "bc", "until the caller has enough");
    cr_assert_str_eq(waiters_of("jo", 9), "");
    administer("UPDATE row_listed_queue SET until = clock_timestamp() - interval '1 s'"
               " WHERE seq = 3");
    cr_assert_str_eq(waiters_of("job", 9), "bc");
    close_all();
}

Test(queue, REFRESH_never_enqueues_and_takes_nothing)
{
    open_queue("refresh");
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST, "no such name");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST, "a free name");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    close_all();
}

Test(queue, TRY_2_a_grant_lasts_the_lesser_of_the_entry_and_the_ttl)
{
    struct dlt_holder holder;
    size_t count = 1;

    open_queue("lesser");
    b.req.ttl_ms = 700;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_leq(holder.remaining_ms, 700);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_leq(holder.remaining_ms, 3000);
    cr_assert_gt(holder.remaining_ms, 2000);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "the waiter asks");
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_gt(holder.remaining_ms, 50000, "and has its ttl");
    close_all();
}

Test(queue, LEA_3_an_entry_ends_by_itself_and_the_dead_are_passed_over)
{
    open_queue("dead");
    dlt_session_close(&t);
    dlt_session_option(&t, "waiter_lease", "500");
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* dies */
    queue(&u, &c);
    queue(&t, &d); /* dies */
    dlt_sleep_ms(600);
    cr_assert_eq(refresh(&t, &d), DLOCK_LOST, "it has ended");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the dead one before it is passed over");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT count(*) FROM row_dead_queue"), "0");
    cr_assert_eq(dlt_try(&s, &e), DLOCK_OK);
    close_all();
}

Test(queue, TRY_the_lease_of_a_dead_holder_goes_to_the_first_whoever_asks)
{
    open_queue("holder");
    for (int round = 0; round < 3; round++) {
        a.req.ttl_ms = 300;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK); /* dies */
        queue(&t, &b);
        queue(&u, &c);
        dlt_sleep_ms(350);
        if (round == 0)
            cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY, "a stranger");
        else if (round == 1)
            cr_assert_eq(refresh(&u, &c), DLOCK_BUSY, "the second");
        cr_assert_eq(refresh(&t, &b), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
        cr_assert_eq(refresh(&u, &c), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    }
    close_all();
}

Test(queue, C13_readers_are_granted_together_and_pass_no_writer)
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
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&s, &e), DLOCK_BUSY);
    cr_assert_eq(s.grant.queue_position, 1);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_neq(t.grant.fence, u.grant.fence);
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "it does not pass the writer");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "one reader is left");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK);
    cr_assert_eq(refresh(&s, &e), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &d), DLOCK_OK);
    cr_assert_eq(refresh(&s, &e), DLOCK_OK);
    close_all();
}

Test(queue, C13_readers_that_died_let_the_writer_in)
{
    open_queue("gone");
    shared(&a);
    shared(&b);
    a.req.ttl_ms = 300;
    b.req.ttl_ms = 500;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    queue(&u, &c);
    cr_assert_leq(u.grant.holder_ms, 500);
    cr_assert_gt(u.grant.holder_ms, 100);
    dlt_sleep_ms(550);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT count(*) FROM row_gone_reader"), "0");
    close_all();
}

Test(queue, C13_a_downgrade_lets_waiting_readers_in)
{
    open_queue("down");
    shared(&b);
    shared(&d);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c); /* a writer */
    queue(&s, &d);
    cr_assert_eq(downgrade(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.waiters, 2);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "the writer comes first");
    close_all();
}

Test(queue, LEA_1_LEA_2_dequeue_gives_up_the_entry_or_passes_the_lock_on)
{
    open_queue("dequeue");
    shared(&c);
    shared(&d);
    cr_assert_eq(dequeue(&s, &a), DLOCK_OK, "an unknown token");
    shared(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* a writer */
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_LOST);
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY, "unlock leaves the entry");
    for (int i = 0; i < 2; i++) /* may be repeated */
        cr_assert_eq(dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the reader behind the writer is let in");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&s, &e);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dequeue(&t, &b), DLOCK_OK, "it was granted");
    cr_assert_eq(refresh(&s, &e), DLOCK_OK, "and passed on");
    close_all();
}

Test(queue, LEA_1_a_reader_that_was_granted_passes_on)
{
    open_queue("reader");
    shared(&b);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    close_all();
}

Test(queue, BRK_1_break_hands_on_and_its_fence_is_greater)
{
    uint64_t last = 0;

    open_queue("break");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence;
    queue(&t, &b);
    cr_assert_eq(dlt_break(&u, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, last);
    close_all();
}

Test(queue, inspect_counts_the_live_waiters)
{
    struct dlt_holder holder;
    size_t count = 1;

    open_queue("counts");
    dlt_session_close(&t);
    dlt_session_option(&t, "waiter_lease", "500");
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&u, &c);
    queue(&t, &b);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(holder.waiters, 2);
    dlt_sleep_ms(550);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(holder.waiters, 1);
    close_all();
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

    client_init(&session, "crowd");
    if (dlt_session_open(&session) != DLOCK_OK)
        atomic_fetch_add(&violations, 1);
    for (int i = 0; i < ROUNDS && session.self != NULL; i++) {
        dlt_request(&session, &request, "job", number, 60000);
        request.req.token[0] = (unsigned char)i;
        request.req.mode = (number + i) % 3 == 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        hold(&session, &request, request.req.mode == DLOCK_SHARED);
    }
    dlt_session_close(&session);
    return NULL;
}

Test(queue, TRY_1_TRY_6_of_many_clients_the_right_ones_are_inside)
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
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT waiters FROM row_crowd_lease"), "0");
    close_all();
}
