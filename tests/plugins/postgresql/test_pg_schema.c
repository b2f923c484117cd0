/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/schema.c plugins/postgresql/statements.c plugins/postgresql/open.c */
/* Are the tables and functions made once, checked, and refused when they cannot keep a lock? */
#include "pg_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 8

static struct dlt_postgres server;
static struct dlt_session s;

static void client_init(struct dlt_session *session, const char *test)
{
    char prefix[33];

    (void)snprintf(prefix, sizeof prefix, "%s_", test);
    dlt_session_init(session, &server);
    dlt_session_option(session, "table_prefix", prefix);
}

static void begin(const char *test)
{
    cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    client_init(&s, test);
}

static void end(void)
{
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

static void opened(void)
{
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
}

/* Opening ends with this status, and with a message that has these words. */
static void refused(enum dlock_status status, const char *words)
{
    cr_assert_eq(dlt_session_open(&s), status, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, words), "%s", s.err.message);
    cr_assert_null(strstr(s.err.message, "secret"));
}

static void ask(const char *sql, const char *want)
{
    const char *answer = dlt_postgres_ask(&server, "%s", sql);

    cr_assert_str_eq(answer, want, "%s: %s", sql, answer);
}

/* The administrator's psql. */
static void psql(const char *before, const char *arguments)
{
    char command[512];

    (void)snprintf(command, sizeof command,
                   "%s psql -X -q -v ON_ERROR_STOP=1 -o /dev/null -h %s -p %u -U postgres %s locks",
                   before, server.directory, server.port, arguments);
    cr_assert_eq(system(command), 0, "%s", command);
}

static void *client_run(void *arg)
{
    struct dlt_session *session = arg;

    return dlt_session_open(session) == DLOCK_OK ? NULL : session->err.message;
}

Test(schema, OPN_4_many_clients_make_it_at_the_same_time)
{
    static struct dlt_session sessions[CLIENTS];
    pthread_t threads[CLIENTS];

    begin("many");
    for (int round = 0; round < 5; round++) {
        ask("SET client_min_messages = warning;"
            "DROP TABLE IF EXISTS many_meta, many_lease, many_reader, many_queue",
            "");
        for (int i = 0; i < CLIENTS; i++) {
            client_init(&sessions[i], "many");
            cr_assert_eq(pthread_create(&threads[i], NULL, client_run, &sessions[i]), 0);
        }
        for (int i = 0; i < CLIENTS; i++) {
            void *message = NULL;

            cr_assert_eq(pthread_join(threads[i], &message), 0);
            cr_assert_null(message, "%s", (char *)message);
            dlt_session_close(&sessions[i]);
        }
    }
    ask("SELECT strategy, version FROM many_meta", "row 1");
    end();
}

/* Where clients wait for each other before they make the tables. */
#define GATE "hashtext('\"public\".\"%s_\"')"

static void *gate_keep(void *test)
{
    (void)dlt_postgres_ask(&server,
                           "BEGIN; SELECT pg_advisory_xact_lock(1684827243, " GATE ");"
                           " SELECT pg_sleep(1.5); COMMIT",
                           (const char *)test);
    return NULL;
}

/* So many have come to the gate. */
static void gate_await(const char *test, const char *count)
{
    const char *got = "";

    for (int i = 0; i < 1000 && strcmp(got, count) != 0; i++) {
        dlt_sleep_ms(2);
        got = dlt_postgres_ask(&server,
                               "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                               " AND classid = 1684827243 AND objid = " GATE "::oid",
                               test);
    }
    cr_assert_str_eq(got, count);
}

/* The second role must not make anything, and need not: it finds what the first one has made. */
Test(schema, OPN_4_two_roles_make_it_at_the_same_time)
{
    static struct dlt_session sessions[2];
    char test[] = "race";
    pthread_t gate, threads[2];
    void *message = NULL;

    begin(test);
    ask("ALTER DEFAULT PRIVILEGES FOR ROLE u GRANT ALL ON TABLES TO least", "");
    cr_assert_eq(pthread_create(&gate, NULL, gate_keep, test), 0);
    gate_await(test, "1");
    for (int i = 0; i < 2; i++) {
        client_init(&sessions[i], test);
        if (i == 1)
            sessions[i].target.user = sessions[i].target.password = "least";
        cr_assert_eq(pthread_create(&threads[i], NULL, client_run, &sessions[i]), 0);
        gate_await(test, i == 0 ? "2" : "3");
    }
    (void)pthread_join(gate, NULL);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(threads[i], &message), 0);
        cr_assert_null(message, "%s", (char *)message);
        dlt_session_close(&sessions[i]);
    }
    ask("ALTER DEFAULT PRIVILEGES FOR ROLE u REVOKE ALL ON TABLES FROM least", "");
    end();
}

/* It was UNKNOWN, which no opening may be: nothing is lost, and the next opening makes the same. */
Test(schema, C9_the_server_ends_the_session_that_makes_it)
{
    char test[] = "ended";
    pthread_t gate, client;
    void *message = NULL;

    begin(test);
    cr_assert_eq(pthread_create(&gate, NULL, gate_keep, test), 0);
    gate_await(test, "1");
    cr_assert_eq(pthread_create(&client, NULL, client_run, &s), 0);
    gate_await(test, "2");
    cr_assert_str_eq(dlt_postgres_ask(&server,
                                      "SELECT pg_terminate_backend(pid) FROM pg_locks"
                                      " WHERE classid = 1684827243 AND objid = " GATE "::oid"
                                      " AND NOT granted",
                                      test),
                     "t");
    (void)pthread_join(client, &message);
    (void)pthread_join(gate, NULL);
    cr_assert_not_null(message, "the tables were made");
    cr_assert_eq(s.err.status, DLOCK_UNAVAILABLE, "%s: %s", dlock_status_name((int)s.err.status),
                 s.err.message);
    cr_assert_not_null(strstr(s.err.message, "57P01"), "%s", s.err.message);
    opened();
    end();
}

Test(schema, OPN_4_nothing_is_made_with_create_off)
{
    begin("off");
    dlt_session_option(&s, "create", "0");
    refused(DLOCK_NO_STORE, "create=off");
    ask("SELECT count(*) FROM pg_class WHERE relname LIKE 'off\\_%'", "0");
    ask("SELECT count(*) FROM pg_proc WHERE proname LIKE 'off\\_%'", "0");
    dlt_session_option(&s, "create", "1");
    opened();
    dlt_session_option(&s, "create", "0");
    opened();
    end();
}

Test(schema, C12_the_same_tables_for_all_roles_whatever_their_search_path)
{
    struct dlt_request request;

    begin("path");
    ask("CREATE SCHEMA IF NOT EXISTS elsewhere; GRANT ALL ON SCHEMA elsewhere TO u; "
        "ALTER ROLE u SET search_path = elsewhere",
        "");
    opened();
    ask("ALTER ROLE u SET search_path = elsewhere, pg_catalog; "
        "CREATE FUNCTION elsewhere.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
        "$$ SELECT now() + interval '1 day' $$",
        "");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &request, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    ask("SELECT until < now() + interval '1 hour' FROM public.path_lease", "t");
    ask("ALTER ROLE u RESET search_path", "");
    ask("SELECT string_agg(DISTINCT schemaname, ',') FROM pg_tables WHERE tablename LIKE "
        "'path\\_%'",
        "public");
    dlt_session_option(&s, "schema", "elsewhere");
    opened();
    ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'elsewhere'", "4");
    dlt_session_option(&s, "schema", "nowhere");
    refused(DLOCK_CONFIG, "nowhere");
    end();
}

Test(schema, AUTH_a_role_that_must_not_create)
{
    begin("least");
    s.target.user = "least";
    s.target.password = "least";
    refused(DLOCK_AUTH, "permission denied for schema public");
    end();
}

Test(schema, an_administrator_makes_it_with_the_same_file)
{
    begin("admin");
    dlt_session_option(&s, "create", "0");
    refused(DLOCK_NO_STORE, "admin_");
    ask("CREATE TABLE admin_other_lease ()", ""); /* of another prefix */
    for (int i = 0; i < 2; i++) {                 /* twice does no harm */
        psql("sed 's/public\\.dlock_/public.admin_/g' " PLUGIN "/row.sql |", "-f -");
        psql("", "-v app=least -v prefix=admin_ -f " PLUGIN "/grants.sql");
    }
    ask("SELECT has_table_privilege('least', 'admin_other_lease', 'SELECT')", "f");
    s.target.user = "least";
    s.target.password = "least";
    opened();
    end();
}

Test(schema, AUTH_a_role_that_only_inspects)
{
    struct dlt_request request;
    struct dlt_holder holder;
    size_t count = 1;

    begin("reads");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &request, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    ask("GRANT SELECT ON reads_meta, reads_lease, reads_reader TO least; "
        "GRANT SELECT (name, until) ON reads_queue TO least",
        "");
    s.target.user = "least";
    s.target.password = "least";
    dlt_session_option(&s, "create", "0");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(dlt_list(&s, "", &holder, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    request.req.token[0]++;
    cr_assert_eq(dlt_try(&s, &request), DLOCK_AUTH);
    cr_assert_eq(dlt_renew(&s, &request), DLOCK_AUTH);
    end();
}

/* Each: what breaks the tables, words of the refusal, what mends them. */
static void each_refused(const char *const (*bad)[3], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        opened();
        ask(bad[i][0], "");
        refused(DLOCK_CONFIG, bad[i][1]);
        ask(bad[i][2], "");
    }
    opened();
}

Test(schema, OPN_1_tables_that_cannot_keep_a_lock)
{
    static const char *const bad[][3] = {
        {"ALTER TABLE bad_lease ALTER token TYPE text USING 'x'", "bad_lease, column token: text",
         "ALTER TABLE bad_lease ALTER token TYPE bytea USING 'x'"},
        {"ALTER TABLE bad_lease ALTER until TYPE timestamptz(0)",
         "bad_lease, column until: timestamp(0) with time zone",
         "ALTER TABLE bad_lease ALTER until TYPE timestamptz"},
        {"ALTER TABLE bad_lease RENAME fence TO fences", "bad_lease, column fence: missing",
         "ALTER TABLE bad_lease RENAME fences TO fence"},
        {"ALTER TABLE bad_reader DROP CONSTRAINT bad_reader_pkey", "bad_reader: has no primary key",
         "ALTER TABLE bad_reader ADD PRIMARY KEY (name, token)"},
        {"ALTER TABLE bad_queue DROP CONSTRAINT bad_queue_pkey, ADD PRIMARY KEY (name, token)",
         "bad_queue: name, token, and it has to be name, seq",
         "ALTER TABLE bad_queue DROP CONSTRAINT bad_queue_pkey, ADD PRIMARY KEY (name, seq)"},
        {"ALTER TABLE bad_lease SET UNLOGGED", "bad_lease: not logged",
         "ALTER TABLE bad_lease SET LOGGED"},
        {"ALTER TABLE bad_lease ENABLE ROW LEVEL SECURITY", "bad_lease: under row security",
         "ALTER TABLE bad_lease DISABLE ROW LEVEL SECURITY"},
        {"ALTER TABLE bad_lease RENAME TO other; CREATE VIEW bad_lease AS TABLE other",
         "bad_lease: not an ordinary table",
         "DROP VIEW bad_lease; ALTER TABLE other RENAME TO bad_lease"},
        {"UPDATE bad_meta SET version = 2", "version 2, this plugin knows 1",
         "UPDATE bad_meta SET version = 1"},
        {"UPDATE bad_meta SET strategy = 'session'", "strategy=session, not row",
         "UPDATE bad_meta SET strategy = 'row'"},
    };

    begin("bad");
    each_refused(bad, sizeof bad / sizeof bad[0]);
    end();
}

Test(schema, OPN_1_tables_of_strategy_session_that_cannot_keep_a_lock)
{
    static const char *const bad[][3] = {
        {"ALTER TABLE odd_session ALTER token TYPE text USING 'x'",
         "odd_session, column token: text",
         "ALTER TABLE odd_session ALTER token TYPE bytea USING 'x'"},
        {"ALTER TABLE odd_session RENAME number TO numbers", "odd_session, column number: missing",
         "ALTER TABLE odd_session RENAME numbers TO number"},
        {"ALTER TABLE odd_session_reader DROP CONSTRAINT odd_session_reader_pkey",
         "odd_session_reader: has no primary key",
         "ALTER TABLE odd_session_reader ADD PRIMARY KEY (name, token)"},
        {"ALTER TABLE odd_session SET UNLOGGED", "odd_session: not logged",
         "ALTER TABLE odd_session SET LOGGED"},
        {"UPDATE odd_meta SET version = 2", "version 2, this plugin knows 1",
         "UPDATE odd_meta SET version = 1"},
        {"UPDATE odd_meta SET strategy = 'row'", "strategy=row, not session",
         "UPDATE odd_meta SET strategy = 'session'"},
        {"CREATE OR REPLACE FUNCTION odd_session_number(n bytea, key bigint) RETURNS bigint"
         " LANGUAGE sql AS 'SELECT 1::bigint'",
         "function public.odd_session_number: of another version",
         "DROP FUNCTION odd_session_number"},
    };

    begin("odd");
    dlt_session_option(&s, "strategy", "session");
    each_refused(bad, sizeof bad / sizeof bad[0]);
    end();
}

Test(schema, functions_of_another_version)
{
    begin("older");
    opened();
    ask("CREATE OR REPLACE FUNCTION older_next(n bytea, t bytea, leaving boolean) RETURNS text "
        "LANGUAGE sql AS 'SELECT NULL::text'",
        "");
    refused(DLOCK_CONFIG, "function public.older_next: of another version");
    ask("DROP FUNCTION older_next", "");
    dlt_session_option(&s, "create", "0");
    refused(DLOCK_NO_STORE, "create=off");
    dlt_session_option(&s, "create", "1");
    opened();
    ask("SELECT count(*) FROM pg_proc WHERE proname = 'older_next'", "1");
    end();
}

Test(schema, C16_a_probe_checks_the_tables_again)
{
    begin("probe");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(s.shared, 5000), &s.info, NULL, NULL, &s.err),
                 DLOCK_OK, "%s", s.err.message);
    ask("DROP TABLE probe_queue", "");
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(s.shared, 5000), &s.info, NULL, NULL, &s.err),
                 DLOCK_CONFIG);
    cr_assert_not_null(strstr(s.err.message, "probe_"), "%s", s.err.message);
    end();
}
