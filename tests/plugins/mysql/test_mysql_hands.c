/* SPDX-License-Identifier: MIT */
/* What people do to the tables by hand, and a disk that is full: strategy session, whose locks the
 * server itself defends, and what all have in common. test_mysql_faults.c has more on the others.
 */
#include "fault_fixture.h"

#define WAITED "Lock wait timeout exceeded; try restarting transaction"

/* The answer, for an administrator who does not wait for long. */
static const char *by_hand(const char *text)
{
    return dlt_maria_ask(&server,
                         "SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1;"
                         "%s",
                         text);
}

PINNED(C1_a_row_that_is_locked_cannot_be_deleted)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence + s.grant.fence_room;
    cr_assert_str_eq(by_hand("DELETE FROM f_names"), WAITED);
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM f_names"), "1");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "DELETE FROM f_names"), "");
    cr_assert_str_eq(dlt_maria_ask(&server, "DELETE FROM f_fences"), "");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, fence, "the clock goes on");
}

PINNED(a_table_in_use_cannot_be_dropped)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(by_hand("DROP TABLE f_names"), WAITED);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TABLE f_names"), "");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "%s", t.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_CONFIG);
}

PINNED(OPN_1_a_read_only_server)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "SET GLOBAL read_only = 1"), "");
    dlt_request(&t, &b, "another", 'b', 60000);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "no fence, no lock: %s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(dlt_maria_ask(&server, "SET GLOBAL read_only = 0"), "");
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
}

/* Two names in opposite order: nobody loses what it holds, and one of them does not get the other.
 */
PINNED(T63_two_names_in_opposite_order)
{
    struct dlt_request a2, b2;
    struct waiter w1 = {.session = &s, .request = &a2, .timeout_ms = 1500, .native = 1};
    struct dlt_session s2;

    dlt_request(&s, &a, "one", 'a', 60000);
    dlt_request(&s, &a2, "two", 'A', 60000);
    dlt_request(&t, &b, "two", 'b', 60000);
    dlt_request(&t, &b2, "one", 'B', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_session_join(&s2, &s), DLOCK_OK);
    w1.session = &s2;
    waiter_start(&w1);
    cr_assert_eq(dlt_lock(&u, &b2, 1000), DLOCK_TIMEOUT, "%s", u.err.message);
    cr_assert_eq(waiter_join(&w1), DLOCK_TIMEOUT, "%s", s2.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    dlt_session_close(&s2);
}

static void begin_full(const char *strategy)
{
    /* One file for all, which may not grow. */
    server_args =
        (const char *const[]){"--innodb-file-per-table=0",
                              "--innodb-data-file-path=ibdata1:12M:autoextend:max:13M", NULL};
    begin(strategy);
}

/* New names until there is no room for more. */
static enum dlock_status fill(void)
{
    enum dlock_status status = DLOCK_OK;
    char name[256];

    for (int i = 0; i < 50000 && status == DLOCK_OK; i++) {
        (void)snprintf(name, sizeof name, "%0250d", i);
        dlt_request(&t, &b, name, 'b', 60000);
        status = dlt_try(&t, &b);
        if (status == DLOCK_OK)
            status = dlt_unlock(&t, &b);
    }
    return status;
}

#define begin begin_full
EACH(T70_a_disk_that_is_full)
{
    enum dlock_status status = DLOCK_INTERNAL;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    status = fill();
    cr_assert_eq(status, DLOCK_UNAVAILABLE, "%s: %s", dlock_status_name((int)status),
                 t.err.message);
    cr_assert_eq(t.err.code, 1114, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "what is there goes on: %s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_request(&u, &c, "job", 'c', 60000);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}
