/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/probe.c plugins/mysql/setup.c */
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
