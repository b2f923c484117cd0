/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/schema.c plugins/postgresql/probe.c plugins/postgresql/statements.c */
/* Tables and functions of an earlier release: used as they are, or brought up to date under locks.
 */
#include "pg_kit.h"
#include "queue_calls.h"

#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define ADDED (DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP)
#define OLD   PLUGIN "/../../tests/plugins/postgresql/row_functions_1.sql"

/* Tests run side by side: two GRANTs on one schema end with "tuple concurrently updated". */
#define ALONE "DO $do$ BEGIN PERFORM pg_advisory_xact_lock(7); END $do$; "

static struct dlt_postgres server;
static struct dlt_session s, t;
static struct dlt_request a, b;

static void client_init(struct dlt_session *session, const char *test, const char *create)
{
    char prefix[33];

    (void)snprintf(prefix, sizeof prefix, "%s_", test);
    dlt_session_init(session, &server);
    dlt_session_option(session, "table_prefix", prefix);
    dlt_session_option(session, "create", create);
    dlt_request(session, session == &s ? &a : &b, "job", session == &s ? 'a' : 'b', 60000);
}

static void ask(const char *sql, const char *want)
{
    const char *answer = dlt_postgres_ask(&server, "%s", sql);

    cr_assert_str_eq(answer, want, "%s: %s", sql, answer);
}

/* What an owner has made with this file, changed in this way by sed. */
static void begin_with(const char *test, const char *file, const char *change)
{
    char command[640];

    if (server.port == 0)
        cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    (void)snprintf(
        command, sizeof command,
        "sed 's/public\\.dlock_/public.%s_/g; %s' %s"
        " | PGPASSWORD=secret psql -X -q -v ON_ERROR_STOP=1 -o /dev/null -h %s -p %u -U u"
        " -f - locks",
        test, change, file, server.directory, server.port);
    cr_assert_eq(system(command), 0, "%s", command);
}

static void begin(const char *test)
{
    begin_with(test, OLD, "");
}

static void end(void)
{
    if (s.self != NULL && s.ops->forget != NULL) /* strategy session has none */
        s.ops->forget(s.self, &a.req);
    if (t.self != NULL && t.ops->forget != NULL)
        t.ops->forget(t.self, &b.req);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

static void opened(struct dlt_session *session, uint64_t caps)
{
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
    cr_assert_eq(session->info.caps & ADDED, caps, "capabilities %#x", session->info.caps);
}

/* Lock, queue, grant, inspect and list, between s and t. */
static void locks_work(void)
{
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    queue(&t, &b);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(dlt_list(&s, "", &holder, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
}

static bool found_outdated;

static bool check_see(void *arg, const struct dlock_check *check)
{
    (void)arg;
    if (strcmp(check->name, "functions") != 0)
        return false;
    found_outdated = check->advice != NULL;
    cr_assert(check->clears == 0 || (found_outdated && check->clears == ADDED));
    return false;
}

static bool probe_says_outdated(void)
{
    found_outdated = false;
    cr_assert_eq(
        s.ops->probe(s.self, dlt_host_in(s.shared, s.call_ms), &s.info, check_see, NULL, &s.err),
        DLOCK_OK, "%s", s.err.message);
    return found_outdated;
}

Test(upgrade, OPN_2_with_create_off_they_are_used_as_they_are)
{
    begin("asis");
    client_init(&s, "asis", "0");
    client_init(&t, "asis", "0");
    opened(&s, 0);
    opened(&t, 0);
    locks_work();
    cr_assert(probe_says_outdated());
    ask("SELECT count(*) FROM pg_attribute WHERE attrelid = 'asis_lease'::regclass"
        " AND attname = 'lim'",
        "0");
    end();
}

Test(upgrade, OPN_4_with_create_they_are_brought_up_to_date_under_a_lock)
{
    uint64_t fence = 0;

    begin("under");
    client_init(&s, "under", "0");
    client_init(&t, "under", "1");
    opened(&s, 0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    opened(&t, ADDED);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, fence);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    locks_work(); /* of a client that knew the old ones, and one that made the new ones */
    cr_assert_not(probe_says_outdated());
    cr_assert_eq(s.info.caps & ADDED, ADDED);
    end();
}

/* The earlier release calls the functions with the same parameters. It must not pass a permit. */
Test(upgrade, LIM_1_a_client_of_the_earlier_release_waits_for_permits)
{
    begin("mixed");
    client_init(&t, "mixed", "1");
    opened(&t, ADDED);
    b.req.limit = 2;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    for (int shared = 0; shared < 2; shared++) {
        for (int what = 0; what < 2; what++) {
            const char *answer = dlt_postgres_ask(&server,
                                                  "SELECT result IN (1, 2) FROM mixed_take('job', "
                                                  "'\\x6161', %d <> 0, 60000, %d, 3000,"
                                                  " 'nowhere', '', 0)",
                                                  shared, what);

            cr_assert_str_eq(answer, "f", "%s", answer);
        }
    }
    end();
}

Test(upgrade, OPN_2_a_role_that_does_not_own_them_goes_on)
{
    char command[160];

    begin("alien");
    ask("GRANT SELECT ON alien_meta TO least;"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON alien_lease, alien_reader, alien_queue TO least",
        "");
    client_init(&s, "alien", "1");
    client_init(&t, "alien", "1");
    s.target.user = t.target.user = "least";
    s.target.password = t.target.password = "least";
    opened(&s, 0);
    opened(&t, 0);
    locks_work();
    (void)snprintf(command, sizeof command, "grep -q 'CREATE .*alien_' %s/log", server.directory);
    cr_assert_neq(system(command), 0, "a script that is refused is in the server's log");
    end();
}

#define MAY_CALL                                                              \
    "SELECT count(*) FROM pg_proc WHERE starts_with(proname, 'rights_') AND " \
    "has_function_privilege('%s', oid, 'EXECUTE')"

static void may_call(const char *role, const char *want)
{
    char sql[256];

    (void)snprintf(sql, sizeof sql, MAY_CALL, role);
    ask(sql, want);
}

/* Where new functions are for nobody but their owner. */
Test(upgrade, OPN_4_the_rights_of_an_application_stay)
{
    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    ask("ALTER DEFAULT PRIVILEGES FOR ROLE u REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;"
        "CREATE ROLE nobody",
        "");
    begin("rights");
    ask("GRANT SELECT ON rights_meta TO least;"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON rights_lease, rights_reader, rights_queue TO "
        "least;"
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO least",
        "");
    may_call("least", "5");
    client_init(&s, "rights", "0");
    client_init(&t, "rights", "1");
    s.target.user = s.target.password = "least";
    opened(&s, 0);
    opened(&t, ADDED);
    may_call("least", "11");
    may_call("nobody", "0");
    locks_work();
    dlt_session_close(&s);
    opened(&s, ADDED);
    locks_work();
    end();
}

/* An application whose owner gave rights on functions one by one, before these were there. */
Test(upgrade, OPN_2_a_role_that_may_not_call_the_functions_has_no_semaphores)
{
    begin("denied");
    client_init(&t, "denied", "1");
    opened(&t, ADDED);
    ask("GRANT SELECT ON denied_meta TO least;"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON denied_lease, denied_reader, denied_queue TO "
        "least;"
        "REVOKE EXECUTE ON FUNCTION denied_keep FROM PUBLIC",
        "");
    client_init(&s, "denied", "1");
    s.target.user = s.target.password = "least";
    opened(&s, 0);
    cr_assert(probe_says_outdated());
    locks_work();
    dlt_session_close(&s);
    ask("GRANT EXECUTE ON FUNCTION denied_keep TO least", "");
    opened(&s, ADDED);
    cr_assert_not(probe_says_outdated());
    end();
}

/* The earlier functions know no permits, and the table does. */
Test(upgrade, LIM_1_readers_stay_out_when_the_earlier_functions_were_put_back)
{
    const char *answer = NULL;

    begin("back");
    client_init(&t, "back", "1");
    opened(&t, ADDED);
    b.req.limit = 2;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    begin("back");
    answer =
        dlt_postgres_ask(&server, "SELECT result FROM back_take('job', '\\x6161', true, 60000, "
                                  "0, 3000, 'nowhere', '', 0)");
    cr_assert_not_null(strstr(answer, "the name has permits"), "%s", answer);
    ask("SELECT count(*) FROM back_reader WHERE lim IS NULL", "0");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    ask("SELECT result FROM back_take('job', '\\x6161', true, 60000, 0, 3000, 'nowhere', '', 0)",
        "1");
    end();
}

/* Another role puts functions with the marks of new ones beside the old ones. */
#define MARKED                                                                                   \
    ALONE "GRANT CREATE ON SCHEMA public TO least; SET ROLE least; DO $do$ DECLARE f text;"      \
          " BEGIN FOR f IN SELECT DISTINCT proname FROM pg_proc WHERE"                           \
          " starts_with(proname, '%s_') AND pronamespace = 'public'::regnamespace LOOP EXECUTE " \
          "'CREATE "                                                                             \
          "FUNCTION public.' ||"                                                                 \
          " f || '(oid) RETURNS void LANGUAGE plpgsql AS ''BEGIN -- dlock version 1\n"           \
          "-- dlock functions 2\n-- dlock functions 3\nEND'''; END LOOP; END $do$; RESET ROLE;"

/* Functions 2 found names by the search_path of the caller, and had no mark of functions 3. */
static void replaced_under_a_lock(const char *strategy, const char *file)
{
    char unsafe[240], marked[640];

    (void)snprintf(unsafe, sizeof unsafe,
                   "SELECT count(*) > 0 FROM pg_proc WHERE starts_with(proname, '%s_') AND "
                   "pronamespace = 'public'::regnamespace AND proconfig IS NULL AND "
                   "proowner <> 'least'::regrole",
                   strategy);
    begin_with(strategy, file,
               "/-- dlock functions 3/d; s/SET search_path = pg_catalog, pg_temp AS/AS/");
    ask(unsafe, "t");
    (void)snprintf(marked, sizeof marked, MARKED, strategy);
    ask(marked, "");
    client_init(&s, strategy, "0");
    client_init(&t, strategy, "1");
    dlt_session_option(&s, "strategy", strategy);
    dlt_session_option(&t, "strategy", strategy);
    opened(&s, strcmp(strategy, "row") == 0 ? ADDED : 0);
    cr_assert(probe_says_outdated());
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    ask(unsafe, "f");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_not(probe_says_outdated());
    end();
}

Test(upgrade, OPN_4_functions_of_strategy_row_get_a_search_path_of_their_own)
{
    replaced_under_a_lock("row", PLUGIN "/row.sql");
}

Test(upgrade, OPN_4_functions_of_strategy_session_get_a_search_path_of_their_own)
{
    replaced_under_a_lock("session", PLUGIN "/session.sql");
}

/* A transaction that reads a table for long, as pg_dump does, must not make all calls wait. */
Test(upgrade, OPN_2_a_reader_of_the_tables_puts_it_off)
{
    char where[160];
    PGconn *reader = NULL;

    begin("dump");
    (void)snprintf(where, sizeof where, "host=%s port=%u user=u password=secret dbname=locks",
                   server.directory, server.port);
    reader = PQconnectdb(where);
    cr_assert_eq(PQstatus(reader), CONNECTION_OK, "%s", PQerrorMessage(reader));
    PQclear(PQexec(reader, "BEGIN; SELECT * FROM dump_queue"));
    client_init(&s, "dump", "1");
    client_init(&t, "dump", "1");
    opened(&s, 0);
    opened(&t, 0);
    locks_work();
    dlt_session_close(&t);
    PQfinish(reader);
    client_init(&t, "dump", "1");
    opened(&t, ADDED);
    locks_work();
    end();
}
