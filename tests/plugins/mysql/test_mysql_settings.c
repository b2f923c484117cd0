/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/probe.c plugins/mysql/open.c */
/* What the settings of a server cost, at open and in the probe. */
#include "my_kit.h"
#include "probed.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_maria server;
static struct dlt_session s;

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

#define DURABILITY (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE)

Test(shared, C16_probe_tells_what_is_in_force)
{
    struct dlt_probed probed;

    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    dlt_probed_has(&probed, "innodb_flush_log_at_trx_commit=1|");
    dlt_probed_has(&probed, "wsrep_on=0|");
    dlt_probed_has(&probed, "read_only=0|");
    dlt_probed_has(&probed, "session +00:00|");
    cr_assert_eq(probed.clears, 0);
    tear_down();
}

/* Servers of their own: the setting is everybody's. What `open` says (C16), then the probe. */
static void flush_setting(const char *value, uint32_t costs)
{
    struct dlt_probed probed;
    char argument[64], finding[64];

    (void)snprintf(argument, sizeof argument, "--innodb-flush-log-at-trx-commit=%s", value);
    (void)snprintf(finding, sizeof finding, "innodb_flush_log_at_trx_commit=%s!|", value);
    cr_assert(dlt_maria_start(&server, (const char *[]){argument, NULL}), "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DURABILITY, DURABILITY & ~costs);
    s.info.caps = DURABILITY;
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DURABILITY, DURABILITY & ~costs);
    dlt_probed_has(&probed, finding);
    cr_assert_eq(probed.clears, costs);
    tear_down();
}

Test(own, C16_a_server_that_does_not_sync_has_no_durable_fence)
{
    flush_setting("2", DLOCK_CAP_FENCE_DURABLE);
}

/* The log is in the memory of the server's process for up to a second. */
Test(own, C16_a_server_that_does_not_write_its_log_is_not_crash_safe)
{
    flush_setting("0", DURABILITY);
}

/* A renewal of many leases is longer, and would be as long the next time. */
static void short_statements(const char *net_buffer)
{
    cr_assert(
        dlt_maria_start(&server, (const char *[]){"--max-allowed-packet=1024", net_buffer, NULL}),
        "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "max_allowed_packet") != NULL, "%s", s.err.message);
    tear_down();
}

Test(own, C16_a_server_that_takes_short_statements_only)
{
    short_statements(NULL);
    short_statements("--net-buffer-length=1024");
}

static void own(const char *strategy, const char *const *args)
{
    cr_assert(dlt_maria_start(&server, args), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "strategy", strategy);
}

/* InnoDB refuses each change then (1665), and the wait for the lock would say so each time. */
static void log_of_statements(const char *strategy)
{
    struct dlt_probed probed;

    own(strategy,
        (const char *const[]){"--log-bin", "--server-id=1", "--binlog-format=STATEMENT", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "SET GLOBAL binlog_format=ROW") != NULL, "%s", s.err.message);
    dlt_session_close(&s);
    cr_assert_str_eq(dlt_maria_ask(&server, "SET GLOBAL binlog_format=MIXED"), "");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(dlt_maria_ask(&server, "SET GLOBAL binlog_format=STATEMENT"), "");
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    dlt_probed_has(&probed, "binlog_format=1!|");
    tear_down();
}

Test(own, OPN_1_a_log_of_statements)
{
    log_of_statements("row");
    log_of_statements("insert");
    log_of_statements("session");
}

/* The server takes changes of a database that is not in the log. */
static void left_out_of_the_log(const char *strategy)
{
    struct dlt_request a;

    own(strategy, (const char *const[]){"--log-bin", "--server-id=1", "--binlog-format=STATEMENT",
                                        "--binlog-ignore-db=locks", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    tear_down();
}

Test(own, OPN_1_a_log_of_statements_of_other_databases)
{
    left_out_of_the_log("row");
    left_out_of_the_log("insert");
    left_out_of_the_log("session");
}

/* Another database, another dialect of SQL, and answers that are cut. */
static void others_settings(const char *strategy)
{
    struct dlt_holder seen = {.name = ""};
    struct dlt_request a;
    size_t count = 1;

    own(strategy, (const char *const[]){"--init-connect=USE information_schema",
                                        "--sql-mode=ORACLE,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,"
                                        "HIGH_NOT_PRECEDENCE,IGNORE_SPACE,PAD_CHAR_TO_FULL_LENGTH",
                                        "--group-concat-max-len=16", NULL});
    for (int i = 0; i < 2; i++) { /* makes the tables, then checks them */
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
        dlt_request(&s, &a, "job", 'a', 60000);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        if (strcmp(strategy, "session") != 0) /* which would find its own row free */
            cr_assert_eq(dlt_inspect(&s, "job", &seen, &count), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(count, 1);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
        dlt_session_close(&s);
    }
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM locks.dlock_names"),
                     strcmp(strategy, "insert") == 0 ? "0" : "1");
    tear_down();
}

Test(own, C16_what_a_session_would_inherit_does_not_matter)
{
    others_settings("row");
    others_settings("insert");
    others_settings("session");
}
