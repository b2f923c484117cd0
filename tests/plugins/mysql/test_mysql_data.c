/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_shared.c plugins/mysql/schema.c */
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
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("");
    a.req.data_len = 0;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("");
}

/* Who asks again and again for a name that is held writes nothing, in no mode. */
LEASED(DAT_1_a_refusal_leaves_no_row)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
        want_rows("a");
    }
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    want_rows("a");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    want_rows("b");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "%s", s.err.message);
    a.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG, "readers have the limit 1");
    want_rows("b");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("a");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_rows("");
}

/* A poll that finds the name held does not touch the table at all. */
LEASED(DAT_1_a_poll_writes_nothing)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_maria_ask(&server, "RENAME TABLE %sdata TO %smoved", prefix, prefix);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    (void)dlt_maria_ask(&server, "RENAME TABLE %smoved TO %sdata", prefix, prefix);
}

/* A row is written before the name is found to be reserved for a waiter, and goes again. */
LEASED(DAT_1_a_name_that_is_reserved)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_maria_ask(&server,
                        "UPDATE %s%s SET next_token = '0123456789012345',"
                        " next_us = (UNIX_TIMESTAMP(SYSDATE(6)) + 9) * 1000000",
                        prefix, prefix[0] == 'r' ? "names" : "fences");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    want_rows("");
}

/* An adopted lease comes without its data, in an attempt that took nothing. */
LEASED(DAT_1_the_row_of_an_adopted_lease)
{
    struct dlt_request adopted;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_request(&t, &adopted, "job", 'a', 60000);
    cr_assert_eq(dlt_renew(&t, &adopted), DLOCK_OK, "%s", t.err.message);
    want_rows("a");
    cr_assert_eq(dlt_unlock(&t, &adopted), DLOCK_OK, "%s", t.err.message);
    want_rows("");
}

/* A row of a holder that died goes after a day; that of a holder does not. */
static void want_reaped(const char *tokens)
{
    struct dlt_session later; /* of another client */
    struct dlt_request c;

    (void)dlt_maria_ask(&server,
                        "INSERT INTO %sdata VALUES ('job', 'bbbbbbbbbbbbbbbb', 1, 'of b'),"
                        " ('other', 'oooooooooooooooo', 1, 'of o')",
                        prefix);
    (void)dlt_maria_ask(&server, "UPDATE %sdata SET made_us = 1", prefix);
    dlt_session_init(&later, &server);
    dlt_session_option(&later, "strategy", prefix[0] == 'r' ? "row" : "insert");
    dlt_session_option(&later, "table_prefix", prefix);
    dlt_session_option(&later, "create", "0");
    cr_assert_eq(dlt_session_open(&later), DLOCK_OK, "%s", later.err.message);
    dlt_request(&later, &c, "job", 'c', 60000);
    c.req.mode = a.req.mode;
    publish(&c, "of c");
    cr_assert_eq(dlt_try(&later, &c), DLOCK_OK, "%s", later.err.message);
    want_rows(tokens);
    dlt_session_close(&later);
}

LEASED(DAT_1_rows_that_nobody_needs_are_removed)
{
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_reaped("aco");
}

/* A look reads all rows of the name: many holders must not look each time. */
LEASED(DAT_1_a_client_looks_for_old_rows_once_a_minute)
{
    a.req.mode = b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_maria_ask(&server, "INSERT INTO %sdata VALUES ('job', 'oooooooooooooooo', 1, 'of o')",
                        prefix);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    want_rows("abo");
}

LEASED(DAT_1_rows_are_removed_without_the_table_of_permits)
{
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_maria_ask(&server, "DROP TABLE %spermits", prefix);
    want_reaped("aco");
}

/* ---- a table that is not there, or that this user may not read ---- */

static bool note_data(void *arg, const struct dlock_holder *holder)
{
    char *data = arg;

    (void)snprintf(data + strlen(data), 32, "%.*s;", (int)holder->data_len,
                   holder->data != NULL ? (const char *)holder->data : "");
    return false;
}

/* What inspect and list show, as text and prepared: the data of each holder, and a semicolon. */
static void want_shown(struct dlt_session *by, const char *want)
{
    for (int i = 0; i < 3; i++) {
        char data[256] = "";

        cr_assert_eq(by->ops->inspect(by->self, (const unsigned char *)"job", 3,
                                      dlt_host_in(by->shared, 5000), note_data, data, &by->err),
                     DLOCK_OK, "%s", by->err.message);
        cr_assert_str_eq(data, want, "inspect %d", i);
        data[0] = '\0';
        cr_assert_eq(by->ops->list(by->self, (const unsigned char *)"", 0,
                                   dlt_host_in(by->shared, 5000), note_data, data, &by->err),
                     DLOCK_OK, "%s", by->err.message);
        cr_assert_str_eq(data, want, "list %d", i);
    }
}

/* Of another client, with the tables of this test. */
static void other_init(struct dlt_session *other, const char *user, const char *create)
{
    dlt_session_init(other, &server);
    dlt_session_option(other, "strategy", prefix[0] == 'r' ? "row" : "insert");
    dlt_session_option(other, "table_prefix", prefix);
    dlt_session_option(other, "create", create);
    other->target.user = user;
}

/* Rights are given table by table. This user may make tables, and got none on that of the data. */
LEASED(OPN_2_without_rights_on_the_table)
{
    static const char *const tables[] = {"meta", "names", "readers", "permits", "fences"};
    struct dlt_session maker;

    (void)dlt_maria_ask(&server, "CREATE USER IF NOT EXISTS maker IDENTIFIED BY 'secret'");
    (void)dlt_maria_ask(&server, "GRANT CREATE ON %s.* TO maker", dlt_path() + 1);
    for (size_t i = 0; i < 4u + (prefix[0] == 'i'); i++)
        cr_assert_str_eq(dlt_maria_ask(&server,
                                       "GRANT SELECT, INSERT, UPDATE, DELETE ON %s%s TO maker",
                                       prefix, tables[i]),
                         "");
    other_init(&maker, "maker", "1");
    cr_assert_eq(dlt_session_open(&maker), DLOCK_OK, "%s", maker.err.message);
    cr_assert_eq(maker.info.caps & DLOCK_CAP_DATA, 0, "it may not use the table");
    cr_assert_neq(maker.info.caps & DLOCK_CAP_LIMIT, 0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_shown(&maker, ";");
    want_shown(&s, "of a;");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    a.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_shown(&maker, ";");
    dlt_session_close(&maker);
}

/* It has the right to write and none to read: the server shows that the table is there. */
LEASED(OPN_2_without_the_right_to_read_the_table)
{
    static const char *const tables[] = {"meta", "names", "readers", "permits", "fences"};
    struct dlt_session writer;

    (void)dlt_maria_ask(&server, "CREATE USER IF NOT EXISTS writer IDENTIFIED BY 'secret'");
    for (size_t i = 0; i < 4u + (prefix[0] == 'i'); i++)
        cr_assert_str_eq(dlt_maria_ask(&server,
                                       "GRANT SELECT, INSERT, UPDATE, DELETE ON %s%s TO writer",
                                       prefix, tables[i]),
                         "");
    (void)dlt_maria_ask(&server, "GRANT INSERT ON %sdata TO writer", prefix);
    other_init(&writer, "writer", "1");
    cr_assert_eq(dlt_session_open(&writer), DLOCK_OK, "%s", writer.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_shown(&writer, ";");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    a.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&writer);
    cr_assert_eq(dlt_session_open(&writer), DLOCK_OK, "%s", writer.err.message);
    want_shown(&writer, ";");
    dlt_session_close(&writer);
}

/* A connection that is open, with statements that name the table. */
LEASED(DAT_1_the_table_goes)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_shown(&s, "of a;");
    (void)dlt_maria_ask(&server, "DROP TABLE %sdata", prefix);
    want_shown(&s, ";");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* A connection that is open, with statements that do not name the table. */
LEASED(DAT_1_the_table_comes)
{
    struct dlt_session old;

    (void)dlt_maria_ask(&server, "DROP TABLE %sdata", prefix);
    dlt_session_close(&t);
    dlt_session_close(&s);
    other_init(&old, "u", "0");
    cr_assert_eq(dlt_session_open(&old), DLOCK_OK, "%s", old.err.message);
    want_shown(&old, "");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    want_shown(&old, ";");
    cr_assert_eq(
        old.ops->probe(old.self, dlt_host_in(&old.host, 5000), &old.info, NULL, NULL, &old.err),
        DLOCK_OK, "%s", old.err.message);
    cr_assert_neq(old.info.caps & DLOCK_CAP_DATA, 0);
    want_shown(&old, "of a;");
    dlt_session_close(&old);
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
