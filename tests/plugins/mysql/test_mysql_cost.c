/* SPDX-License-Identifier: MIT */
/* What locks cost the server, counted and not timed: exchanges, rows that are read, statements. */
#include "fault_fixture.h"

static unsigned long long counter(const char *name)
{
    const char *text = dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE '%s'", name);

    return strtoull(text + strcspn(text, " "), NULL, 10);
}

/* Of all that the plugin says; of what the test asks nothing. */
static unsigned long long statements(void)
{
    return counter("Com_stmt_execute") + counter("Com_begin") + counter("Com_commit") +
           counter("Com_rollback") + counter("Com_do");
}

/* P9, P10: nothing is said that need not be. */
static void pairs_cost(const char *strategy, unsigned long long each)
{
    enum { PAIRS = 50 };
    unsigned long long before = 0;

    begin(strategy);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK); /* the first time makes rows */
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    before = statements();
    for (int i = 0; i < PAIRS; i++) {
        a.req.token[0]++;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
    cr_assert_eq(statements() - before, PAIRS * each);
    end();
}

Test(cost, a_pair_of_strategy_row_is_two_statements)
{
    pairs_cost("row", 2);
}

Test(cost, a_pair_of_strategy_insert_is_two_and_the_fence)
{
    pairs_cost("insert", 3);
}

/* The row, the fence, the ping that is sent after it, COMMIT. */
Test(cost, a_pair_of_strategy_session_is_four_statements)
{
    pairs_cost("session", 4);
}

/* 100,000 names that somebody locked once, and as many readers who died. */
static void old_names_make(void)
{
    const char *strategy = s.options[1][1];
    const char *names = "INSERT INTO f_names SELECT CONCAT('old ', seq), 1, '', 0, 0, 0, '', '', 0"
                        " FROM seq_1_to_100000";
    const char *readers = "INSERT INTO f_readers (name, token, since_us, until_us, label)"
                          " SELECT CONCAT('old ', seq), 'x', 0, 0, '' FROM seq_1_to_100000";

    if (strcmp(strategy, "insert") == 0)
        names = "INSERT INTO f_fences SELECT CONCAT('old ', seq), 1, '', 0 FROM seq_1_to_100000";
    if (strcmp(strategy, "session") == 0) {
        names = "INSERT INTO f_names SELECT CONCAT('old ', seq) FROM seq_1_to_100000;"
                "INSERT INTO f_fences SELECT CONCAT('old ', seq), 1, '', 0, 0, ''"
                " FROM seq_1_to_100000";
        readers = "INSERT INTO f_readers SELECT CONCAT('old ', seq), 'x', 0, 0, ''"
                  " FROM seq_1_to_100000";
    }
    cr_assert_str_eq(dlt_maria_ask(&server, "%s", names), "");
    cr_assert_str_eq(dlt_maria_ask(&server, "%s", readers), "");
}

EACH(the_cost_of_a_lock_does_not_grow_with_old_names)
{
    unsigned long long rows = 0;
    struct dlt_holder holder;

    old_names_make(); /* may take longer than a session may be silent */
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    rows = counter("Handler_read_rnd_next") + counter("Handler_read_next");
    for (int i = 0; i < 10; i++) {
        size_t count = 1;

        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_inspect(&t, "job", &holder, &count), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        dlt_request_shared(&t, &c, "job", 'c', 60000);
        cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    }
    rows = counter("Handler_read_rnd_next") + counter("Handler_read_next") - rows;
    cr_assert_lt(rows, 20000, "%llu rows were read", rows);
}

LEASED(renewals_of_many_are_one_statement)
{
    enum { MANY = 50 };
    struct dlt_request many[MANY];
    struct dlock_lease_op ops[MANY];
    char names[MANY][16];
    unsigned long long before = 0;

    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job %zu", i);
        dlt_request(&s, &many[i], names[i], (unsigned char)i, 60000);
        cr_assert_eq(dlt_try(&s, &many[i]), DLOCK_OK);
        ops[i] = (struct dlock_lease_op){.req = &many[i].req, .status = DLOCK_INTERNAL};
    }
    before = counter("Com_update") + counter("Com_stmt_execute");
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, MANY, dlt_host_in(&s.host, 5000), &s.err),
                 DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(ops[i].status, DLOCK_OK);
    cr_assert_eq(counter("Com_update") + counter("Com_stmt_execute"), before);
    cr_assert_eq(counter("Com_update_multi"), 1);
}
