/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/admin.c */
/* Tests: plugins/etcd/queue.c plugins/etcd/take.c plugins/etcd/unlock.c plugins/etcd/renew.c */
/* The leases of queue entries, and queues longer than an answer. */
#include "name_kit.h"

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

Test(queue, DEQ_3_an_entry_ends_by_itself_and_the_dead_are_passed_over)
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

static struct dlt_queued waiters[16];

static void waiters_shown(size_t want)
{
    size_t count = 16;

    cr_assert_eq(dlt_list_waiters(&s, "job", waiters, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, want, "%zu waiters, want %zu", count, want);
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
