/* SPDX-License-Identifier: MIT */
/* Servers that are set up so that a transaction begins or ends where nobody asked for it, and
 * others that come at the worst moment. */
#include "fault_fixture.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <mysql.h>

static const char *moment;   /* before a statement with this in it is sent the first time, ... */
static void (*others)(void); /* ... this happens */
static bool hurry;           /* a wait for a row ends after 1 s, and not after a minute */

/* A statement on its way to the server, and what is sent in its place. */
static const char *on_the_way(const char *query, unsigned long length)
{
    static _Thread_local char text[1024];
    const char *end = " FOR UPDATE";
    size_t end_len = strlen(end);

    if (moment != NULL && strstr(query, moment) != NULL) {
        moment = NULL;
        others();
    }
    if (!hurry || length < end_len || strcmp(query + length - end_len, end) != 0)
        return query;
    (void)snprintf(text, sizeof text, "%s WAIT 1", query);
    return text;
}

/* In the place of the library's. */
int mysql_stmt_prepare_start(int *failed, MYSQL_STMT *stmt, const char *query, unsigned long length)
{
    static int (*real)(int *, MYSQL_STMT *, const char *, unsigned long);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "mysql_stmt_prepare_start");
    query = on_the_way(query, length);
    return real(failed, stmt, query, strlen(query));
}

static int kills; /* that were sent */

int mysql_real_query_start(int *failed, MYSQL *mysql, const char *query, unsigned long length)
{
    static int (*real)(int *, MYSQL *, const char *, unsigned long);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "mysql_real_query_start");
    kills += strncmp(query, "KILL", 4) == 0;
    query = on_the_way(query, length);
    return real(failed, mysql, query, strlen(query));
}

static void stop(void)
{
    hurry = false;
    end();
}

static void start(const char *strategy, const char *const *args)
{
    server_args = args;
    begin(strategy);
}

/* C1, C2: the transaction that the row lock lived in is gone with the statement that timed out. */
static void waits_and_holds(const char *argument)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 30000, .native = 1};

    hurry = true;
    start("session", (const char *const[]){argument, NULL});
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    dlt_sleep_ms(2500);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(waiter_join(&w), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "it is another's");
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    stop();
}

Test(session, C1_a_wait_that_times_out_at_the_server_ends_the_transaction)
{
    waits_and_holds("--innodb-rollback-on-timeout");
}

Test(session, C1_a_wait_that_times_out_at_the_server_ends_the_statement)
{
    waits_and_holds("--skip-innodb-rollback-on-timeout");
}

/* C1: what is granted is committed, and what is only looked at is not held. */
static void open_transaction(const char *strategy, const char *init_connect)
{
    start(strategy, (const char *const[]){init_connect, "--completion-type=CHAIN", NULL});
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    if (strcmp(strategy, "session") != 0)
        cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM f_names WHERE until_us > 0"),
                         "1");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    stop();
}

Test(row, C1_a_transaction_that_init_connect_began)
{
    open_transaction("row", "--init-connect=START TRANSACTION");
}

Test(insert, C1_a_transaction_that_init_connect_began)
{
    open_transaction("insert", "--init-connect=START TRANSACTION");
}

Test(session, C1_a_transaction_that_init_connect_began)
{
    open_transaction("session", "--init-connect=START TRANSACTION");
}

/* M9: the server's own patience is shorter than a hold. */
Test(session, T62_short_timeouts_of_the_server_end_no_holder)
{
    start("session", (const char *const[]){"--idle-transaction-timeout=1", "--wait-timeout=1",
                                           "--idle-write-transaction-timeout=1",
                                           "--idle-readonly-transaction-timeout=1", NULL});
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_sleep_ms(2500);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    stop();
}

static struct dlt_session x; /* of another client */
static struct dlt_request d;

static void another_takes_it(void)
{
    dlt_session_init(&x, &server);
    dlt_session_option(&x, "strategy", "session");
    dlt_session_option(&x, "table_prefix", "f_");
    cr_assert_eq(dlt_session_open(&x), DLOCK_OK, "%s", x.err.message);
    dlt_request(&x, &d, "job", 'd', 60000);
    cr_assert_eq(dlt_try(&x, &d), DLOCK_OK, "%s", x.err.message);
}

/* TRY-1, TRY-3: its row has to be made, and another does that first, and holds it. */
Test(session, TRY_1_a_name_that_is_new_to_two)
{
    int64_t begin_ns = 0;

    start("session", (const char *const[]){NULL});
    moment = "INSERT IGNORE";
    others = another_takes_it;
    begin_ns = dlt_host_now(&s.host);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "%s", s.err.message);
    cr_assert_null(moment);
    cr_assert(dlt_within(begin_ns, s.call_ms - 1000), "waited for the holder: %s",
              dlt_within_text());
    cr_assert_eq(dlt_unlock(&x, &d), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&x);
    stop();
}

static void server_stops(void)
{
    dlt_maria_pause(&server, true);
}

/* TRY-4: after a transaction without an end nothing more is sent, and the error says what happened.
 */
LEASED(TRY_4_a_server_that_stops_before_a_new_name_is_made)
{
    dlt_request_shared(&s, &a, "new", 'a', 60000);
    moment = "ROLLBACK";
    others = server_stops;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    dlt_maria_pause(&server, false);
    cr_assert_null(moment);
    cr_assert_str_eq(strchr(s.err.message, ' ') + 1, "the transaction did not end");
}

static void the_row_goes(void)
{
    cr_assert_str_eq(dlt_maria_ask(&server, "DELETE FROM f_names"), "");
}

/* C6: it is broken between the row and the number, which would be above the next holder's. */
Test(insert, C6_no_number_for_who_lost_the_row)
{
    char before[64];

    start("insert", (const char *const[]){NULL});
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)snprintf(before, sizeof before, "%s",
                   dlt_maria_ask(&server, "SELECT fence FROM f_fences"));
    moment = "LAST_INSERT_ID";
    others = the_row_goes;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_null(moment);
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT fence FROM f_fences"), before);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, s.grant.fence);
    stop();
}

Test(insert, C6_no_first_number_for_who_lost_the_row)
{
    start("insert", (const char *const[]){NULL});
    moment = "INSERT INTO `f_fences`";
    others = the_row_goes;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_null(moment);
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM f_fences"), "0");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    stop();
}

static void nobody_is_seen(void)
{
    struct dlt_holder seen;
    size_t count = 1;

    cr_assert_eq(dlt_inspect(&u, "job", &seen, &count), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(count, 0, "%s with %" PRIu64, seen.owner, seen.fence);
    count = 1;
    cr_assert_eq(dlt_list(&u, "", &seen, &count), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(count, 0, "%s with %" PRIu64, seen.owner, seen.fence);
}

static void takes_unseen(void)
{
    struct dlt_holder seen;
    size_t count = 1;

    moment = "LAST_INSERT_ID";
    others = nobody_is_seen;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_null(moment);
    cr_assert_eq(dlt_inspect(&u, "job", &seen, &count), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(seen.fence, s.grant.fence);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

/* C24: who has the row and no number yet is no holder, and not one with the number of the owner
 * before; also where numbers run ahead of the clock. */
Test(insert, C24_no_owner_is_shown_with_the_number_of_the_owner_before)
{
    start("insert", (const char *const[]){NULL});
    takes_unseen();
    reopen(&s);
    takes_unseen();
    cr_assert_str_eq(dlt_maria_ask(&server, "UPDATE f_fences SET fence = fence + 60000000"), "");
    reopen(&s);
    takes_unseen();
    stop();
}

static void dies_unseen(void)
{
    nobody_is_seen();
    cr_assert_str_eq(dlt_maria_ask(&server, "UPDATE f_names SET since_us = since_us - 5000000"
                                            "; KILL USER u"),
                     "");
}

/* ... until it is clear that it does not come back: the name is taken. */
Test(insert, C24_an_owner_that_died_before_its_number_is_shown_at_last)
{
    struct dlt_holder seen;
    size_t count = 1;

    start("insert", (const char *const[]){NULL});
    takes_unseen();
    moment = "LAST_INSERT_ID";
    others = dies_unseen;
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN, "%s", t.err.message);
    reopen(&u);
    cr_assert_eq(dlt_inspect(&u, "job", &seen, &count), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(count, 1);
    cr_assert_gt(seen.fence, s.grant.fence);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "%s", u.err.message);
    stop();
}

/* All connections but those that hold the row and wait for it, as a restart does that went by
 * unseen: the numbers that the next side connection knows may be those of strangers. */
static void sides_end(void)
{
    static const char listing[] =
        "SELECT COALESCE(GROUP_CONCAT(CONCAT('KILL ', id) SEPARATOR ';'), 'DO 0')"
        " FROM information_schema.processlist WHERE user = 'u'"
        " AND id NOT IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx)";
    char orders[256];

    (void)snprintf(orders, sizeof orders, "%s", dlt_maria_ask(&server, "%s", listing));
    cr_assert_str_neq(orders, "DO 0");
    cr_assert_str_eq(dlt_maria_ask(&server, "%s", orders), "");
    dlt_sleep_ms(100);
    reopen(&u);
    dlt_request(&u, &c, "other", 'c', 60000);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

static void wait_ends(bool restart, int kills_then)
{
    struct waiter w = {
        .session = &t, .request = &b, .timeout_ms = restart ? 3000 : 2000, .native = 1};

    start("session", (const char *const[]){NULL});
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_state("%FOR UPDATE", 1);
    if (restart)
        sides_end();
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_eq(kills, kills_then);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    stop();
}

Test(session, C13_who_gives_up_ends_its_wait_at_the_server)
{
    wait_ends(false, 1);
}

Test(session, C13_who_gives_up_ends_no_wait_of_others)
{
    wait_ends(true, 0);
}
