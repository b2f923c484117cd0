/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/plugin.c plugins/postgresql/row_lease.c */
/* Tests: plugins/postgresql/row_batch.c */
/* Tests: plugins/postgresql/row_inspect.c plugins/postgresql/statements.c */
/* Does strategy row keep the clauses of plugin.h, on a server that behaves? */
#include "row_kit.h"

#define MANY 300

Test(slots, TRY_3_busy_says_how_long_and_writes_nothing)
{
    char before[64];

    open_all("busy");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)snprintf(before, sizeof before, "%s",
                   dlt_postgres_ask(&server, "SELECT ctid, xmin, xmax FROM row_busy_lease"));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        cr_assert_gt(t.grant.holder_ms, 50000);
        cr_assert_leq(t.grant.holder_ms, 60000);
        cr_assert_eq(t.grant.flags, 0);
    }
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT ctid, xmin, xmax FROM row_busy_lease"),
                     before);
    close_all();
}

Test(slots, C11_TRY_7_names_and_labels_are_bytes)
{
    static const char *const names[] = {"a",        "A",  "a ", " a",   "\xff",
                                        "\xc3\x28", "a%", "a_", "\\x61"};
    static struct dlt_request requests[sizeof names / sizeof names[0]];
    static const unsigned char nul[] = {'a', 0, 'b'};
    struct dlt_holder holders[16];
    size_t count = 16;

    open_all("bytes");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        dlt_request(&s, &requests[i], names[i], (unsigned char)('0' + i), 60000);
        requests[i].req.label = "host:1:\xff'\"\\";
        cr_assert_eq(dlt_try(&s, &requests[i]), DLOCK_OK, "%s: %s", names[i], s.err.message);
    }
    a.req.name = nul;
    a.req.name_len = sizeof nul;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_list(&t, "a", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, 5, "%zu", count);
    cr_assert_str_eq(holders[0].label, "host:1:\xff'\"\\");
    count = 16;
    cr_assert_eq(dlt_list(&t, "\xff", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    count = 16;
    cr_assert_eq(dlt_list(&t, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 10);
    close_all();
}

Test(slots, a_list_has_all_names_over_many_pages)
{
    enum { NAMES = 1203 };
    static struct dlt_holder holders[NAMES + 8];
    struct dlt_request request;
    char name[16];
    size_t count = NAMES + 8;

    open_all("pages");
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "p%04d", i);
        dlt_request(&s, &request, name, (unsigned char)(1 + i % 250), 600000);
        request.req.mode = i % 2 == 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
    }
    cr_assert_eq(dlt_list(&t, "p", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, NAMES);
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "p%04d", i);
        cr_assert_str_eq(holders[i].name, name);
    }
    count = 3;
    cr_assert_eq(dlt_list(&t, "p", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 3, "the caller may end it");
    close_all();
}

/* A plan lives as long as the connection, and the table was small when it was made. */
Test(slots, C8_no_plan_reads_a_whole_table)
{
    static const char sql[] = "SELECT idx_scan > 240, seq_scan < 10 FROM pg_stat_user_tables"
                              " WHERE relname = 'row_plans_lease'";
    struct dlt_request request;
    char name[16];

    open_all("plans");
    for (int i = 0; i < 100; i++) {
        if (i == 20) {
            administer("VACUUM ANALYZE row_plans_lease");
            dlt_session_close(&s);
            cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
        }
        (void)snprintf(name, sizeof name, "p%d", i);
        dlt_request(&s, &request, name, (unsigned char)(i + 1), 60000);
        cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(dlt_renew(&s, &request), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &request), DLOCK_OK);
    }
    dlt_session_close(&s); /* the server counts then */
    for (int i = 0; i < 300 && dlt_postgres_ask(&server, sql)[0] != 't'; i++)
        dlt_sleep_ms(10);
    cr_assert_str_eq(dlt_postgres_ask(&server, sql), "t t");
    close_all();
}
