/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/probe.c plugins/mysql/setup.c */
/* What the settings of a server cost, at open and in the probe. */
#include "my_kit.h"

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

struct probed {
    char text[4096];
    uint32_t clears;
};

static void probe_note(void *arg, const struct dlock_check *check)
{
    struct probed *probed = arg;
    size_t len = strlen(probed->text);

    probed->clears |= check->clears;
    (void)snprintf(probed->text + len, sizeof probed->text - len, "%s=%s%s|", check->name,
                   check->found, check->advice != NULL ? "!" : "");
}

Test(shared, C16_probe_tells_what_is_in_force)
{
    struct probed probed = {.clears = 0};

    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(
        s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, probe_note, &probed, &s.err),
        DLOCK_OK, "%s", s.err.message);
    cr_assert(strstr(probed.text, "innodb_flush_log_at_trx_commit=1|") != NULL, "%s", probed.text);
    cr_assert(strstr(probed.text, "wsrep_on=0|") != NULL, "%s", probed.text);
    cr_assert(strstr(probed.text, "read_only=0|") != NULL, "%s", probed.text);
    cr_assert(strstr(probed.text, "session +00:00|") != NULL, "%s", probed.text);
    cr_assert_eq(probed.clears, 0);
    tear_down();
}

/* Servers of their own: the setting is everybody's. What `open` says (C16), then the probe. */
static void flush_setting(const char *value, uint32_t costs)
{
    struct probed probed = {.clears = 0};
    char argument[64], finding[64];

    (void)snprintf(argument, sizeof argument, "--innodb-flush-log-at-trx-commit=%s", value);
    (void)snprintf(finding, sizeof finding, "innodb_flush_log_at_trx_commit=%s!|", value);
    cr_assert(dlt_maria_start(&server, (const char *[]){argument, NULL}), "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DURABILITY, DURABILITY & ~costs);
    s.info.caps = DURABILITY;
    cr_assert_eq(
        s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, probe_note, &probed, &s.err),
        DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DURABILITY, DURABILITY & ~costs);
    cr_assert(strstr(probed.text, finding) != NULL, "%s", probed.text);
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
