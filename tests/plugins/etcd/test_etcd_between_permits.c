/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/take.c plugins/etcd/unlock.c */
/* Tests: plugins/etcd/admin.c plugins/etcd/txn.c */
/* Does nobody get a permit of another one by what happens between the question and the Put? */
#include "between_kit.h"

static void open_semaphore(const char *test)
{
    open_all(test);
    a.req.limit = b.req.limit = c.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static void u_takes(void)
{
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(u.grant.permit, 1);
}

Test(between, LIM_1_a_permit_that_another_client_takes_after_it_was_seen)
{
    open_semaphore("seen");
    at(2); /* a lease, the question, and the Put */
    plan.act = u_takes;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 2);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    at(1);
    plan.act = u_takes;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_BUSY);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
    close_all();
}

/* The first one of the queue does not pass what an earlier request of its own has taken. */
Test(between, TRY_4_a_waiter_whose_permit_was_granted_and_not_told)
{
    open_semaphore("granted");
    u_takes();
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    at(1); /* the question, and the Put of the number */
    plan.silent = true;
    cr_assert_eq(refresh(&t, &b), DLOCK_UNKNOWN);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.permit, 0);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    close_all();
}

static void t_is_dropped(void)
{
    (void)dlt_etcd_ask(&server, "del %s/job/" KEY_OF_B, path + 1);
}

Test(between, LIM_1_a_waiter_whose_entry_ends_at_its_turn_takes_no_permit)
{
    open_semaphore("ended");
    u_takes();
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    at(1);
    plan.act = t_is_dropped;
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 1);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.permit, 0);
    close_all();
}

Test(between, KEP_1_a_release_that_kept_and_was_not_told)
{
    open_semaphore("kept");
    a.req.keep_ms = 60000;
    at(1); /* a lease, and the Put */
    plan.silent = true;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNKNOWN);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(keys_count("job/"), 1);
    u_takes();
    close_all();
}

/* The lease that is lost is that of the kept name: the claim is there. */
static void keep_lease_ends(void)
{
    const char *said =
        dlt_etcd_ask(&server, "lease revoke %llx", (unsigned long long)granted_lease);

    cr_assert_not_null(strstr(said, "revoked"), "%s", said);
}

Test(between, UNL_1_a_release_whose_new_lease_ends_before_the_key_has_it)
{
    open_semaphore("ends");
    a.req.keep_ms = 60000;
    at(1);
    plan.act = keep_lease_ends;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 1);
    u_takes();
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    close_all();
}

static void heir_keeps(void)
{
    struct dlt_request heir;

    dlt_request(&u, &heir, "job", 'a', 2000);
    heir.req.limit = a.req.limit;
    heir.req.keep_ms = 60000;
    cr_assert_eq(dlt_unlock(&u, &heir), DLOCK_OK, "%s", u.err.message);
}

/* The owner releases it and keeps it, between the question and the delete. */
static void break_beside_keep(const char *test, uint32_t limit)
{
    open_all(test);
    a.req.limit = b.req.limit = limit;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    at(1);
    plan.act = heir_keeps;
    cr_assert_eq(dlt_break(&t, "job", KEY_OF_A), DLOCK_NOT_HELD, "%s", t.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(keys_count("job/"), 0);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    close_all();
}

Test(between, KEP_1_a_break_of_an_owner_who_keeps_the_name_meanwhile)
{
    break_beside_keep("broken", 1);
}

Test(between, KEP_1_a_break_of_an_owner_who_keeps_the_permit_meanwhile)
{
    break_beside_keep("broken2", 2);
}

/* The client knows only the token, and asks whether it holds the name. */
Test(between, UNL_1_a_name_that_is_kept_after_the_question)
{
    struct dlt_request heir;

    open_semaphore("after");
    dlt_request(&t, &heir, "job", 'a', 2000);
    heir.req.limit = 2;
    at(2); /* its key, those before it, and the delete */
    plan.act = heir_keeps;
    cr_assert_eq(dlt_unlock(&t, &heir), DLOCK_LOST, "%s", t.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 1);
    close_all();
}

/* Somebody is always quicker. */
static void another_puts(void)
{
    (void)dlt_etcd_ask(&server, "put --ignore-value --ignore-lease '%s/job/" KEY_OF_A "'",
                       path + 1);
}

Test(between, C21_a_caller_that_is_always_too_late_gets_its_permit_from_the_queue)
{
    open_semaphore("late");
    exchanges = 0;
    plan.each = another_puts;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.permit, 1);
    cr_assert_geq(exchanges, 5, "%d exchanges", exchanges);
    cr_assert_leq(exchanges, 9, "%d exchanges", exchanges);
    plan.each = NULL;
    cr_assert_eq(keys_count("job/"), 2);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.lease_ms, 60000);
    close_all();
}

static void a_is_dropped(void)
{
    (void)dlt_etcd_ask(&server, "del '%s/job/" KEY_OF_A "'", path + 1);
}

/* The kept name would have had it, for a week at most. */
static void want_no_lease(void)
{
    const char *said =
        dlt_etcd_ask(&server, "lease timetolive %llx", (unsigned long long)granted_lease);

    cr_assert_not_null(strstr(said, "already expired"), "%s", said);
}

Test(between, KEP_1_a_release_that_kept_nothing_leaves_no_lease)
{
    open_semaphore("unkept");
    a.req.keep_ms = 60000;
    at(-1);
    plan.each = another_puts;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert_not_null(strstr(s.err.message, "as fast as it is read"), "%s", s.err.message);
    plan.each = NULL;
    want_no_lease();
    at(2); /* the question, a lease, and the Put */
    plan.down = true;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert_lt(plan.left, 0);
    want_no_lease();
    cr_assert_eq(keys_count("job/"), 1, "the claim");
    at(1); /* a lease, and the Put */
    plan.act = a_is_dropped;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_lt(plan.left, 0);
    want_no_lease();
    close_all();
}

#define CALL_MS     100000
#define EXCHANGE_MS 14000

static void another_puts_slowly(void)
{
    another_puts();
    dlt_host_advance(&t.host, EXCHANGE_MS);
}

/* A transaction that the deadline cuts is in doubt, and ends the connection. */
Test(between, TRY_4_a_try_that_is_always_too_late_ends_before_its_deadline)
{
    open_semaphore("too_late");
    t.call_ms = CALL_MS;
    exchanges = 0;
    plan.each = another_puts_slowly;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    cr_assert_not_null(strstr(t.err.message, "as fast as it is read"), "%s", t.err.message);
    cr_assert_eq(exchanges, 6, "%d exchanges", exchanges);
    plan.each = NULL;
    cr_assert_eq(keys_count("job/"), 1);
    close_all();
}

/* ---- a cluster without space ---- */

/* a holds the name, and has kept it if that is said; from now on transactions are refused. */
static void open_full(const char *test, bool kept)
{
    open_all(test);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    if (kept)
        heir_keeps();
    at(-1);
    plan.refusal = NO_SPACE;
}

Test(between, UNL_1_an_unlock_in_a_cluster_without_space)
{
    open_full("full", false);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_dequeue(&s, &a), DLOCK_OK, "%s", s.err.message);
    plan.refusal = NULL;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    close_all();
}

Test(between, UNL_1_an_unlock_beside_a_keep_in_a_cluster_without_space)
{
    open_full("full_kept", true);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_dequeue(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(keys_count("job/"), 1);
    close_all();
}

/* The transaction may have been executed, and its answer have said the contrary. */
Test(between, UNL_2_a_key_that_has_gone_in_a_cluster_without_space_is_in_doubt_once)
{
    open_full("full_gone", false);
    (void)dlt_etcd_ask(&server, "del %s/job/" KEY_OF_A, path + 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    close_all();
}

static void space_is_made_and_heir_keeps(void)
{
    plan.refusal = NULL;
    heir_keeps();
}

Test(between, UNL_1_a_name_that_is_kept_after_the_read_in_a_cluster_without_space)
{
    open_full("full_late", false);
    plan.left = 2; /* the transaction, the read, and the delete */
    plan.act = space_is_made_and_heir_keeps;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_lt(plan.left, 0);
    close_all();
}

/* Others may put keys meanwhile. */
Test(between, UNL_2_C22_a_refusal_for_another_reason_deletes_nothing)
{
    open_full("rate", false);
    plan.refusal = "rate limit exceeded";
    exchanges = 0;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    cr_assert_eq(exchanges, 1, "the transaction");
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_UNKNOWN, "%s", t.err.message);
    cr_assert_eq(exchanges, 3, "the question, and the transaction");
    cr_assert_eq(keys_count("job/"), 1);
    close_all();
}

Test(between, C22_a_break_in_a_cluster_without_space)
{
    open_full("full_break", false);
    cr_assert_eq(dlt_break(&t, "job", KEY_OF_B), DLOCK_NOT_HELD, "%s", t.err.message);
    cr_assert_eq(keys_count("job/"), 1);
    cr_assert_eq(dlt_break(&t, "job", KEY_OF_A), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(keys_count("job/"), 0);
    plan.refusal = NULL;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    heir_keeps();
    plan.refusal = NO_SPACE;
    cr_assert_eq(dlt_break(&t, "job", KEY_OF_A), DLOCK_NOT_HELD, "%s", t.err.message);
    cr_assert_eq(keys_count("job/"), 1);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(keys_count("job/"), 0);
    close_all();
}

static void key_goes(void)
{
    (void)dlt_etcd_ask(&server, "del %s/job/" KEY_OF_A, path + 1);
}

Test(between, C22_a_break_whose_key_goes_in_a_cluster_without_space)
{
    open_full("full_doubt", false);
    plan.left = 2; /* the question, the transaction, and the question again */
    plan.act = key_goes;
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_UNKNOWN, "%s", t.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_NOT_HELD, "%s", t.err.message);
    close_all();
}
