/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/probe.c plugins/postgresql/open.c */
/* What the settings of a server cost, at open and in the probe. */
#include "pg_kit.h"
#include "pgbouncer_server.h"
#include "probed.h"
#include "session.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_postgres server;
static struct dlt_session s;

#define DURABILITY (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE)

static struct dlt_probed probed;

static void probe(void)
{
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
}

static void has(const char *text)
{
    dlt_probed_has(&probed, text);
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
    has("|synchronous_standby_names=none|");
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

Test(settings, probe_tells_who_may_put_something_beside_the_tables)
{
    begin((const char *[]){NULL});
    probe();
    has("|schema open to=none|");
    cr_assert_str_eq(dlt_postgres_ask(&server, "CREATE ROLE other; GRANT u TO other;"
                                               "GRANT CREATE ON SCHEMA public TO least, other"),
                     "");
    probe();
    has("|schema open to=1, such as least!|"); /* the other one is the owner, too */
    cr_assert_str_eq(dlt_postgres_ask(&server, "GRANT CREATE ON SCHEMA public TO PUBLIC"), "");
    probe();
    has("|schema open to=every role!|");
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
    dlt_session_close(&s);
    dlt_session_strategy(&s, "session", "unsynced");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DURABILITY, 0);
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

/* The last moment before the crash, with the role's commits in the memory of the server. */
static void crash(void)
{
    dlt_postgres_kill(&server);
    dlt_session_close(&s);
    cr_assert(dlt_postgres_again(&server), "%s", server.why);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void begin_asynchronous(const char *strategy)
{
    begin((const char *[]){"-c", "wal_writer_delay=10000", NULL});
    dlt_session_close(&s);
    cr_assert_str_eq(dlt_postgres_ask(&server, "ALTER ROLE u SET synchronous_commit = off"), "");
    dlt_session_strategy(&s, strategy, "crash");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(settings, C16_the_lease_outlives_a_crash_of_the_server)
{
    struct dlt_request a, b;

    begin_asynchronous("row");
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "other", 'b', 60000);
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK, "%s", s.err.message);
    crash();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &b), DLOCK_OK, "%s", s.err.message);
    end();
}

/* Also where the clock, which fences are at least, was stepped back meanwhile. */
static void fence_survives(const char *strategy, const char *table)
{
    struct dlt_request a;
    uint64_t fence = 0;
    char kept[32];

    begin_asynchronous(strategy);
    for (int i = 0; i < 3; i++) {
        dlt_request(&s, &a, "job", (unsigned char)('a' + i), 1);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_gt(s.grant.fence, fence);
        fence = s.grant.fence;
        crash();
        (void)snprintf(kept, sizeof kept, "%llu", (unsigned long long)fence);
        cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT fence FROM %s", table), kept);
    }
    end();
}

Test(settings, TRY_6_the_fence_of_a_row_outlives_a_crash_of_the_server)
{
    fence_survives("row", "row_crash_lease");
}

Test(settings, TRY_6_the_fence_of_a_session_outlives_a_crash_of_the_server)
{
    fence_survives("session", "session_crash_session");
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

/* As old applications have it: a backslash begins an escape in every text. */
static void locks_with_escapes(const char *strategy)
{
    struct dlt_request a;

    begin((const char *[]){"-c", "standard_conforming_strings=off", NULL});
    dlt_session_close(&s);
    dlt_session_strategy(&s, strategy, "escapes");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    end();
}

Test(settings, C1_strategy_row_locks_where_a_backslash_begins_an_escape)
{
    locks_with_escapes("row");
}

Test(settings, C1_strategy_session_locks_where_a_backslash_begins_an_escape)
{
    locks_with_escapes("session");
}

/* ---- behind a pooler ---- */

static struct dlt_pgbouncer bouncer;

/* A role whose transactions are SERIALIZABLE, behind a pooler; a session opens with this strategy.
 */
static enum dlock_status begin_pooled(const char *mode, const char *strategy)
{
    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    cr_assert_str_eq(dlt_postgres_ask(&server, "ALTER ROLE u SET default_transaction_isolation = "
                                               "'serializable'; ALTER ROLE u SET lock_timeout = 7"),
                     "");
    cr_assert(dlt_pgbouncer_start(&bouncer, &server, mode, NULL), "%s", bouncer.why);
    dlt_session_init(&s, &server);
    dlt_session_strategy(&s, strategy, "pooled");
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:%u", bouncer.port);
    return dlt_session_open(&s);
}

static void end_pooled(void)
{
    dlt_session_close(&s);
    dlt_pgbouncer_stop(&bouncer);
    end();
}

/* A setting would stay with the server, for other clients of the pooler. */
Test(pooled, nothing_is_set_behind_a_pooler_of_transactions)
{
    struct dlt_session other;
    const struct pg_session *session = NULL;

    cr_assert_eq(begin_pooled("transaction", "row"), DLOCK_OK, "%s", s.err.message);
    session = s.self;
    cr_assert(session->conn.pooled);
    cr_assert(session->conn.isolate);
    probe();
    has("|pooler=one that lends its server to a transaction!|");
    has("|transaction_isolation=serializable!|");
    has("|lock_timeout=7ms|"); /* each call says its own */
    cr_assert_eq(dlt_session_join(&other, &s), DLOCK_OK, "%s", other.err.message);
    dlt_session_close(&other);
    end_pooled();
}

Test(pooled, OPN_1_strategy_session_is_CONFIG_behind_a_pooler_of_transactions)
{
    cr_assert_eq(begin_pooled("transaction", "session"), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "lends its sessions to transactions") != NULL, "%s",
              s.err.message);
    end_pooled();
}

Test(pooled, strategy_session_works_behind_a_pooler_of_sessions)
{
    const struct pg_session *session = NULL;

    cr_assert_eq(begin_pooled("session", "session"), DLOCK_OK, "%s", s.err.message);
    session = s.self;
    cr_assert(session->conn.pooled);
    cr_assert_not(session->conn.isolate);
    probe();
    has("|pooler=one that lends its server to a session|");
    has("|lock_timeout=0|");
    end_pooled();
}
