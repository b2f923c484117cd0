/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/data.c plugins/mysql/added_table.c */
/* Are the rows of what holders publish there as long as they are needed, and gone after that? (C24,
 * DAT) */
#include "my_kit.h"
#include "strategies.h"

#include <string.h>
#include <unistd.h>

static struct dlt_maria server;
static struct dlt_session s, t; /* of one client */
static struct dlt_request a, b;
static char prefix[64];
static struct dlt_holder holders[8];
static size_t count;

static void publish(struct dlt_request *request, const char *data)
{
    request->req.data = (const unsigned char *)data;
    request->req.data_len = (uint32_t)strlen(data);
}

static void begin(const char *strategy)
{
    char test[16];

    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    (void)snprintf(test, sizeof test, "d%d", (int)getpid()); /* tables of this test alone */
    dlt_session_init(&s, &server);
    dlt_session_strategy(&s, strategy, test);
    (void)snprintf(prefix, sizeof prefix, "%s_%s_", strategy, test);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&t, &b, "job", 'b', 60000);
    publish(&a, "of a");
    publish(&b, "of b");
}

static void end(void)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

/* The tokens that have a row, one letter each, in their order. */
static void want_rows(const char *tokens)
{
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "SELECT COALESCE(GROUP_CONCAT(LEFT(token, 1) ORDER BY token"
                                   " SEPARATOR ''), '') FROM %sdata",
                                   prefix),
                     tokens);
}

LEASED(DAT_1_the_row_goes_with_the_lease)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("a");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("a");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    want_rows("ab");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("b");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    want_rows("");
    a.req.data_len = 0;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("");
}

/* A row of a request that was given up goes after a day; that of a holder does not. */
LEASED(DAT_1_rows_that_nobody_needs_are_removed)
{
    struct dlt_request c;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    (void)dlt_maria_ask(&server, "UPDATE %sdata SET made_us = 1", prefix);
    dlt_request(&t, &c, "job", 'c', 60000);
    publish(&c, "of c");
    cr_assert_eq(dlt_try(&t, &c), DLOCK_BUSY, "%s", t.err.message);
    want_rows("ac");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "b was not given up");
    want_rows("abc");
}

/* Tables that were made before there were data. */
LEASED(OPN_2_without_the_table)
{
    cr_assert_eq(s.info.caps & DLOCK_CAP_DATA, DLOCK_CAP_DATA);
    (void)dlt_maria_ask(&server, "DROP TABLE %sdata", prefix);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_session_option(&s, "create", "0");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DLOCK_CAP_DATA, 0);
    a.req.data_len = 0;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    for (int i = 0; i < 2; i++) { /* the second time the statement is prepared */
        count = 8;
        cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(count, 1);
    }
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    dlt_session_option(&s, "create", "1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DLOCK_CAP_DATA, DLOCK_CAP_DATA, "the table was made");
}

LEASED(CONFIG_a_table_that_is_another_one)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    (void)dlt_maria_ask(&server, "ALTER TABLE %sdata MODIFY data VARCHAR(16) NOT NULL", prefix);
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "data"), "%s", s.err.message);
    (void)dlt_maria_ask(&server, "DROP TABLE %sdata", prefix);
}
