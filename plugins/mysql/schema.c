/* SPDX-License-Identifier: MIT */
/* clang-format off: it would run the table together */
/*
 * The tables, version 1; README.md has them as SQL. One prefix serves one strategy, which {meta}
 * names: a name used under two of them would be two locks.
 *
 * Times are microseconds since 1970, UTC, of the server. Names and tokens are VARBINARY, which
 * compares bytes; CHAR and VARCHAR would fold case and ignore spaces at the end.
 *
 *   row      {names}    a row a name for ever: fence, the exclusive holder (token, until_us), and
 *                       until when readers may hold it (readers_us, the greatest of theirs).
 *                       While next_us is in the near future, next_token alone may take the name
 *            {readers}  a row a reader
 *   insert   {names}    a row a name that is held; a readers_us of 0 or below is the fence of the
 *                       owner before, with a minus: there is no holder until {fences} has a greater
 *            {readers}  as above
 *            {fences}   a row a name for ever, with next_token and next_us
 *            {permits}  a row a permit that is held or kept; also of strategy row (row_shared.h)
 *            {data}     a row a token that publishes data; also of strategy row (row_shared.h)
 *   session  {names}    a row a name for ever, whose InnoDB row lock is the lock
 *            {fences}   a row a name for ever: fence, its last owner, and the owner's connection
 *            {readers}  the shared owners
 */
/* clang-format on */
#include "schema.h"

#include "query.h"

#include <stdlib.h>
#include <string.h>

/* ---- {permits} and {data}, which were added later ---- */

#define ADDED_TABLES 2

#define ADDED_SIZE 1024

/* columns: the answer to the query: of each column name, type and key. */
static const struct {
    const char *name, *definition, *columns;
} added[ADDED_TABLES] = {
    {"permits",
     "CREATE TABLE IF NOT EXISTS {permits} (name VARBINARY(255) NOT NULL,"
     " token VARBINARY(16) NOT NULL, since_us BIGINT NOT NULL, until_us BIGINT NOT NULL,"
     " label VARBINARY(255) NOT NULL, fence BIGINT NOT NULL, lim BIGINT NOT NULL,"
     " permit BIGINT NOT NULL, kept BIGINT NOT NULL, PRIMARY KEY (name,token)) ENGINE=InnoDB",
     "name varbinary(255) PRI,token varbinary(16) PRI,since_us bigint ,until_us bigint ,"
     "label varbinary(255) ,fence bigint ,lim bigint ,permit bigint ,kept bigint "},
    {"data",
     "CREATE TABLE IF NOT EXISTS {data} (name VARBINARY(255) NOT NULL,"
     " token VARBINARY(16) NOT NULL, made_us BIGINT NOT NULL, data VARBINARY(1024) NOT NULL,"
     " PRIMARY KEY (name,token)) ENGINE=InnoDB",
     "name varbinary(255) PRI,token varbinary(16) PRI,made_us bigint ,data varbinary(1024) "},
};

static atomic_bool *is_there(const struct my_connection *conn, size_t i)
{
    return i == 0 ? &conn->tables->has_permits : &conn->tables->has_data;
}

/* Writes the queries whose answers added_check reads, each with a semicolon before it; none for
 * strategy session. */
static void added_queries(FILE *out, const struct my_connection *conn)
{
    const char *prefix = conn->config->prefix;

    for (size_t i = 0; conn->config->strategy != MY_SESSION && i < ADDED_TABLES; i++)
        (void)fprintf(out,
                      ";SELECT MAX(t.engine), GROUP_CONCAT(c.column_name, ' ',"
                      " REPLACE(c.column_type, 'bigint(20)', 'bigint'), ' ', c.column_key"
                      " ORDER BY c.ordinal_position) FROM information_schema.tables t"
                      " JOIN information_schema.columns c"
                      " WHERE t.table_schema = DATABASE() AND t.table_name = '%s%s'"
                      " AND c.table_schema = DATABASE() AND c.table_name = '%s%s'",
                      prefix, added[i].name, prefix, added[i].name);
}

static enum dlock_status one_added_check(struct my_connection *conn, size_t i, MYSQL_RES *answer,
                                         struct dlock_error *err)
{
    MYSQL_ROW row = answer != NULL ? mysql_fetch_row(answer) : NULL;

    if (row == NULL || mysql_num_fields(answer) != 2)
        return my_connection_bad_reply(conn, err);
    conn->lacks[i] = row[1] == NULL;
    if (!conn->lacks[i])
        atomic_store(is_there(conn, i), true);
    if (conn->lacks[i] ||
        (row[0] != NULL && strcmp(row[0], "InnoDB") == 0 && strcmp(row[1], added[i].columns) == 0))
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: table %s%s: not an InnoDB table with the columns of README.md",
                      conn->config->endpoint, conn->config->prefix, added[i].name);
}

/* Notes in conn which tables are not there, and in conn->tables which are. CONFIG: one is not what
 * it has to be. That it is not there may be over: another connection makes it at the same time. */
static enum dlock_status added_check(struct my_connection *conn,
                                     MYSQL_RES *const answers[ADDED_TABLES],
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; status == DLOCK_OK && i < ADDED_TABLES; i++)
        status = one_added_check(conn, i, answers[i], err);
    return status;
}

static enum dlock_status one_added_create(struct my_connection *conn, size_t i,
                                          struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char text[ADDED_SIZE];
    enum dlock_status status = DLOCK_INTERNAL;

    if (!my_statements_expand(added[i].definition, conn->config->prefix, text, sizeof text))
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "the table prefix is too long");
    status = my_query_script(conn, text, &results, err);
    my_query_results_free(&results);
    return status;
}

static enum dlock_status one_added_ensure(struct my_connection *conn, size_t i, bool *made,
                                          struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    const enum dlock_status status = one_added_create(conn, i, &why);

    if (status == DLOCK_OK)
        *made = true;
    if (status == DLOCK_OK || status == DLOCK_AUTH)
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
}

/* What was made may be there already, and this user may have no rights on it. */
static enum dlock_status added_reread(struct my_connection *conn, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    enum dlock_status status = DLOCK_NOMEM;

    if (out == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    added_queries(out, conn);
    if (fclose(out) == 0)
        status = my_query_script(conn, text + 1, &results, err);
    free(text);
    if (status == DLOCK_OK && results.count != ADDED_TABLES)
        status = my_connection_bad_reply(conn, err);
    if (status == DLOCK_OK)
        status = added_check(conn, results.list, err);
    my_query_results_free(&results);
    return status;
}

/* OK also if the user may not. A check has to follow: the user may have no rights on them. */
static enum dlock_status added_create(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    bool made = false;

    for (size_t i = 0; conn->config->strategy != MY_SESSION && i < ADDED_TABLES; i++)
        if (status == DLOCK_OK)
            status = one_added_ensure(conn, i, &made, err);
    return status;
}

/* Of a check that nothing was made at the time of: tables that were not there are gone. */
static void added_note(struct my_connection *conn)
{
    for (size_t i = 0; i < ADDED_TABLES; i++)
        if (conn->lacks[i])
            atomic_store(is_there(conn, i), false);
}

enum dlock_status my_schema_added_ensure(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    bool made = false;

    if (conn->config->strategy == MY_SESSION || !conn->config->create)
        return DLOCK_OK;
    for (size_t i = 0; status == DLOCK_OK && i < ADDED_TABLES; i++)
        if (conn->lacks[i] || !atomic_load(is_there(conn, i)))
            status = one_added_ensure(conn, i, &made, err);
    return status == DLOCK_OK && made ? added_reread(conn, err) : status;
}

bool my_schema_is_hidden(enum dlock_status status, const struct dlock_error *err)
{
    return status != DLOCK_OK && (err->code == 1142 || err->code == 1143 || err->code == 1146);
}

/* ---- all tables ---- */

enum kind { NUMBER, NAME, TOKEN, LABEL, WORD };

struct column {
    unsigned strategies; /* bits */
    const char *table, *name;
    enum kind kind;
    bool key;
};

#define ROW     (1u << MY_ROW)
#define INSERT  (1u << MY_INSERT)
#define SESSION (1u << MY_SESSION)
#define ALL     (ROW | INSERT | SESSION)

/* Table by table; the first columns are the primary key. */
static const struct column columns[] = {
    {ALL, "meta", "id", NUMBER, true},
    {ALL, "meta", "strategy", WORD, false},
    {ALL, "meta", "version", NUMBER, false},
    {ALL, "names", "name", NAME, true},
    {ROW, "names", "fence", NUMBER, false},
    {ROW | INSERT, "names", "token", TOKEN, false},
    {ROW | INSERT, "names", "since_us", NUMBER, false},
    {ROW | INSERT, "names", "until_us", NUMBER, false},
    {ROW | INSERT, "names", "readers_us", NUMBER, false},
    {ROW | INSERT, "names", "label", LABEL, false},
    {ROW, "names", "next_token", TOKEN, false},
    {ROW, "names", "next_us", NUMBER, false},
    {ALL, "readers", "name", NAME, true},
    {ALL, "readers", "token", TOKEN, true},
    {ALL, "readers", "since_us", NUMBER, false},
    {ROW | INSERT, "readers", "until_us", NUMBER, false},
    {SESSION, "readers", "conn", NUMBER, false},
    {ALL, "readers", "label", LABEL, false},
    {INSERT | SESSION, "fences", "name", NAME, true},
    {INSERT | SESSION, "fences", "fence", NUMBER, false},
    {INSERT, "fences", "next_token", TOKEN, false},
    {INSERT, "fences", "next_us", NUMBER, false},
    {SESSION, "fences", "token", TOKEN, false},
    {SESSION, "fences", "since_us", NUMBER, false},
    {SESSION, "fences", "conn", NUMBER, false},
    {SESSION, "fences", "label", LABEL, false},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

#define KEY_SIZE 64

/* The type in CREATE TABLE; in the answer of SHOW CREATE TABLE; and of other servers, or NULL. */
static const struct {
    const char *ddl, *text, *other_text;
} kinds[] = {
    [NUMBER] = {"BIGINT NOT NULL", "bigint(20) NOT NULL", "bigint NOT NULL"},
    [NAME] = {"VARBINARY(255) NOT NULL", "varbinary(255) NOT NULL", NULL},
    [TOKEN] = {"VARBINARY(16) NOT NULL", "varbinary(16) NOT NULL", NULL},
    [LABEL] = {"VARBINARY(255) NOT NULL", "varbinary(255) NOT NULL", NULL},
    [WORD] = {"VARBINARY(16) NOT NULL", "varbinary(16) NOT NULL", NULL},
};

static bool wanted(const struct my_connection *conn, size_t i)
{
    return (columns[i].strategies & 1u << conn->config->strategy) != 0;
}

/* Runs one statement or several, with table names in braces. */
static enum dlock_status schema_query(struct my_connection *conn, const char *text,
                                      struct dlock_error *err)
{
    char expanded[2048];
    struct my_results results = {.count = 0};
    enum dlock_status status = DLOCK_INTERNAL;

    if (!my_statements_expand(text, conn->config->prefix, expanded, sizeof expanded))
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "the table prefix is too long");
    status = my_query_script(conn, expanded, &results, err);
    my_query_results_free(&results);
    return status;
}

/* The first column of the next table of this strategy; COLUMNS: none is left. */
static size_t table_next(const struct my_connection *conn, size_t i)
{
    while (i < COLUMNS && (!wanted(conn, i) || !columns[i].key ||
                           (i > 0 && strcmp(columns[i].table, columns[i - 1].table) == 0)))
        i++;
    return i;
}

/* Whether column j is one of the table that begins at column i. */
static bool belongs(size_t i, size_t j)
{
    return j < COLUMNS && strcmp(columns[j].table, columns[i].table) == 0;
}

/* "PRIMARY KEY (`name`,`token`)" */
static void key_make(size_t i, char *text, size_t size)
{
    size_t len = (size_t)snprintf(text, size, "PRIMARY KEY (");

    for (size_t j = i; belongs(i, j) && columns[j].key; j++)
        len +=
            (size_t)snprintf(text + len, size - len, "%s`%s`", j > i ? "," : "", columns[j].name);
    (void)snprintf(text + len, size - len, ")");
}

static enum dlock_status table_create(struct my_connection *conn, size_t i, struct dlock_error *err)
{
    char text[1024], key[KEY_SIZE];
    size_t len =
        (size_t)snprintf(text, sizeof text, "CREATE TABLE IF NOT EXISTS {%s} (", columns[i].table);

    for (size_t j = i; belongs(i, j); j++) {
        if (wanted(conn, j))
            len += (size_t)snprintf(text + len, sizeof text - len, "%s %s, ", columns[j].name,
                                    kinds[columns[j].kind].ddl);
    }
    key_make(i, key, sizeof key);
    (void)snprintf(text + len, sizeof text - len, "%s) ENGINE=InnoDB", key);
    return schema_query(conn, text, err);
}

static enum dlock_status tables_create(struct my_connection *conn, struct dlock_error *err)
{
    char text[256];
    enum dlock_status status = DLOCK_OK;

    for (size_t i = table_next(conn, 0); i < COLUMNS && status == DLOCK_OK;
         i = table_next(conn, i + 1))
        status = table_create(conn, i, err);
    if (status == DLOCK_OK) /* before {meta} says that the tables are there */
        status = added_create(conn, err);
    if (status != DLOCK_OK)
        return status;
    (void)snprintf(text, sizeof text,
                   "INSERT IGNORE INTO {meta} (id, strategy, version) VALUES (1, '%s', %d);COMMIT",
                   conn->config->strategy_name, MY_SCHEMA_VERSION);
    return schema_query(conn, text, err);
}

enum dlock_status my_schema_create(struct my_connection *conn, struct dlock_error *err)
{
    if (!conn->config->create)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NO_STORE, 1146,
                          "%s: database %.64s has no tables %s*, and create=off",
                          conn->config->endpoint, conn->config->database, conn->config->prefix);
    return tables_create(conn, err);
}

/* ---- checks ---- */

static enum dlock_status other_strategy(const struct my_connection *conn, const char *found,
                                        struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: the tables %s* of %.40s are for strategy=%.16s, not %s; "
                      "choose another table_prefix",
                      conn->config->endpoint, conn->config->prefix, conn->config->database, found,
                      conn->config->strategy_name);
}

static enum dlock_status meta_check(struct my_connection *conn, MYSQL_RES *answer, bool *missing,
                                    struct dlock_error *err)
{
    MYSQL_ROW row = NULL;

    if (answer == NULL || mysql_num_fields(answer) != 2)
        return my_connection_bad_reply(conn, err);
    row = mysql_fetch_row(answer);
    *missing = row == NULL || row[0] == NULL || row[1] == NULL;
    if (*missing)
        return DLOCK_OK;
    if (strcmp(row[0], conn->config->strategy_name) != 0)
        return other_strategy(conn, row[0], err);
    if (strtol(row[1], NULL, 10) != MY_SCHEMA_VERSION)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: the tables %s* have version %.16s, this plugin knows %d",
                          conn->config->endpoint, conn->config->prefix, row[1], MY_SCHEMA_VERSION);
    return DLOCK_OK;
}

/* column NULL: the table itself. */
static enum dlock_status table_bad(const struct my_connection *conn, size_t i, const char *column,
                                   const char *what, struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, "%s: table %s%s%s%s: %s",
                      conn->config->endpoint, conn->config->prefix, columns[i].table,
                      column != NULL ? ", column " : "", column != NULL ? column : "", what);
}

static bool begins_with(const char *text, const char *with)
{
    return with != NULL && strncmp(text, with, strlen(with)) == 0;
}

static enum dlock_status column_check(const struct my_connection *conn, size_t i,
                                      const char *table_text, struct dlock_error *err)
{
    char before[64];
    const char *at = NULL;

    (void)snprintf(before, sizeof before, "\n  `%s` ", columns[i].name);
    at = strstr(table_text, before);
    if (at == NULL)
        return table_bad(conn, i, columns[i].name, "is not there", err);
    at += strlen(before);
    if (begins_with(at, kinds[columns[i].kind].text) ||
        begins_with(at, kinds[columns[i].kind].other_text))
        return DLOCK_OK;
    return table_bad(conn, i, columns[i].name, "has another type, which does not compare bytes",
                     err);
}

/* The table that begins at column i, as SHOW CREATE TABLE shows it. */
static enum dlock_status table_check(struct my_connection *conn, size_t i, MYSQL_RES *answer,
                                     struct dlock_error *err)
{
    char key[KEY_SIZE];
    MYSQL_ROW row = answer != NULL ? mysql_fetch_row(answer) : NULL;
    const char *engine = NULL;
    enum dlock_status status = DLOCK_OK;

    if (row == NULL || mysql_num_fields(answer) < 2 || row[1] == NULL)
        return my_connection_bad_reply(conn, err);
    if (!begins_with(row[1], "CREATE TABLE "))
        return table_bad(conn, i, NULL, "not a table but a view, or a temporary table", err);
    engine = strstr(row[1], "\n) ENGINE=");
    if (engine == NULL || !begins_with(engine, "\n) ENGINE=InnoDB"))
        return table_bad(conn, i, NULL, "the engine is not InnoDB, rows are not locked", err);
    for (size_t j = i; belongs(i, j) && status == DLOCK_OK; j++) {
        if (wanted(conn, j))
            status = column_check(conn, j, row[1], err);
    }
    key_make(i, key, sizeof key);
    if (status == DLOCK_OK && strstr(row[1], key) == NULL)
        status = table_bad(conn, i, NULL, "the primary key is another one", err);
    return status;
}

void my_schema_queries(FILE *out, const struct my_connection *conn, bool full)
{
    const char *prefix = conn->config->prefix;

    (void)fprintf(out, ";SELECT strategy,version FROM `%smeta` WHERE id=1", prefix);
    for (size_t i = table_next(conn, 0); full && i < COLUMNS; i = table_next(conn, i + 1))
        (void)fprintf(out, ";SHOW CREATE TABLE `%s%s`", prefix, columns[i].table);
    if (full)
        added_queries(out, conn);
}

enum dlock_status my_schema_check(struct my_connection *conn, MYSQL_RES *const *answers,
                                  size_t count, bool full, bool *missing, struct dlock_error *err)
{
    size_t i = table_next(conn, 0);
    size_t n = 1;
    enum dlock_status status = meta_check(conn, answers[0], missing, err);

    if (!full || *missing)
        return status;
    for (; n < count && status == DLOCK_OK && i < COLUMNS; n++) {
        status = table_check(conn, i, answers[n], err);
        i = table_next(conn, i + 1);
    }
    if (status == DLOCK_OK && i == COLUMNS && n + ADDED_TABLES <= count &&
        conn->config->strategy != MY_SESSION)
        status = added_check(conn, answers + n, err);
    if (status == DLOCK_OK && i == COLUMNS)
        atomic_store(&conn->tables->checked_ns, my_connection_now(conn));
    return status;
}

enum dlock_status my_schema_recheck(struct my_connection *conn, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    enum dlock_status status = DLOCK_NOMEM;
    bool missing = false;

    if (out == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    my_schema_queries(out, conn, true);
    if (fclose(out) == 0)
        status = my_query_script(conn, text + 1, &results, err);
    free(text);
    if (status == DLOCK_OK)
        status = my_schema_check(conn, results.list, results.count, true, &missing, err);
    my_query_results_free(&results);
    if (status == DLOCK_OK)
        added_note(conn);
    if (status == DLOCK_OK && missing)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1146, "%s: the tables %s* are gone",
                          conn->config->endpoint, conn->config->prefix);
    return status;
}
