/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include "open.h"
#include "pooler.h"
#include "query.h"
#include "schema.h"

#include <string.h>

#define FUNCTIONS (DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP)
#define DURABLE   (DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_CRASH_SAFE)

/* Commits share a write of the log already: a few at one time are enough. */
#define PARALLELISM 4

void pg_probe_info(const struct pg_connection *conn, struct dlock_session_info *info)
{
    info->caps = conn->config->strategy == PG_SESSION ? PG_SESSION_CAPS : PG_ROW_CAPS;
    if (atomic_load(&conn->shared->outdated) || atomic_load(&conn->shared->denied))
        info->caps &= ~FUNCTIONS;
    if (!conn->flushes)
        info->caps &= ~DURABLE;
    info->parallelism = PARALLELISM;
    (void)snprintf(info->server, sizeof info->server, "%s", conn->server);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", conn->config->endpoint);
}

/* A value of the server, and the advice about it. */
struct variable {
    const char *name;
    const char *expression; /* of SQL; a text */
    const char *fine;       /* the value that needs no advice; NULL: any */
    const char *advice;     /* for other values */
    uint64_t clears;
};

static const struct variable variables[] = {
    {"version", "version()", NULL, NULL, 0},
    {"standby", "pg_is_in_recovery()::text", "false", "nobody can take a lock here", 0},
    {"fsync", "current_setting('fsync')", "on",
     "set it to on: without it a crash of the machine loses locks and fences, or the database",
     DURABLE},
    {"full_page_writes", "current_setting('full_page_writes')", "on",
     "set it to on, unless the file system cannot tear pages: a crash of the machine may destroy "
     "the tables",
     0},
    {"synchronous_commit", "current_setting('synchronous_commit')", NULL, NULL, 0},
    {"synchronous_standby_names",
     "coalesce(nullif(current_setting('synchronous_standby_names'), ''), 'none')", NULL, NULL, 0},
    {"standbys", "(SELECT count(*) FROM pg_stat_replication)::text", "0",
     "a standby that is promoted may know less than this server did: none may take over while "
     "locks are held, unless it is synchronous",
     0},
    {"transaction_isolation", "current_setting('transaction_isolation')", "read committed",
     "each call says READ COMMITTED itself, which costs a little time: a pooler stands between, so "
     "that the session cannot say it once",
     0},
    {"statement_timeout", "current_setting('statement_timeout')", "0",
     "a call that takes longer fails; the session cannot change it behind a pooler", 0},
    {"lock_timeout", "current_setting('lock_timeout')", NULL, NULL, 0},
    {"idle_session_timeout", "current_setting('idle_session_timeout')", NULL, NULL, 0},
    {"clock", "clock_timestamp()::text", NULL, NULL, 0},
    {"max_connections", "current_setting('max_connections')", NULL, NULL, 0},
    {"connections", "(SELECT count(*) FROM pg_stat_activity WHERE usename = current_user)::text",
     NULL, NULL, 0},
};

#define VARIABLES (sizeof variables / sizeof variables[0])

static void report(dlock_check_fn *fn, void *arg, const struct variable *variable,
                   const char *found)
{
    const bool fine = variable->fine == NULL || strcmp(variable->fine, found) == 0;

    if (fn != NULL)
        fn(arg, &(struct dlock_check){
                    .struct_size = sizeof(struct dlock_check),
                    .name = variable->name,
                    .found = found,
                    .advice = fine ? NULL : variable->advice,
                    .clears = fine ? 0 : variable->clears,
                });
}

static enum dlock_status report_variables(struct pg_connection *conn, dlock_check_fn *fn, void *arg,
                                          struct dlock_error *err)
{
    char sql[2048] = "SELECT ";
    size_t len = strlen(sql);
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    for (size_t i = 0; i < VARIABLES && len < sizeof sql; i++)
        len += (size_t)snprintf(sql + len, sizeof sql - len, "%s%s", i > 0 ? ", " : "",
                                variables[i].expression);
    status = pg_query_read(conn, sql, NULL, &result, err);
    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, VARIABLES, 1, err);
    for (size_t i = 0; status == DLOCK_OK && i < VARIABLES; i++) {
        const char *found = pg_query_text(result, 0, (int)i);

        if (found == NULL)
            found = "not known";
        report(fn, arg, &variables[i], found[0] != '\0' ? found : "none");
    }
    PQclear(result);
    return status;
}

static void report_pooler(struct pg_connection *conn, dlock_check_fn *fn, void *arg)
{
    static const char *const words[] = {
        [PG_POOLER_UNKNOWN] = "one that lends its server to a session or to a transaction",
        [PG_POOLER_NONE] = "none",
        [PG_POOLER_SESSION] = "one that lends its server to a session",
        [PG_POOLER_TRANSACTION] = "one that lends its server to a transaction"};
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum pg_pooler found = PG_POOLER_NONE;
    struct variable pooler = {
        .name = "pooler",
        .advice = "connect to the server itself: messages to waiters do not come through a pooler "
                  "of transactions, and then waiters poll; strategy=session is refused there",
    };

    if (pg_pooler_find(conn, conn->deadline_ns, &found, &ignored) != DLOCK_OK)
        found = PG_POOLER_UNKNOWN;
    pooler.fine = words[found == PG_POOLER_SESSION ? PG_POOLER_SESSION : PG_POOLER_NONE];
    report(fn, arg, &pooler, words[found]);
}

/* They may have been changed since the last check. */
static enum dlock_status report_tables(struct pg_connection *conn, dlock_check_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    static const struct variable tables = {.name = "tables"};
    static const struct variable functions = {
        .name = "functions",
        .fine = "of this release",
        .advice = "run row.sql and grants.sql as their owner: until then there are no semaphores, "
                  "and no name is kept",
        .clears = FUNCTIONS,
    };
    static const struct variable open = {
        .name = "functions",
        .fine = "",
        .advice = "run the SQL file of the strategy as their owner: a role that may create in "
                  "their schema can make them run its own code",
    };
    enum dlock_status status = pg_schema_check(conn, err);
    const char *functions_found = atomic_load(&conn->shared->outdated) ? "of an earlier release"
                                  : atomic_load(&conn->shared->denied)
                                      ? "of this release, but this role may not call all"
                                      : functions.fine;
    char found[160];

    (void)snprintf(found, sizeof found, "%s.%s*, strategy %s, version %d", conn->config->schema,
                   conn->config->prefix, conn->config->strategy_name, PG_SCHEMA_VERSION);
    if (status == DLOCK_OK)
        report(fn, arg, &tables, found);
    if (status == DLOCK_OK && functions_found == functions.fine && atomic_load(&conn->shared->open))
        report(fn, arg, &open, "of an earlier release");
    else if (status == DLOCK_OK)
        report(fn, arg, &functions, functions_found);
    return status;
}

/* Who may put a table or a function beside those of dlock, without having their owner's rights. */
#define CREATORS                                                                               \
    "SELECT CASE WHEN has_schema_privilege('public', s.oid, 'CREATE') THEN 'every role'"       \
    " WHEN count(r.oid) = 0 THEN 'none'"                                                       \
    " ELSE count(r.oid) || ', such as ' || left(min(r.rolname), 63) END"                       \
    " FROM pg_namespace s LEFT JOIN pg_class c ON c.relnamespace = s.oid"                      \
    " AND c.relname = $2 || 'meta' LEFT JOIN pg_roles r ON NOT r.rolsuper"                     \
    " AND has_schema_privilege(r.oid, s.oid, 'CREATE')"                                        \
    " AND NOT pg_has_role(r.oid, s.nspowner, 'USAGE') AND NOT pg_has_role(r.oid, c.relowner, " \
    "'USAGE') WHERE s.nspname = $1 GROUP BY s.oid"

static enum dlock_status report_schema(struct pg_connection *conn, dlock_check_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    static const struct variable schema = {
        .name = "schema open to",
        .fine = "none",
        .advice = "revoke CREATE, or give dlock a schema of its own: tables and functions that "
                  "others make there before dlock does run with the rights of this role",
    };
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    pg_params_text(&params, conn->config->schema);
    pg_params_text(&params, conn->config->prefix);
    status = pg_query_read(conn, CREATORS, &params, &result, err);
    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, 1, 1, err);
    if (status == DLOCK_OK)
        report(fn, arg, &schema, pg_query_text(result, 0, 0));
    PQclear(result);
    return status;
}

enum dlock_status pg_probe(struct pg_connection *conn, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err)
{
    enum dlock_status status = pg_open_setup(conn, err);

    if (status == DLOCK_OK)
        status = report_variables(conn, fn, arg, err);
    if (status == DLOCK_OK)
        report_pooler(conn, fn, arg);
    if (status == DLOCK_OK)
        status = report_tables(conn, fn, arg, err);
    if (status == DLOCK_OK)
        status = report_schema(conn, fn, arg, err);
    return status;
}
