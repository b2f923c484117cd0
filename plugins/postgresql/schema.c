/* SPDX-License-Identifier: MIT */
#include "schema.h"

#include "query.h"
#include "statements.h"

#include <stdlib.h>
#include <string.h>

#define TABLE    "CREATE TABLE IF NOT EXISTS public.dlock_"
#define FUNCTION "CREATE OR REPLACE FUNCTION public.dlock_"
#define ADDED    "-- since functions 2"

#define UPGRADE_NS (60 * DL_NS_PER_S) /* from one try to the next */

static const char *const scripts[] = {[PG_ROW] = pg_script_row, [PG_SESSION] = pg_script_session};

/* ---- what the script makes, as rows of kind, object, column, what it has to be ---- */

enum kind {
    KIND_TABLE = 'T',
    KIND_COLUMN = 'C',
    KIND_KEY = 'K',
    KIND_FUNCTION = 'F',
    /* What an earlier release did not make. */
    KIND_ADDED_COLUMN = 'c',
    KIND_ADDED_FUNCTION = 'f',
};

/* What a good table is in the answer, and a function of an earlier release. */
#define PLAIN_TABLE   "table"
#define OLD_FUNCTION  "of an earlier release"
#define OPEN_FUNCTION "of an earlier release, but complete"
#define NO_RIGHT      "not to be called by this role"

/* What a script makes, and is not there. */
struct lack {
    bool missing;
    bool outdated; /* it was made by an earlier release, and lacks something */
    bool open;     /* it was made by an earlier release */
    bool denied;   /* this role may not call what semaphores need */
};

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What ends a type in a line of CREATE TABLE. */
static size_t type_length(const char *text)
{
    static const char *const ends[] = {" NOT NULL", " PRIMARY KEY", " UNIQUE", " DEFAULT",
                                       ",",         " --"};
    size_t len = strcspn(text, "\n");

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *end = strstr(text, ends[i]);

        if (end != NULL && (size_t)(end - text) < len)
            len = (size_t)(end - text);
    }
    return len;
}

static void row_write(FILE *out, enum kind kind, const char *object, const char *column,
                      size_t column_len, const char *want, size_t want_len)
{
    (void)fprintf(out, "%s('%c','%.*s','%.*s','%.*s')", ftell(out) > 0 ? "," : "", kind,
                  (int)strcspn(object, " ("), object, (int)column_len, column, (int)want_len, want);
}

/* A line of CREATE TABLE: "  name type ...," or "  PRIMARY KEY (name, name)". */
static void column_write(FILE *out, const char *table, const char *line)
{
    static const char key[] = "  PRIMARY KEY (";
    const char *column = line + 2;
    const size_t len = strcspn(column, " ");
    const char *type = column + len + 1;
    const char *inline_key = strstr(type, " PRIMARY KEY");
    const char *added = strstr(line, ADDED);

    if (begins_with(line, key)) {
        const char *names = line + strlen(key);

        row_write(out, KIND_KEY, table, "", 0, names, strcspn(names, ")"));
        return;
    }
    row_write(out,
              added != NULL && added < line + strcspn(line, "\n") ? KIND_ADDED_COLUMN : KIND_COLUMN,
              table, column, len, type, type_length(type));
    if (inline_key != NULL && inline_key < type + strcspn(type, "\n"))
        row_write(out, KIND_KEY, table, "", 0, column, len);
}

/* For free(); NULL: no memory. */
static char *rows_make(const char *script)
{
    char *text = NULL;
    size_t size = 0;
    const char *table = NULL;
    bool added = false; /* the line before says so */
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    for (const char *line = script; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (begins_with(line, TABLE)) {
            table = line + strlen(TABLE);
            row_write(out, KIND_TABLE, table, "", 0, PLAIN_TABLE, strlen(PLAIN_TABLE));
        } else if (begins_with(line, FUNCTION)) {
            row_write(out, added ? KIND_ADDED_FUNCTION : KIND_FUNCTION, line + strlen(FUNCTION), "",
                      0, "", 0);
        } else if (table != NULL && begins_with(line, "  ")) {
            column_write(out, table, line);
        } else {
            table = NULL;
        }
        added = begins_with(line, ADDED);
        (void)fflush(out); /* for ftell */
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

#define TABLE_FOUND                                                               \
    "(SELECT CASE WHEN c.relkind <> 'r' THEN 'not an ordinary table'"             \
    " WHEN c.relpersistence <> 'p' THEN 'not logged, so that a crash empties it'" \
    " WHEN c.relrowsecurity THEN 'under row security, which hides rows'"          \
    " ELSE '" PLAIN_TABLE "' END FROM pg_catalog.pg_class c"                      \
    " WHERE c.relnamespace = s.oid AND c.relname = p.prefix || e.object)"
#define COLUMN_FOUND                                                              \
    "(SELECT CASE WHEN a.atttypid = to_regtype(e.want) AND a.atttypmod = -1"      \
    " THEN e.want"                                                                \
    " ELSE format_type(a.atttypid, a.atttypmod) END FROM pg_catalog.pg_class c"   \
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = e.col" \
    " AND NOT a.attisdropped"                                                     \
    " WHERE c.relnamespace = s.oid AND c.relname = p.prefix || e.object)"
#define KEY_FOUND                                                                 \
    "(SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM pg_catalog.pg_class c" \
    " JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary"        \
    " AND i.indisvalid"                                                           \
    " CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k (num, n)"          \
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.num"  \
    " WHERE c.relnamespace = s.oid AND c.relname = p.prefix || e.object)"
/* A function of anybody else, who may create in the schema, is none of dlock. */
#define FUNCTION_FOUND                                                          \
    "(SELECT CASE WHEN e.kind = 'f' AND"                                        \
    " NOT bool_and(has_function_privilege(f.oid, 'EXECUTE')) THEN '" NO_RIGHT   \
    "' WHEN bool_or(position($4 IN f.prosrc) > 0) THEN ''"                      \
    " WHEN bool_or(position($5 IN f.prosrc) > 0) THEN '" OPEN_FUNCTION "'"      \
    " WHEN bool_or(position($3 IN f.prosrc) > 0) THEN '" OLD_FUNCTION "' ELSE"  \
    " 'of another version' END FROM pg_catalog.pg_proc f"                       \
    " WHERE f.pronamespace = s.oid AND f.proname = p.prefix || e.object"        \
    " AND (pg_has_role(f.proowner, s.nspowner, 'MEMBER')"                       \
    " OR pg_has_role(f.proowner, 'MEMBER') OR f.proowner IN (SELECT c.relowner" \
    " FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid"                  \
    " AND c.relname = p.prefix || 'meta'))"                                     \
    " HAVING count(*) > 0)"

static char *query_make(const char *script)
{
    static const char before[] =
        "SELECT e.kind, e.object, e.col, e.want, CASE e.kind"
        " WHEN 'T' THEN " TABLE_FOUND " WHEN 'C' THEN " COLUMN_FOUND " WHEN 'c' THEN " COLUMN_FOUND
        " WHEN 'K' THEN " KEY_FOUND " ELSE " FUNCTION_FOUND " END FROM (VALUES ";
    static const char after[] = ") e (kind, object, col, want) CROSS JOIN (SELECT $2 AS prefix) p"
                                " LEFT JOIN pg_catalog.pg_namespace s ON s.nspname = $1";
    char *rows = rows_make(script), *text = NULL;
    size_t size = 0;

    if (rows == NULL)
        return NULL;
    size = sizeof before + strlen(rows) + sizeof after;
    text = malloc(size);
    if (text != NULL)
        (void)snprintf(text, size, "%s%s%s", before, rows, after);
    free(rows);
    return text;
}

enum { KIND, OBJECT, COLUMN, WANT, FOUND, COLUMNS };

static enum dlock_status found_read(struct pg_connection *conn, PGresult **result,
                                    struct dlock_error *err)
{
    char *text = query_make(scripts[conn->config->strategy]);
    struct pg_params params = {0};
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    if (text == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    pg_params_text(&params, conn->config->schema);
    pg_params_text(&params, conn->config->prefix);
    pg_params_text(&params, PG_SCHEMA_MARK);
    pg_params_text(&params, PG_SCHEMA_FUNCTIONS_MARK);
    pg_params_text(&params,
                   conn->config->strategy == PG_SESSION ? PG_SCHEMA_MARK : PG_SCHEMA_LIMIT_MARK);
    status = pg_query_read(conn, text, &params, result, err);
    free(text);
    return status == DLOCK_OK ? pg_query_expect(conn, result, COLUMNS, 1, err) : status;
}

/* ---- the checks ---- */

static enum dlock_status is_bad(const struct pg_connection *conn, const PGresult *result, int row,
                                const char *what, struct dlock_error *err)
{
    const enum kind kind = (enum kind)pg_query_text(result, row, KIND)[0];
    const char *column = pg_query_text(result, row, COLUMN);
    const char *want = pg_query_text(result, row, WANT);
    const bool is_column = kind == KIND_COLUMN || kind == KIND_ADDED_COLUMN;

    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0, "%s: %s %s.%s%s%s%s: %s%s%s",
                      conn->config->endpoint,
                      kind == KIND_FUNCTION || kind == KIND_ADDED_FUNCTION ? "function" : "table",
                      conn->config->schema, conn->config->prefix,
                      pg_query_text(result, row, OBJECT), is_column ? ", column " : "", column,
                      what, is_column || kind == KIND_KEY ? ", and it has to be " : "",
                      is_column || kind == KIND_KEY ? want : "");
}

/* The rows of a table come behind the row of the table itself. */
static enum dlock_status found_check(const struct pg_connection *conn, const PGresult *result,
                                     struct lack *lack, struct dlock_error *err)
{
    bool table_there = false;
    enum dlock_status status = DLOCK_OK;

    for (int row = 0; row < PQntuples(result) && status == DLOCK_OK; row++) {
        const enum kind kind = (enum kind)pg_query_text(result, row, KIND)[0];
        const char *found = pg_query_text(result, row, FOUND);

        if (kind == KIND_TABLE)
            table_there = found != NULL;
        if (found == NULL && (kind == KIND_TABLE || kind == KIND_FUNCTION))
            lack->missing = true;
        else if (found != NULL && strcmp(found, NO_RIGHT) == 0)
            lack->denied = true;
        else if (found != NULL && strcmp(found, OPEN_FUNCTION) == 0)
            lack->open = true;
        else if ((found == NULL && (kind == KIND_ADDED_COLUMN || kind == KIND_ADDED_FUNCTION)) ||
                 (found != NULL && strcmp(found, OLD_FUNCTION) == 0))
            lack->outdated = true;
        else if (found == NULL && table_there)
            status =
                is_bad(conn, result, row, kind == KIND_KEY ? "has no primary key" : "missing", err);
        else if (found != NULL && strcmp(found, pg_query_text(result, row, WANT)) != 0)
            status = is_bad(conn, result, row, found, err);
    }
    return status;
}

static bool meta_is_there(const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (strcmp(pg_query_text(result, row, OBJECT), "meta") == 0 &&
            pg_query_text(result, row, KIND)[0] == KIND_TABLE)
            return pg_query_text(result, row, FOUND) != NULL;
    }
    return false;
}

static enum dlock_status meta_check(struct pg_connection *conn, bool *missing,
                                    struct dlock_error *err)
{
    const struct pg_config *config = conn->config;
    char *text = pg_statements_expand(
        config, "SELECT strategy::text, version::bigint FROM public.dlock_meta WHERE id = 1");
    PGresult *result = NULL;
    const char *strategy = NULL;
    enum dlock_status status = DLOCK_NOMEM;

    if (text == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    status = pg_query_read(conn, text, NULL, &result, err);
    free(text);
    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, 2, 0, err);
    if (status != DLOCK_OK)
        return status;
    strategy = PQntuples(result) > 0 ? pg_query_text(result, 0, 0) : NULL;
    *missing = strategy == NULL;
    if (strategy != NULL && strcmp(strategy, config->strategy_name) != 0)
        status = dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                            "%s: the tables %s.%s* are for strategy=%.16s, not %s; choose another "
                            "table_prefix",
                            config->endpoint, config->schema, config->prefix, strategy,
                            config->strategy_name);
    else if (strategy != NULL && pg_query_number(result, 0, 1) != PG_SCHEMA_VERSION)
        status = dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                            "%s: the tables %s.%s* have version %lld, this plugin knows %d",
                            config->endpoint, config->schema, config->prefix,
                            (long long)pg_query_number(result, 0, 1), PG_SCHEMA_VERSION);
    PQclear(result);
    return status;
}

static enum dlock_status check(struct pg_connection *conn, struct lack *lack,
                               struct dlock_error *err)
{
    PGresult *result = NULL;
    enum dlock_status status = found_read(conn, &result, err);

    *lack = (struct lack){.missing = false};
    if (status == DLOCK_OK && meta_is_there(result))
        status = meta_check(conn, &lack->missing, err);
    if (status == DLOCK_OK)
        status = found_check(conn, result, lack, err);
    PQclear(result);
    if (status != DLOCK_OK || lack->missing)
        return status;
    atomic_store(&conn->shared->outdated, lack->outdated);
    atomic_store(&conn->shared->open, lack->open);
    atomic_store(&conn->shared->denied, lack->denied);
    atomic_store(&conn->shared->checked_ns, pg_connection_now(conn));
    return DLOCK_OK;
}

/* Whether a script without an answer ran does not matter: the next one makes the same. */
static enum dlock_status create(struct pg_connection *conn, struct dlock_error *err)
{
    const struct pg_config *config = conn->config;
    char *text = NULL;
    enum dlock_status status = DLOCK_NOMEM;

    if (!config->create)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NO_STORE, 0,
                          "%s: database %.40s has not all tables and functions %s.%s* of "
                          "strategy=%s, and create=off",
                          config->endpoint, config->database, config->schema, config->prefix,
                          config->strategy_name);
    text = pg_statements_expand(config, scripts[config->strategy]);
    if (text == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a script");
    status = pg_query_script(conn, text, err);
    free(text);
    return status == DLOCK_UNKNOWN ? (err->status = DLOCK_UNAVAILABLE) : status;
}

static enum dlock_status are_gone(const struct pg_connection *conn, struct dlock_error *err)
{
    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: tables or functions %s.%s* are gone; open the store again, or run the "
                      "SQL file of the strategy",
                      conn->config->endpoint, conn->config->schema, conn->config->prefix);
}

/* Another role may have made the same meanwhile. */
static bool is_complete(struct pg_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct lack lack;

    return !conn->dead && check(conn, &lack, &ignored) == DLOCK_OK && !lack.missing;
}

/* One connection of the client tries it, and the next one a minute later. */
static bool may_upgrade(const struct pg_connection *conn)
{
    const int64_t now_ns = pg_connection_now(conn);
    int64_t at_ns = atomic_load(&conn->shared->upgrade_ns);

    return conn->config->create && at_ns <= now_ns &&
           atomic_compare_exchange_strong(&conn->shared->upgrade_ns, &at_ns, now_ns + UPGRADE_NS);
}

/* A script that is refused would stand in the server's log at each start of a program. */
static enum dlock_status replace(struct pg_connection *conn, struct dlock_error *err)
{
    static const char rights[] =
        "SELECT has_schema_privilege(s.oid, 'CREATE') AND pg_has_role(c.relowner, 'USAGE')"
        " FROM pg_namespace s JOIN pg_class c ON c.relnamespace = s.oid"
        " AND c.relname = $2 || 'meta' WHERE s.nspname = $1";
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    bool may = false;

    pg_params_text(&params, conn->config->schema);
    pg_params_text(&params, conn->config->prefix);
    status = pg_query_read(conn, rights, &params, &result, err);
    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, 1, 1, err);
    may = status == DLOCK_OK && pg_query_number(result, 0, 0) != 0;
    PQclear(result);
    if (status != DLOCK_OK || may)
        return status == DLOCK_OK ? create(conn, err) : status;
    return dlock_fail(err, PG_ORIGIN, DLOCK_AUTH, 0,
                      "%s: this role does not own them, or may not create in their schema",
                      conn->config->endpoint);
}

/* A failure is no failure of the store, unless it cost the connection. */
static enum dlock_status upgrade(struct pg_connection *conn, struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct lack lack;
    char line[400];
    enum dlock_status status = replace(conn, &why);

    if (conn->dead)
        return dlock_fail(err, PG_ORIGIN, status, why.code, "%s", why.message);
    if (status != DLOCK_OK) {
        (void)snprintf(line, sizeof line,
                       "the tables and functions are of an earlier release (dlock doctor says what "
                       "that means), and cannot be changed: %s",
                       why.message);
        conn->host->log(conn->host->ctx, PG_SHARED_WARNING, line);
    }
    status = check(conn, &lack, err);
    return status == DLOCK_OK && lack.missing ? are_gone(conn, err) : status;
}

enum dlock_status pg_schema_open(struct pg_connection *conn, struct dlock_error *err)
{
    struct lack lack;
    enum dlock_status status = check(conn, &lack, err);

    if (status == DLOCK_OK && !lack.missing && (lack.outdated || lack.open) && may_upgrade(conn))
        return upgrade(conn, err);
    if (status != DLOCK_OK || !lack.missing)
        return status;
    status = create(conn, err);
    if (status == DLOCK_AUTH && is_complete(conn))
        return DLOCK_OK;
    if (status == DLOCK_OK)
        status = check(conn, &lack, err);
    if (status == DLOCK_OK && lack.missing)
        return are_gone(conn, err);
    return status;
}

enum dlock_status pg_schema_check(struct pg_connection *conn, struct dlock_error *err)
{
    struct lack lack;
    enum dlock_status status = check(conn, &lack, err);

    return status == DLOCK_OK && lack.missing ? are_gone(conn, err) : status;
}
