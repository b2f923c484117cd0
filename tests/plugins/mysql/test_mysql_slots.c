/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/plugin.c plugins/mysql/row_lease.c plugins/mysql/row_shared.c */
/* Tests: plugins/mysql/statements.c */
/* Tests: plugins/mysql/inspect.c plugins/mysql/session_lock.c */
/* Does each strategy keep the clauses of plugin.h, on a server that behaves? */
#include "my_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_maria server;
static struct dlt_session s, t, u; /* of one client */
static struct dlt_request a, b, c;

static void open_all(const char *strategy, const char *test)
{
    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_strategy(&s, strategy, test);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_join(&u, &s), DLOCK_OK, "%s", u.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&t, &b, "job", 'b', 60000);
    dlt_request(&u, &c, "job", 'c', 60000);
}

static void close_all(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

static int leased(void)
{
    return (s.info.caps & DLOCK_CAP_SESSION) == 0;
}

/* A test for all strategies, each with tables of its own. */
#define CASE(name, tables)           \
    static void name(void);          \
    Test(row, name)                  \
    {                                \
        open_all("row", tables);     \
        name();                      \
        close_all();                 \
    }                                \
    Test(insert, name)               \
    {                                \
        open_all("insert", tables);  \
        name();                      \
        close_all();                 \
    }                                \
    Test(session, name)              \
    {                                \
        open_all("session", tables); \
        name();                      \
        close_all();                 \
    }                                \
    static void name(void)

CASE(OPN_5_capabilities_follow_from_the_strategy, "caps")
{
    uint32_t all = DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE;

    if (leased())
        cr_assert_eq(s.info.caps, all | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_CRASH_SAFE |
                                      DLOCK_CAP_WATCH | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP |
                                      DLOCK_CAP_DATA);
    else
        cr_assert_eq(s.info.caps, all | DLOCK_CAP_SESSION | DLOCK_CAP_NATIVE_WAIT);
    cr_assert_eq(strncmp(s.info.server, "MariaDB 1", 9), 0, "%s", s.info.server);
    cr_assert_str_eq(s.info.endpoint, server.address);
}

/* The clock is behind the fence: a number that was stored counts, not the time. */
CASE(TRY_6_UNL_3_the_fence_rises_without_the_clock, "count")
{
    uint64_t ahead = 0;
    const char *table = strcmp(s.options[1][1], "row") == 0 ? "names" : "fences";

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    ahead = s.grant.fence + 1000000000000U;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "UPDATE %s%s SET fence = %llu", s.options[2][1], table,
                                   (unsigned long long)ahead),
                     "");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_eq(t.grant.fence, ahead + 32);
}

CASE(TRY_7_names_are_bytes, "names")
{
    static const struct {
        const char *bytes;
        uint32_t len;
    } names[] = {{"job", 3},    {"JOB", 3},    {"job ", 4},         {"job\0", 4},
                 {"job\0x", 5}, {"jo\xc3", 3}, {"\xff\xfe\x80", 3}, {"'\"`;--", 6},
                 {"%", 1},      {"jo_", 3},    {"\\", 1},           {"?", 1},
                 {"@n", 2},     {"{names}", 7}};
    struct dlt_request request;
    char longest[255];
    size_t count = 20;
    struct dlt_holder holders[20];

    if (!leased())
        return; /* a session a lock */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        dlt_request(&s, &request, "", (unsigned char)('A' + i), 60000);
        request.req.name = (const unsigned char *)names[i].bytes;
        request.req.name_len = names[i].len;
        cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%zu: %s", i, s.err.message);
    }
    memset(longest, '%', sizeof longest);
    dlt_request(&s, &request, "", 'z', 60000);
    request.req.name = (const unsigned char *)longest;
    request.req.name_len = sizeof longest;
    cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_list(&t, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 15);
    count = 20;
    cr_assert_eq(dlt_list(&t, "%", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2, "a prefix is bytes, too");
}

static const char *reader_rows(const char *prefix)
{
    return dlt_maria_ask(&server, "SELECT COUNT(*) FROM %s_readers", prefix);
}

static void readers_die(const char *strategy)
{
    char prefix[32];

    (void)snprintf(prefix, sizeof prefix, "%s_rdead", strategy);
    dlt_request_shared(&s, &a, "job", 'a', 60000);
    dlt_request_shared(&t, &b, "job", 'b', leased() ? 50 : 60000);
    dlt_request_shared(&u, &c, "job", 'c', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_str_eq(reader_rows(prefix), "2");
    dlt_sleep_ms(200);
    if (!leased()) /* one of them died long ago, and the other has been there for as long */
        cr_assert_str_eq(dlt_maria_ask(&server,
                                       "UPDATE %s_readers SET since_us = 1,"
                                       " conn = IF(LEFT(token, 1) = 'b', 0, conn)",
                                       prefix),
                         "");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_str_eq(reader_rows(prefix), "2", "the dead one's is gone, and no other");
}

CASE(rows_of_dead_readers_go_while_others_read, "rdead")
{
    readers_die(leased() ? strcmp(s.options[1][1], "row") == 0 ? "row" : "insert" : "session");
}

Test(session, break_is_unsupported_and_says_why)
{
    open_all("session", "brk");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_UNSUPPORTED);
    cr_assert(strstr(t.err.message, "KILL") != NULL, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    close_all();
}
