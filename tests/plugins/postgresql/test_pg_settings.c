/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/probe.c plugins/postgresql/setup.c */
/* What the settings of a server cost, at open and in the probe. */
#include "pg_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_postgres server;
static struct dlt_session s;

#define DURABILITY (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE)

struct probed {
    char text[8192];
    uint32_t clears;
};

static void probe_note(void *arg, const struct dlock_check *check)
{
    struct probed *probed = arg;
    size_t len = strlen(probed->text);

    probed->clears |= check->clears;
    (void)snprintf(probed->text + len, sizeof probed->text - len, "|%s=%s%s|", check->name,
                   check->found, check->advice != NULL ? "!" : "");
}

static struct probed probed;

static void probe(void)
{
    probed = (struct probed){.clears = 0};
    cr_assert_eq(
        s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, probe_note, &probed, &s.err),
        DLOCK_OK, "%s", s.err.message);
}

static void has(const char *text)
{
    cr_assert(strstr(probed.text, text) != NULL, "no %s in %s", text, probed.text);
}

static void begin(const char *const *args)
{
    cr_assert(dlt_postgres_start(&server, args), "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void end(void)
{
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

Test(settings, C16_probe_tells_what_is_in_force)
{
    begin((const char *[]){NULL});
    probe();
    has("|fsync=on|");
    has("|full_page_writes=on|");
    has("|standby=false|");
    has("|standbys=0|");
    has("|synchronous_standby_names=|");
    has("|transaction_isolation=read committed|");
    has("|pooler=none|");
    has("|idle_session_timeout=0|");
    cr_assert(strchr(probed.text, '!') == NULL, "%s", probed.text);
    cr_assert_eq(probed.clears, 0);
    cr_assert_eq(s.info.caps & DURABILITY, DURABILITY);
    cr_assert(strstr(s.info.server, "PostgreSQL 1") == s.info.server, "%s", s.info.server);
    cr_assert_str_eq(s.info.endpoint, server.address);
    end();
}

Test(settings, OPN_2_a_server_that_does_not_sync_keeps_nothing_over_a_crash)
{
    begin((const char *[]){"-c", "fsync=off", "-c", "full_page_writes=off", NULL});
    cr_assert_eq(s.info.caps & DURABILITY, 0);
    s.info.caps = DURABILITY;
    probe();
    cr_assert_eq(s.info.caps & DURABILITY, 0);
    has("|fsync=off!|");
    has("|full_page_writes=off!|");
    cr_assert_eq(probed.clears, DURABILITY);
    end();
}

/* The functions say it themselves. */
Test(settings, OPN_2_an_asynchronous_commit_as_the_default_costs_nothing)
{
    begin((const char *[]){"-c", "synchronous_commit=off", NULL});
    cr_assert_eq(s.info.caps & DURABILITY, DURABILITY);
    probe();
    has("|synchronous_commit=off|");
    cr_assert_eq(probed.clears, 0);
    end();
}

Test(settings, strategy_session_has_its_own_capabilities)
{
    begin((const char *[]){NULL});
    dlt_session_close(&s);
    dlt_session_strategy(&s, "session", "caps");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps, DLOCK_CAP_SESSION | DLOCK_CAP_NATIVE_WAIT | DLOCK_CAP_RWLOCK |
                                  DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE);
    end();
}
