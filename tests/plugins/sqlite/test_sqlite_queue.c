/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/queue.c */
/* The queue in the file: who gets a name next, for how long, and what a place costs and is worth.
 */
#include "store_kit.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <string.h>

#define LEASE_MS 3000 /* of a place, and of a grant that came unasked */
#define BRIEF_MS 400
#define SOON_MS  500 /* time enough to queue on a busy machine, and to wait for */

static char directory[64], path[64];
static struct dlt_store s, t;  /* t: of somebody else */
static struct dlt_store brief; /* its places last for BRIEF_MS */
static struct dlt_request holder, a, b, reader, second;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    dlt_store_init(&brief, path);
    brief.target.waiter_lease_ms = BRIEF_MS;
    cr_assert_eq(dlt_store_open(&brief), DLOCK_OK);
    dlt_store_request(&s, &holder, "job", 'h', 60000);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    dlt_store_request(&s, &reader, "job", 'r', 60000);
    dlt_store_request(&s, &second, "job", 's', 60000);
    reader.req.mode = second.req.mode = DLOCK_SHARED;
}

static void tear_down(void)
{
    dlt_store_close(&brief);
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(queue, .init = set_up, .fini = tear_down, .timeout = 60);

static void holds(struct dlt_request *request)
{
    cr_assert_eq(dlt_store_try(&s, request), DLOCK_OK, "%s", s.err.message);
}

static void queues(struct dlt_request *request)
{
    cr_assert_eq(dlt_store_enqueue(&t, request), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
}

/* By somebody who dies. */
static void queues_briefly(struct dlt_request *request)
{
    cr_assert_eq(dlt_store_enqueue(&brief, request), DLOCK_BUSY, "%s", brief.err.message);
    cr_assert_eq(brief.grant.lease_ms, BRIEF_MS);
}

/* A holder that dies. */
static void holds_until_soon(void)
{
    holder.req.ttl_ms = SOON_MS;
    holds(&holder);
}

static void releases(struct dlt_request *request)
{
    cr_assert_eq(dlt_store_unlock(&s, request), DLOCK_OK, "%s", s.err.message);
}

/* Of the name now: those who hold it, by the first letter of their tokens, and who waits. */
static void state_is(const char *owners, uint32_t waiters)
{
    struct dlt_holder holders[8];
    size_t count = 8;

    cr_assert_eq(dlt_store_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, strlen(owners), "%zu holders", count);
    for (size_t i = 0; i < count; i++) {
        char owner[3] = "";

        (void)snprintf(owner, sizeof owner, "%02x", (unsigned char)owners[i]);
        cr_assert_eq(strncmp(holders[i].owner, owner, 2), 0, "%zu: %s", i, holders[i].owner);
        cr_assert_eq(holders[i].waiters, waiters, "%u wait", holders[i].waiters);
    }
}

Test(queue, ENQUEUE_of_a_free_name_takes_it)
{
    cr_assert_eq(dlt_store_enqueue(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.flags, 0);
    cr_assert_gt(s.grant.lease_ms, 59000);
    state_is("a", 0);
}

Test(queue, QUEUED_tells_place_lease_and_counter)
{
    uint64_t fence = 0;

    holds(&holder);
    fence = s.grant.fence;
    queues(&a);
    cr_assert_eq(t.grant.queue_position, 0);
    cr_assert_eq(t.grant.waiters, 0, "others");
    cr_assert_eq(t.grant.lease_ms, LEASE_MS);
    cr_assert_eq(t.grant.fence, fence);
    cr_assert_gt(t.grant.holder_ms, 50000);
    queues(&b);
    cr_assert_eq(t.grant.queue_position, 1);
    cr_assert_eq(t.grant.waiters, 1);
    queues(&a);
    cr_assert_eq(t.grant.queue_position, 0, "again with the same token: the same place");
    state_is("h", 2);
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;

    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_busy_timeout(db, 10000), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    (void)sqlite3_close(db);
}

static int64_t waited_ms(size_t position)
{
    int64_t waited[4];
    size_t count = 4;

    cr_assert_eq(dlt_store_waited(&t, "job", waited, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_lt(position, count);
    return waited[position];
}

/* dlock 0.2 counted places: such a one, and one of a time that is still to come, tell no time. */
Test(queue, a_place_tells_since_when_it_is_there)
{
    int64_t first = 0;

    holds(&holder);
    queues(&a);
    dlt_sleep_ms(200);
    queues(&b);
    queues(&a);
    sql("UPDATE waiters SET until_ns = until_ns + 3600000000000"); /* however slow the disk is */
    first = waited_ms(0);
    cr_assert_geq(first, 199, "a refresh changes nothing");
    cr_assert_geq(waited_ms(1), 0);
    cr_assert_leq(waited_ms(1), waited_ms(0));
    sql("UPDATE waiters SET place = 7 WHERE place = (SELECT min(place) FROM waiters)");
    cr_assert_eq(waited_ms(0), -1);
    sql("UPDATE waiters SET place = place + 3600000000000 WHERE place > 7");
    cr_assert_eq(waited_ms(1), -1);
    queues(&second);
    cr_assert_eq(waited_ms(2), -1, "behind those that are there");
}

Test(queue, TRY_without_ENQUEUE_does_not_queue)
{
    holds(&holder);
    cr_assert_eq(dlt_store_try(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0);
    state_is("h", 0);
}

Test(queue, REFRESH_of_an_unknown_token_is_BUSY_alone_and_takes_nothing)
{
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0, "nobody has the name");
    holds(&holder);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0);
    queues(&b);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0);
    state_is("h", 1);
    reader.req.flags = 0;
    cr_assert_eq(dlt_store_refresh(&t, &reader), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0);
}

Test(queue, a_release_grants_in_the_order_of_arrival)
{
    uint64_t fence = 0;

    holds(&holder);
    queues(&a);
    queues(&b);
    fence = t.grant.fence;
    releases(&holder);
    state_is("a", 1);
    cr_assert_eq(dlt_store_refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
    cr_assert_gt(t.grant.fence, fence, "the counter went on");
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
    cr_assert_gt(t.grant.fence, fence);
    cr_assert_eq(t.grant.fence_room, 31);
    cr_assert_eq(t.grant.waiters, 1);
    cr_assert_eq(dlt_store_unlock(&t, &a), DLOCK_OK);
    state_is("b", 0);
}

Test(queue, a_grant_lasts_for_the_waiter_lease_and_longer_once_it_is_taken_up)
{
    struct dlt_holder now;
    size_t count = 1;

    holds(&holder);
    queues(&a);
    releases(&holder);
    cr_assert_eq(dlt_store_inspect(&s, "job", &now, &count), DLOCK_OK);
    cr_assert_leq(now.remaining_ms, LEASE_MS);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
    cr_assert_gt(t.grant.lease_ms, 59000);
    a.req.ttl_ms = 1;
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
    cr_assert_eq(t.grant.lease_ms, 1, "never more than the ttl that was asked for");
    cr_assert_eq(dlt_store_enqueue(&t, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_inspect(&s, "job", &now, &count), DLOCK_OK);
    cr_assert_gt(now.remaining_ms, 50000, "never shortens");
}

Test(queue, TRY_of_a_newcomer_is_BUSY_while_somebody_waits)
{
    holds_until_soon();
    queues(&a);
    dlt_sleep_ms(SOON_MS + 1);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "the lease has run out, and the first waits");
    cr_assert_eq(s.grant.flags, 0);
    state_is("a", 0);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
}

Test(queue, the_first_waiter_takes_a_name_that_ran_out_itself)
{
    holds_until_soon();
    queues(&a);
    queues(&b);
    dlt_sleep_ms(SOON_MS + 1);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
    cr_assert_gt(t.grant.lease_ms, 59000, "for its ttl, being there");
    state_is("a", 1);
}

Test(queue, a_waiter_that_is_not_the_first_finds_it_for_the_first)
{
    holds_until_soon();
    queues(&a);
    queues(&b);
    dlt_sleep_ms(SOON_MS + 1);
    cr_assert_eq(dlt_store_refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
    cr_assert_eq(t.grant.queue_position, 0);
    state_is("a", 1);
}

Test(queue, dead_waiters_are_passed_over)
{
    holds(&holder);
    queues_briefly(&a);
    queues(&b);
    dlt_sleep_ms(BRIEF_MS + 1);
    state_is("h", 1);
    releases(&holder);
    state_is("b", 0);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0, "its place is gone");
}

Test(queue, REFRESH_keeps_a_place_alive)
{
    holds(&holder);
    queues(&a);
    for (int i = 0; i < 2; i++) { /* longer than the place lasts by itself */
        dlt_sleep_ms(LEASE_MS * 6 / 10);
        cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
        cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED, "turn %d", i);
    }
    releases(&holder);
    state_is("a", 0);
}

Test(queue, nobody_is_granted_a_name_when_all_are_dead)
{
    holds(&holder);
    queues_briefly(&a);
    queues_briefly(&b);
    dlt_sleep_ms(BRIEF_MS + 1);
    releases(&holder);
    state_is("", 0);
    holds(&holder);
    cr_assert_eq(s.grant.waiters, 0);
}

/* ---- leaving ---- */

Test(queue, LEA_1_leave_of_a_place)
{
    holds(&holder);
    queues(&a);
    queues(&b);
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK, "%s", t.err.message);
    state_is("h", 1);
    releases(&holder);
    state_is("b", 0);
}

Test(queue, LEA_1_leave_of_a_grant_passes_it_on)
{
    holds(&holder);
    queues(&a);
    queues(&b);
    releases(&holder);
    state_is("a", 1);
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    state_is("b", 0);
    cr_assert_eq(dlt_store_leave(&t, &b), DLOCK_OK);
    state_is("", 0);
}

Test(queue, LEA_2_leave_of_an_unknown_token_is_OK_and_touches_nothing)
{
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    holds(&holder);
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    queues(&b);
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    state_is("h", 1);
}

Test(queue, a_break_passes_the_name_on)
{
    holds(&holder);
    queues(&a);
    cr_assert_eq(dlt_store_break(&s, "job", NULL), DLOCK_OK);
    state_is("a", 0);
    cr_assert_eq(dlt_store_renew(&s, &holder), DLOCK_LOST);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_LOST);
    state_is("a", 0);
}

/* ---- readers in the queue ---- */

Test(queue, readers_at_the_head_are_granted_together)
{
    holds(&holder);
    queues(&reader);
    queues(&second);
    queues(&a);
    releases(&holder);
    state_is("rs", 1);
    cr_assert_eq(dlt_store_unlock(&t, &reader), DLOCK_OK);
    state_is("s", 1);
    cr_assert_eq(dlt_store_unlock(&t, &second), DLOCK_OK);
    state_is("a", 0);
}

Test(queue, a_reader_does_not_pass_a_waiting_writer)
{
    holds(&reader);
    queues(&a);
    cr_assert_eq(dlt_store_try(&t, &second), DLOCK_BUSY);
    queues(&second);
    cr_assert_eq(t.grant.queue_position, 1);
    state_is("r", 2);
    releases(&reader);
    state_is("a", 1);
    cr_assert_eq(dlt_store_unlock(&t, &a), DLOCK_OK);
    state_is("s", 0);
}

Test(queue, a_reader_joins_readers_when_the_writer_before_it_is_gone)
{
    holds(&reader);
    queues(&a);
    queues(&second);
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    state_is("rs", 0);
}

Test(queue, a_reader_joins_readers_when_the_writer_before_it_is_dead)
{
    holds(&reader);
    queues_briefly(&a);
    cr_assert_eq(dlt_store_enqueue(&t, &second), DLOCK_BUSY);
    dlt_sleep_ms(BRIEF_MS + 1);
    cr_assert_eq(dlt_store_refresh(&t, &second), DLOCK_OK);
    state_is("rs", 0);
}

Test(queue, a_downgrade_grants_the_readers_at_the_head)
{
    holds(&holder);
    queues(&reader);
    queues(&a);
    queues(&second);
    cr_assert_eq(dlt_store_downgrade(&s, &holder), DLOCK_OK);
    cr_assert_eq(s.grant.waiters, 2);
    state_is("hr", 2);
}

Test(queue, grants_to_readers_have_fences_of_their_own)
{
    uint64_t fence = 0;

    holds(&holder);
    queues(&reader);
    queues(&second);
    releases(&holder);
    cr_assert_eq(dlt_store_refresh(&t, &reader), DLOCK_OK);
    fence = t.grant.fence + t.grant.fence_room;
    cr_assert_eq(dlt_store_refresh(&t, &second), DLOCK_OK);
    cr_assert_gt(t.grant.fence, fence);
}

Test(queue, TRY_2_a_writer_gets_in_when_the_last_reader_runs_out)
{
    reader.req.ttl_ms = 1;
    second.req.ttl_ms = SOON_MS;
    holds(&reader);
    holds(&second);
    queues(&a);
    cr_assert_leq(t.grant.holder_ms, SOON_MS);
    cr_assert_gt(t.grant.holder_ms, 1, "until the last one goes");
    dlt_sleep_ms(SOON_MS + 1);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
}

/* ---- names do not mix ---- */

Test(queue, TRY_7_each_name_has_a_queue_of_its_own)
{
    struct dlt_request away, waits;

    dlt_store_request(&s, &away, "jobs", 'x', 60000);
    dlt_store_request(&s, &waits, "jobs", 'y', 60000);
    holds(&holder);
    holds(&away);
    queues(&a);
    queues(&waits);
    cr_assert_eq(t.grant.queue_position, 0);
    releases(&away);
    state_is("h", 1);
    cr_assert_eq(dlt_store_refresh(&t, &waits), DLOCK_OK);
}
