/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_shared.c plugins/mysql/schema.c */
/* Are there never more holders than the limit says, is what is kept nobody's, and do programs that
 * know no permits keep out of such names? (C21, C22, LIM, KEP) */
#include "my_kit.h"
#include "strategies.h"

#include <string.h>
#include <unistd.h>

static struct dlt_maria server;
static struct dlt_session s, t; /* of one client */
static struct dlt_request a, b, c;
static char prefix[64];
static struct dlt_holder holders[8];
static size_t count;

#define NOW "TIMESTAMPDIFF(MICROSECOND,TIMESTAMP'1970-01-01 00:00:00',UTC_TIMESTAMP(6))"

#define TAKEN                                         \
    "SELECT COUNT(*) FROM %snames WHERE name = 'job'" \
    " AND (until_us > " NOW " OR readers_us > " NOW ")"

static void permit_request(struct dlt_session *session, struct dlt_request *request,
                           unsigned char owner)
{
    dlt_request(session, request, "job", owner, 60000);
    request->req.limit = 2;
}

static void client_open(const char *strategy)
{
    char test[16];

    (void)snprintf(test, sizeof test, "p%d", (int)getpid()); /* tables of this test alone */
    dlt_session_init(&s, &server);
    dlt_session_strategy(&s, strategy, test);
    (void)snprintf(prefix, sizeof prefix, "%s_%s_", strategy, test);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
}

static void begin(const char *strategy)
{
    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    client_open(strategy);
    permit_request(&s, &a, 'a');
    permit_request(&s, &b, 'b');
    permit_request(&t, &c, 'c');
}

static void end(void)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

static void inspect(size_t want)
{
    count = 8;
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, want, "%zu holders, want %zu", count, want);
}

/* A client that finds the tables in the middle of their making would have no semaphores. */
Test(table, OPN_2_is_there_before_the_tables_count_as_made)
{
    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    (void)dlt_maria_ask(&server, "SET GLOBAL log_output = 'TABLE', general_log = ON");
    client_open("row");
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "SELECT (SELECT MIN(event_time) FROM mysql.general_log WHERE"
                                   " argument LIKE 'CREATE TABLE IF NOT EXISTS _%spermits%%')"
                                   " < (SELECT MIN(event_time) FROM mysql.general_log WHERE"
                                   " argument LIKE 'INSERT IGNORE INTO _%smeta%%')",
                                   prefix, prefix),
                     "1");
    (void)dlt_maria_ask(&server, "SET GLOBAL general_log = OFF");
    end();
}

/* Locks and permits in one renewal. */
LEASED(REN_1_many_together)
{
    struct dlt_request lock;
    struct dlock_lease_op ops[3];

    dlt_request(&s, &lock, "lock", 'l', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &lock), DLOCK_OK);
    ops[0] = (struct dlock_lease_op){.req = dlt_due(&s, &a, 5000)};
    ops[1] = (struct dlock_lease_op){.req = dlt_due(&s, &b, 5000)}; /* was never taken */
    ops[2] = (struct dlock_lease_op){.req = dlt_due(&s, &lock, 5000)};
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 3, a.req.deadline_ns, &s.err), DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_LOST);
    cr_assert_eq(ops[2].status, DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &lock), DLOCK_OK);
}

/* As the first programs break a name, whatever it is: by its row alone. */
static void break_as_the_first(void)
{
    (void)dlt_maria_ask(&server, "UPDATE %snames SET until_us = 0, token = '' WHERE name = 'job'",
                        prefix);
}

/* How the first programs take a name, and break it: they know two tables, and no permits. */
LEASED(C1_a_program_that_knows_no_permits)
{
    struct dlt_request lock;

    dlt_request(&t, &lock, "job", 'l', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, TAKEN, prefix), "1", "the name is taken for it");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, TAKEN, prefix), "1", "one permit is left");
    break_as_the_first();
    cr_assert_eq(dlt_try(&t, &lock), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "two would hold the name");
    cr_assert_eq(dlt_try(&s, &b), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&t, &lock), DLOCK_OK, "a permit that is lost touches nothing");
    cr_assert_eq(dlt_unlock(&t, &lock), DLOCK_OK);
}

/* What such a program ended stays ended, also when the name has permits again. */
LEASED(BRK_1_broken_permits_do_not_come_back)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    break_as_the_first();
    cr_assert_eq(dlt_try(&t, &c), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.permit, 0, "permit %u: all were free", t.grant.permit);
    inspect(1);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_renew(&s, &b), DLOCK_LOST);
    cr_assert_eq(dlt_renew(&t, &c), DLOCK_OK);
}

/* Both ways: the next holder takes a permit, or keeps a lock. */
LEASED(KEP_1_BRK_1_a_broken_kept_name_does_not_come_back)
{
    struct dlt_request lock, next;

    dlt_request(&s, &lock, "job", 'l', 60000);
    dlt_request(&t, &next, "job", 'n', 60000);
    lock.req.keep_ms = 300000;
    next.req.keep_ms = 30000;
    cr_assert_eq(dlt_try(&s, &lock), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &lock), DLOCK_OK, "%s", s.err.message);
    break_as_the_first();
    cr_assert_eq(dlt_try(&t, &next), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &next), DLOCK_OK, "%s", t.err.message);
    inspect(1);
    cr_assert_eq(holders[0].kept, 1);
    cr_assert_leq(holders[0].remaining_ms, 30000, "until %lld ms",
                  (long long)holders[0].remaining_ms);
    break_as_the_first();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.permit, 0);
    inspect(1);
    cr_assert_eq(holders[0].kept, 0);
}

/* Tables that were made before there were permits. */
LEASED(OPN_2_without_the_table)
{
    const uint32_t both = DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP;
    struct dlt_request lock;

    cr_assert_eq(s.info.caps & both, both);
    (void)dlt_maria_ask(&server, "DROP TABLE %spermits", prefix);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_session_option(&s, "create", "0");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & both, 0);
    dlt_request(&s, &lock, "job", 'l', 60000);
    cr_assert_eq(dlt_try(&s, &lock), DLOCK_OK, "%s", s.err.message);
    count = 8;
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(dlt_unlock(&s, &lock), DLOCK_OK);
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_NOT_HELD);
    dlt_session_close(&s);
    dlt_session_option(&s, "create", "1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & both, both, "the table was made");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

/* Rights are given table by table: this user has those of before there were permits. */
static void few_open(struct dlt_session *few, const char *strategy)
{
    static const char *const tables[] = {"meta", "names", "readers", "fences"};

    (void)dlt_maria_ask(&server, "CREATE USER IF NOT EXISTS few IDENTIFIED BY 'secret'");
    for (size_t i = 0; i < 3u + (strategy[0] == 'i'); i++)
        cr_assert_str_eq(dlt_maria_ask(&server,
                                       "GRANT SELECT, INSERT, UPDATE, DELETE ON %s%s TO few",
                                       prefix, tables[i]),
                         "");
    dlt_session_init(few, &server);
    dlt_session_option(few, "strategy", strategy);
    dlt_session_option(few, "table_prefix", prefix);
    few->target.user = "few";
    cr_assert_eq(dlt_session_open(few), DLOCK_OK, "%s", few->err.message);
    cr_assert_eq(few->info.caps & (DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP), 0);
}

static void few_sees_it(struct dlt_session *few)
{
    for (int list = 0; list < 2; list++) {
        count = 8;
        cr_assert_eq(list ? dlt_list(few, "", holders, &count)
                          : dlt_inspect(few, "job", holders, &count),
                     DLOCK_OK, "%s", few->err.message);
        cr_assert_eq(count, 1, "%zu holders", count);
        cr_assert_str_eq(holders[0].name, "job");
        cr_assert_str_eq(holders[0].owner, "");
        cr_assert_str_eq(holders[0].label, "");
        cr_assert_gt(holders[0].fence, 0);
        cr_assert_gt(holders[0].remaining_ms, 50000);
        cr_assert_eq(holders[0].held_ms, -1);
    }
}

/* To a user that may not read the table such a name is one that is taken. */
LEASED(TRY_3_LIM_1_without_rights_on_the_table)
{
    struct dlt_session few;
    struct dlt_request lock;

    few_open(&few, prefix[0] == 'r' ? "row" : "insert");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_request(&few, &lock, "job", 'l', 60000);
    for (int i = 0; i < 4; i++) { /* the second time is another path, and a statement prepared */
        cr_assert_eq(dlt_try(&few, &lock), DLOCK_BUSY, "%s", few.err.message);
        cr_assert_gt(few.grant.holder_ms, 50000);
    }
    lock.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&few, &lock), DLOCK_BUSY, "%s", few.err.message);
    few_sees_it(&few);
    cr_assert_eq(dlt_break(&few, "job", NULL), DLOCK_AUTH, "%s", few.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&few, &lock), DLOCK_OK, "%s", few.err.message);
    cr_assert_eq(dlt_unlock(&few, &lock), DLOCK_OK, "%s", few.err.message);
    dlt_session_close(&few);
}

LEASED(CONFIG_a_table_that_is_another_one)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    (void)dlt_maria_ask(&server, "ALTER TABLE %spermits MODIFY token VARCHAR(16) NOT NULL", prefix);
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "permits"), "%s", s.err.message);
    (void)dlt_maria_ask(&server, "DROP TABLE %spermits", prefix);
}
