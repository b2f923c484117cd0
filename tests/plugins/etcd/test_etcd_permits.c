/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/take.c plugins/etcd/unlock.c */
/* Tests: plugins/etcd/queue.c */
/* Is a permit of a semaphore one holder's only, and does a name that is kept stay taken, also
 * beside waiters, lost leases and programs that know of neither? */
#include "name_kit.h"
#include "permit_calls.h"

#include "lib/text.h"

/* What a program of the first release puts: it knows no limits. */
static void old_puts_as(const char *token, const char *value)
{
    (void)dlt_etcd_ask(&server, "put '%s/job/%s' '%s'", path + 1, token, value);
}

static void old_puts(const char *value)
{
    old_puts_as("0123", value);
}

static void old_deletes(void)
{
    (void)dlt_etcd_ask(&server, "del '%s/job/0123'", path + 1);
}

Test(permits, C21_a_waiter_that_died_at_its_turn_delays_the_others_until_its_entry_ends)
{
    open_semaphore("dead", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    dlt_session_close(&u);
    dlt_session_option(&u, "waiter_lease", "1s");
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    for (int i = 0; i < 1000 && refresh(&s, &d) == DLOCK_BUSY; i++)
        dlt_sleep_ms(10); /* two permits are free, and the one who may choose first says nothing */
    cr_assert_eq(refresh(&s, &d), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.permit, 0);
    cr_assert_eq(refresh(&u, &c), DLOCK_LOST);
    close_all();
}

/* Two keys of programs that know no limits hide those of the semaphore from a lock. */
Test(permits, LIM_1_one_number_whatever_keys_came_last)
{
    open_semaphore("hidden", 3);
    want_permit(&s, &a, 0);
    old_puts_as("0123", "x old");
    old_puts_as("4567", "");
    c.req.limit = 1;
    for (uint32_t mode = DLOCK_EXCLUSIVE; mode <= DLOCK_SHARED; mode++) {
        c.req.mode = mode;
        want_limits_differ(&u, &c, "limit of 3 now, and this user asks for 1;");
    }
    cr_assert_eq(keys_count("job/"), 3, "a refusal leaves no key");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    c.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "now they all say the same");
    queue(&u, &c);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG);
    cr_assert_not_null(strstr(t.err.message, "limit of 1 now, and this user asks for 3;"), "%s",
                       t.err.message);
    close_all();
}

#define READERS 70 /* more than a page */

Test(permits, LIM_1_one_number_far_from_both_ends_of_the_queue)
{
    static struct dlt_request readers[READERS];

    open_semaphore("far", 1);
    for (int i = 0; i < READERS; i++) {
        dlt_request(&s, &readers[i], "job", (unsigned char)i, 60000);
        readers[i].req.token[0] = 1;
        readers[i].req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&s, &readers[i]), DLOCK_OK, "%s", s.err.message);
    }
    (void)dlt_etcd_ask(&server, "put %s/job/between \"$(printf '\\3773 p0 x')\"", path + 1);
    old_puts_as("0123", "");
    old_puts_as("4567", "");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_CONFIG, "%s", u.err.message);
    cr_assert_not_null(strstr(u.err.message, "limit of 3 now, and this user asks for 1;"), "%s",
                       u.err.message);
    cr_assert_eq(try_with(&u, &c, DLOCK_REQ_ENQUEUE), DLOCK_CONFIG, "%s", u.err.message);
    cr_assert_eq(keys_count("job/"), READERS + 3);
    for (int i = 0; i < READERS; i++)
        s.ops->forget(s.self, &readers[i].req);
    close_all();
}

Test(permits, C21_programs_that_know_no_limits_wait_and_keep_permits_out)
{
    open_semaphore("old", 2);
    want_permit(&s, &a, 0);
    old_puts("x old");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "it waits for a lock");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "and has it now");
    old_deletes();
    want_permit(&t, &b, 0);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    old_puts("");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "as etcdctl lock puts it");
    old_deletes();
    close_all();
}

Test(permits, TRY_5_UNL_1_a_token_says_all)
{
    struct dlt_request again, waits;
    struct dlt_holder holders[4];
    size_t count = 4;

    open_semaphore("token", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    dlt_request(&u, &again, "job", 'b', 2000);
    again.req.limit = 2;
    want_permit(&u, &again, 1);
    cr_assert_eq(dlt_renew(&u, &again), DLOCK_OK);
    dlt_request(&t, &waits, "job", 'c', 2000);
    waits.req.limit = 2;
    cr_assert_eq(dlt_unlock(&t, &waits), DLOCK_LOST, "it waits");
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(holders[0].waiters, 1);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(holders[i].limit, 2);
        cr_assert_eq(holders[i].permit, i);
        cr_assert_eq(holders[i].kept, 0);
    }
    u.ops->forget(u.self, &again.req);
    close_all();
}

static void keep(struct dlt_session *session, struct dlt_request *request, int64_t ms)
{
    request->req.keep_ms = ms;
    cr_assert_eq(dlt_unlock(session, request), DLOCK_OK, "%s", session->err.message);
    cr_assert_eq(dlt_unlock(session, request), DLOCK_LOST, "a second time");
    request->req.keep_ms = 0;
    cr_assert_eq(dlt_unlock(session, request), DLOCK_LOST, "and so");
}

Test(keep, UNL_2_by_a_client_that_knows_only_the_token)
{
    struct dlt_request heir;

    open_semaphore("heir", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    dlt_request(&u, &heir, "job", 'b', 2000);
    heir.req.limit = 2;
    keep(&u, &heir, 60000);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_UNAVAILABLE, "somebody changed the key");
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_LOST);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    want_permit(&s, &d, 0);
    close_all();
}

/* It does not renew in between, and does not know of the other user. */
static void two_users(const char *test, uint32_t limit)
{
    struct dlt_request heir;

    open_semaphore(test, limit);
    want_permit(&s, &a, 0);
    dlt_request(&u, &heir, "job", 'a', 2000);
    heir.req.limit = limit;
    keep(&u, &heir, 60000);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(keys_count("job/"), 1, "it stays kept");
    if (limit == 1)
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    else
        want_permit(&t, &b, 1);
    cr_assert_eq(dlt_dequeue(&s, &a), DLOCK_OK);
    cr_assert_eq(keys_count("job/"), (int)limit, "the kept key stays");
    close_all();
}

Test(keep, UNL_1_of_two_users_of_a_lock_one_keeps_the_name_and_the_other_unlocks)
{
    two_users("two", 1);
}

Test(keep, UNL_1_of_two_users_of_a_permit_one_keeps_it_and_the_other_unlocks)
{
    two_users("three", 2);
}

Test(keep, UNL_1_a_token_ends_its_claim_whatever_limit_is_asked_for)
{
    struct dlt_request heir;

    open_semaphore("asked", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    dlt_request(&u, &heir, "job", 'a', 2000);
    cr_assert_eq(dlt_unlock(&u, &heir), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(keys_count("job/"), 1);
    keep(&t, &b, 60000);
    dlt_request(&u, &heir, "job", 'b', 2000);
    cr_assert_eq(dlt_dequeue(&u, &heir), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(keys_count("job/"), 1, "but not what is kept");
    close_all();
}
