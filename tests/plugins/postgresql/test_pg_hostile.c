/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_lease.c plugins/postgresql/row_batch.c */
/* Tests: plugins/postgresql/schema.c */
/* What becomes of leases when others lock, delete and drop what dlock keeps, when defaults are
 * hostile, and when the server crashes? */
#include "sitter.h"

#include <stdlib.h>

#define CRASHES 4

/* ---- somebody sits on a row ---- */

Test(hostile, C4_C8_somebody_sits_on_the_row)
{
    pthread_t sitter;
    int64_t start = 0;

    open_all("sit");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    sitter = sit("sit_lease");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "a held name is read without a lock");
    cr_assert_gt(t.grant.holder_ms, 50000);
    start = dlt_host_now(&s.host);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE,
                 "the server gives up: nothing has happened");
    cr_assert_not_null(strstr(s.err.message, "lock timeout"), "%s", s.err.message);
    cr_assert(dlt_host_within(&s.host, start, 4000), "%s", dlt_within_text());
    sit_end(sitter, "sit_lease");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    sitter = sit("sit_lease");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "a free name that cannot be had now");
    cr_assert_not_null(strstr(t.err.message, "lock timeout"), "%s", t.err.message);
    sit_end(sitter, "sit_lease");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    close_all();
}

/* BUSY without QUEUED would say that the attempt is over. */
Test(hostile, C13_a_waiter_keeps_its_place_while_somebody_sits_on_the_row)
{
    pthread_t sitter;

    open_all("place");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    sitter = sit("place_lease");
    cr_assert_eq(refresh(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    sit_end(sitter, "place_lease");
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(t.grant.queue_position, 0);
    close_all();
}

static void renew_beside(const char *table, uint32_t mode)
{
    struct dlt_request requests[3];
    struct dlock_lease_op ops[3];
    static const char *const names[] = {"aaa", "job", "zzz"};
    struct dlt_holder holder;
    size_t count = 1;
    pthread_t sitter;

    for (int i = 0; i < 3; i++) {
        dlt_request(&s, &requests[i], names[i], (unsigned char)(i + 1), 10000);
        requests[i].req.mode = mode;
        cr_assert_eq(dlt_try(&s, &requests[i]), DLOCK_OK);
        requests[i].req.ttl_ms = 60000;
        requests[i].req.deadline_ns = dlt_host_in(&s.host, 5000);
        ops[i].req = &requests[i].req;
    }
    sitter = sit(table);
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 3, dlt_host_in(&s.host, 1000), &s.err),
                 DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_UNAVAILABLE);
    cr_assert_eq(ops[2].status, DLOCK_OK);
    cr_assert_eq(dlt_inspect(&t, "zzz", &holder, &count), DLOCK_OK);
    cr_assert_gt(holder.remaining_ms, 50000);
    sit_end(sitter, table);
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 3, dlt_host_in(&s.host, 5000), &s.err),
                 DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_OK);
}

Test(hostile, REN_1_C14_somebody_sits_on_the_row_of_another_name)
{
    open_all("others");
    renew_beside("others_lease", DLOCK_EXCLUSIVE);
    close_all();
}

Test(hostile, REN_1_C14_somebody_sits_on_the_row_of_a_reader)
{
    open_all("shares");
    renew_beside("shares_reader", DLOCK_SHARED);
    close_all();
}

/* ---- rows and tables that go ---- */

Test(hostile, C6_rows_are_deleted_under_a_holder)
{
    uint64_t last = 0;

    open_all("delete");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    queue(&t, &b);
    queue(&u, &c);
    administer("DELETE FROM row_delete_lease");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "the waiters are known, and one is granted");
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, last);
    dlt_request(&s, &a, "job", 'n', 60000);
    queue(&s, &a);
    cr_assert_eq(s.grant.queue_position, 1);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    close_all();
}

Test(hostile, C1_the_row_of_a_name_is_deleted_under_readers)
{
    open_all("under");
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    administer("DELETE FROM row_under_lease");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "the reader is known");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    close_all();
}

Test(hostile, C6_tables_are_truncated_under_a_holder)
{
    uint64_t last = 0;

    open_all("empty");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    queue(&t, &b);
    administer("TRUNCATE row_empty_lease, row_empty_queue, row_empty_reader");
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST, "its attempt is over, and it asks again");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, last);
    close_all();
}

Test(hostile, OPN_1_tables_are_dropped_under_a_holder)
{
    open_all("drop");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    administer("DROP TABLE row_drop_lease");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_CONFIG);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG);
    cr_assert_not_null(strstr(t.err.message, "row_drop_lease"), "%s", t.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "a new connection makes them: %s",
                 t.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    close_all();
}

Test(hostile, functions_are_dropped_and_replaced_under_a_holder)
{
    open_all("function");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    administer("DROP FUNCTION row_function_release");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_CONFIG);
    cr_assert_not_null(strstr(s.err.message, "row_function_release"), "%s", s.err.message);
    dlt_session_close(&s);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    administer("DROP FUNCTION row_function_release; "
               "CREATE FUNCTION row_function_release(n bytea, t bytea, is_shared boolean, queued "
               "boolean, patience bigint, OUT result text) LANGUAGE sql AS 'SELECT ''x'''");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_CONFIG);
    dlt_session_close(&t);
    t.shared = &t.host; /* another client, which has not checked the tables yet */
    cr_assert_eq(dlt_session_open(&t), DLOCK_CONFIG);
    cr_assert_not_null(strstr(t.err.message, "of another version"), "%s", t.err.message);
    close_all();
}

/* ---- a crash ---- */

/* What dlock was told is there, although the role's commits do not wait for the disk. */
Test(hostile, CRASH_SAFE_C16_leases_grants_and_fences_outlive_a_crash)
{
    struct dlt_holder holder;
    uint64_t last = 0;

    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    administer("ALTER ROLE u SET synchronous_commit = off");
    open_all("crash");
    for (int i = 0; i < CRASHES; i++) {
        size_t count = 1;

        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_gt(s.grant.fence, last);
        last = s.grant.fence + s.grant.fence_room;
        restart();
        cr_assert_eq(dlt_inspect(&t, "job", &holder, &count), DLOCK_OK);
        cr_assert_eq(count, 1, "a lease that was given is there");
        a.req.ttl_ms = 120000;
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
        restart();
        cr_assert_eq(dlt_inspect(&t, "job", &holder, &count), DLOCK_OK);
        cr_assert_gt(holder.remaining_ms, 60000, "a renewal, too");
        b.req.ttl_ms = 60000;
        queue(&t, &b);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        restart();
        cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "and a grant to a waiter");
        last += 32;
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
        a.req.ttl_ms = 60000;
        restart(); /* it may be held again, by nobody who would renew it */
        (void)dlt_break(&t, "job", NULL);
    }
    close_all();
}
