/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/list_waiters.c */
/* Tests: plugins/etcd/queue.c plugins/etcd/take.c plugins/etcd/unlock.c plugins/etcd/change.c */
/* Does the queue keep its order, pass on what is free, and end by itself? */
#include "name_kit.h"

#include <pthread.h>
#include <stdatomic.h>

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

/* waiter_lease of a client. */
static void entries_last(struct dlt_session *session, const char *ms)
{
    dlt_session_close(session);
    dlt_session_option(session, "waiter_lease", ms);
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

Test(queue, TRY_queued_says_where_and_for_how_long_and_again_keeps_the_entry)
{
    uint64_t fence = 0;

    open_queue("where");
    cr_assert_eq(try_with(&s, &a, DLOCK_REQ_ENQUEUE), DLOCK_OK, "a free name is taken");
    cr_assert_eq(s.grant.lease_ms, 60000, "with its whole ttl");
    fence = s.grant.fence;
    queue(&t, &b);
    cr_assert_eq(t.grant.lease_ms, 3000);
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
    cr_assert_eq(keys_count("job/"), 3);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.waiters, 2);
    close_all();
}

Test(queue, WAT_4_an_unlock_grants_in_the_order_of_arrival)
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
    last = t.grant.fence + t.grant.fence_room;
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_gt(u.grant.fence, last);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_OK);
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
    cr_assert_eq(keys_count(""), 0);
    close_all();
}

Test(queue, TRY_2_a_grant_has_the_lease_of_the_entry_and_the_first_renewal_the_whole_ttl)
{
    struct dlt_holder holder;
    size_t count = 1;
    uint64_t fence = 0;

    open_queue("whole");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(t.grant.lease_ms, 3000);
    fence = t.grant.fence;
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_leq(holder.remaining_ms, 3000);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.lease_ms, 60000);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_gt(holder.remaining_ms, 50000);
    cr_assert_eq(holder.fence, fence, "the same grant");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    close_all();
}

Test(queue, C12_a_downgrade_of_a_grant_from_the_queue_has_the_whole_ttl_too)
{
    open_queue("both");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(downgrade(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.lease_ms, 60000);
    shared(&c);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    close_all();
}

Test(queue, LEA_3_an_entry_ends_by_itself_and_the_dead_are_passed_over)
{
    open_queue("dead");
    entries_last(&t, "1000");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* dies */
    queue(&u, &c);
    queue(&t, &d); /* dies */
    for (int i = 0; i < 4; i++) {
        dlt_sleep_ms(500);
        cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    }
    cr_assert_eq(refresh(&t, &d), DLOCK_LOST, "it has ended");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the dead one before it is passed over");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(keys_count(""), 0);
    close_all();
}

Test(queue, LEA_3_an_entry_that_is_refreshed_lasts)
{
    open_queue("lasts");
    entries_last(&t, "1000");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    for (int i = 0; i < 8; i++) {
        dlt_sleep_ms(300);
        cr_assert_eq(refresh(&t, &b), DLOCK_BUSY, "%d", i);
        cr_assert_eq(t.grant.lease_ms, s.info.ttl_least_ms > 1000 ? s.info.ttl_least_ms : 1000);
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

Test(queue, C13_a_reader_that_enqueues_joins_readers_at_once)
{
    open_queue("joins");
    shared(&a);
    shared(&b);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    cr_assert_eq(t.grant.lease_ms, 60000);
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
    cr_assert_eq(dlt_dequeue(&s, &a), DLOCK_OK, "an unknown token");
    shared(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* a writer */
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_LOST);
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY, "unlock leaves the entry");
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

Test(queue, inspect_counts_the_waiters)
{
    struct dlt_holder holder;
    size_t count = 1;

    open_queue("counts");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&u, &c);
    queue(&t, &b);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(holder.waiters, 2);
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(holder.waiters, 1);
    close_all();
}

static struct dlt_queued waiters[16];

static void waiters_shown(size_t want)
{
    size_t count = 16;

    cr_assert_eq(dlt_list_waiters(&s, "job", waiters, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, want, "%zu waiters, want %zu", count, want);
}

Test(queue, C13_list_waiters_shows_them_in_order)
{
    open_queue("shown");
    entries_last(&t, "60000");
    entries_last(&u, "60000");
    waiters_shown(0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    waiters_shown(0);
    shared(&b);
    c.req.label = "host:1:last one";
    queue(&t, &b);
    queue(&u, &c);
    waiters_shown(2);
    cr_assert_str_eq(waiters[0].owner, "62626262626262626262626262626262");
    cr_assert_eq(waiters[0].mode, DLOCK_SHARED);
    cr_assert_eq(waiters[0].position, 0);
    cr_assert_str_eq(waiters[1].label, "host:1:last one");
    cr_assert_eq(waiters[1].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(waiters[1].position, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK); /* b, a reader, holds the name */
    waiters_shown(1);
    cr_assert_str_eq(waiters[0].label, "host:1:last one");
    cr_assert_eq(waiters[0].position, 0);
    close_all();
}

/* Readers behind the holding readers hold the name, too, unless a writer is before them. */
Test(queue, C13_list_waiters_of_readers_begins_at_the_first_writer)
{
    open_queue("writer");
    entries_last(&t, "60000");
    entries_last(&u, "60000");
    shared(&a);
    shared(&c);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    waiters_shown(2);
    cr_assert_eq(waiters[0].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(waiters[1].mode, DLOCK_SHARED);
    close_all();
}

/* Readers that hold the name fill the first answer. */
Test(queue, C13_list_waiters_behind_more_readers_than_one_answer_has)
{
    enum { READERS = 600 };
    static struct dlt_request readers[READERS];

    open_queue("page");
    entries_last(&t, "60000");
    entries_last(&u, "60000");
    for (int i = 0; i < READERS; i++) {
        dlt_request(&s, &readers[i], "job", (unsigned char)i, 60000);
        readers[i].req.token[0] = (unsigned char)(i / 256);
        shared(&readers[i]);
        cr_assert_eq(dlt_try(&s, &readers[i]), DLOCK_OK, "%s", s.err.message);
    }
    waiters_shown(0);
    shared(&c);
    queue(&t, &b);
    queue(&u, &c);
    waiters_shown(2);
    cr_assert_eq(waiters[0].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(waiters[0].position, 0);
    cr_assert_eq(waiters[1].mode, DLOCK_SHARED);
    cr_assert_eq(waiters[1].position, 1);
    for (int i = 0; i < READERS; i++)
        cr_assert_eq(dlt_unlock(&s, &readers[i]), DLOCK_OK);
    close_all();
}

/* More readers than one answer has, and a writer behind all of them. */
Test(queue, C13_a_reader_finds_the_writer_before_many_readers)
{
    enum { READERS = 150 };
    static struct dlt_request readers[READERS];

    open_queue("many");
    entries_last(&t, "60000"); /* a busy machine takes seconds for all of them */
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < READERS; i++) {
        dlt_request(&t, &readers[i], "job", (unsigned char)i, 60000);
        readers[i].req.token[0] = 1;
        shared(&readers[i]);
        queue(&t, &readers[i]);
    }
    cr_assert_eq(refresh(&t, &readers[READERS - 1]), DLOCK_BUSY, "a writer holds the name");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &readers[READERS - 1]), DLOCK_OK);
    cr_assert_eq(refresh(&t, &readers[0]), DLOCK_OK);
    shared(&c);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    for (int i = 0; i < READERS; i++)
        cr_assert_eq(dlt_dequeue(&t, &readers[i]), DLOCK_OK);
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

    client_init(&session);
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
    cr_assert_eq(keys_count(""), 0);
    close_all();
}
