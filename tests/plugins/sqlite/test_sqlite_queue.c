/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/queue.c */
/* The queue in the file: since when a place is there, and what a grant from it is worth. */
#include "store_kit.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <string.h>

#define LEASE_MS 3000 /* of a place, and of a grant that came unasked */

static char directory[64], path[64];
static struct dlt_store s, t; /* t: of somebody else */
static struct dlt_request holder, a, b, reader, second;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    dlt_store_request(&s, &holder, "job", 'h', 60000);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    dlt_store_request(&s, &reader, "job", 'r', 60000);
    dlt_store_request(&s, &second, "job", 's', 60000);
    reader.req.mode = second.req.mode = DLOCK_SHARED;
}

static void tear_down(void)
{
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

static void releases(struct dlt_request *request)
{
    cr_assert_eq(dlt_store_unlock(&s, request), DLOCK_OK, "%s", s.err.message);
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

/* ---- leaving ---- */

/* ---- readers in the queue ---- */

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

/* ---- names do not mix ---- */
