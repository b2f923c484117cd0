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
 *                       While next_us is in the future, next_token alone may take the name
 *            {readers}  a row a reader
 *   insert   {names}    a row a name that is held
 *            {readers}  as above
 *            {fences}   a row a name for ever, with next_token and next_us
 *   session  {names}    a row a name for ever, whose InnoDB row lock is the lock
 *            {fences}   a row a name for ever: fence, and who got it last, through which connection
 *            {readers}  who got it shared
 */
/* clang-format on */
#include "my.h"

#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, NAME, TOKEN, LABEL, WORD };

struct column {
    unsigned strategies; /* bits */
    const char *table, *name;
    enum kind kind;
    int key;
};

#define ROW     (1u << MY_ROW)
#define INSERT  (1u << MY_INSERT)
#define SESSION (1u << MY_SESSION)
#define ALL     (ROW | INSERT | SESSION)

/* Table by table; the first columns are the primary key. */
static const struct column columns[] = {
    {ALL, "meta", "id", NUMBER, 1},
    {ALL, "meta", "strategy", WORD, 0},
    {ALL, "meta", "version", NUMBER, 0},
    {ALL, "names", "name", NAME, 1},
    {ROW, "names", "fence", NUMBER, 0},
    {ROW | INSERT, "names", "token", TOKEN, 0},
    {ROW | INSERT, "names", "since_us", NUMBER, 0},
    {ROW | INSERT, "names", "until_us", NUMBER, 0},
    {ROW | INSERT, "names", "readers_us", NUMBER, 0},
    {ROW | INSERT, "names", "label", LABEL, 0},
    {ROW, "names", "next_token", TOKEN, 0},
    {ROW, "names", "next_us", NUMBER, 0},
    {ALL, "readers", "name", NAME, 1},
    {ALL, "readers", "token", TOKEN, 1},
    {ALL, "readers", "since_us", NUMBER, 0},
    {ROW | INSERT, "readers", "until_us", NUMBER, 0},
    {SESSION, "readers", "conn", NUMBER, 0},
    {ALL, "readers", "label", LABEL, 0},
    {INSERT | SESSION, "fences", "name", NAME, 1},
    {INSERT | SESSION, "fences", "fence", NUMBER, 0},
    {INSERT, "fences", "next_token", TOKEN, 0},
    {INSERT, "fences", "next_us", NUMBER, 0},
    {SESSION, "fences", "token", TOKEN, 0},
    {SESSION, "fences", "since_us", NUMBER, 0},
    {SESSION, "fences", "conn", NUMBER, 0},
    {SESSION, "fences", "label", LABEL, 0},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

#define KEY_SIZE 64

/* As we make them; as SHOW CREATE TABLE shows them; and as it does elsewhere, or NULL. */
static const struct {
    const char *ddl, *shown, *other;
} kinds[] = {
    [NUMBER] = {"BIGINT NOT NULL", "bigint(20) NOT NULL", "bigint NOT NULL"},
    [NAME] = {"VARBINARY(255) NOT NULL", "varbinary(255) NOT NULL", NULL},
    [TOKEN] = {"VARBINARY(16) NOT NULL", "varbinary(16) NOT NULL", NULL},
    [LABEL] = {"VARBINARY(255) NOT NULL", "varbinary(255) NOT NULL", NULL},
    [WORD] = {"VARBINARY(16) NOT NULL", "varbinary(16) NOT NULL", NULL},
};

int my_schema_expand(const char *text, const char *prefix, char *out, size_t size)
{
    size_t len = 0;

    for (; *text != '\0'; text++) {
        int more = 1;

        if (*text == '{')
            more = snprintf(out + len, size - len, "`%s", prefix);
        else
            out[len] = *text == '}' ? '`' : *text;
        len += (size_t)more;
        if (len + 1 >= size)
            return -1;
    }
    out[len] = '\0';
    return 0;
}

static int wanted(const struct my_conn *conn, size_t i)
{
    return (columns[i].strategies & 1u << conn->place->strategy) != 0;
}

/* Runs one statement or several, with table names in braces. */
static enum dlock_status schema_query(struct my_conn *conn, const char *text,
                                      struct dlock_error *err)
{
    char expanded[2048];
    struct my_results results = {.count = 0};
    enum dlock_status status = DLOCK_INTERNAL;

    if (my_schema_expand(text, conn->place->prefix, expanded, sizeof expanded) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "the table prefix is too long");
    status = my_conn_script(conn, expanded, &results, err);
    my_results_free(&results);
    return status;
}

/* The first column of the next table of this strategy; COLUMNS: none is left. */
static size_t table_next(const struct my_conn *conn, size_t i)
{
    while (i < COLUMNS && (!wanted(conn, i) || !columns[i].key ||
                           (i > 0 && strcmp(columns[i].table, columns[i - 1].table) == 0)))
        i++;
    return i;
}

/* Whether column j is one of the table that begins at column i. */
static int belongs(size_t i, size_t j)
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

static enum dlock_status table_create(struct my_conn *conn, size_t i, struct dlock_error *err)
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

static enum dlock_status tables_create(struct my_conn *conn, struct dlock_error *err)
{
    char text[256];
    enum dlock_status status = DLOCK_OK;

    for (size_t i = table_next(conn, 0); i < COLUMNS && status == DLOCK_OK;
         i = table_next(conn, i + 1))
        status = table_create(conn, i, err);
    if (status != DLOCK_OK)
        return status;
    (void)snprintf(text, sizeof text,
                   "INSERT IGNORE INTO {meta} (id, strategy, version) VALUES (1, '%s', %d);COMMIT",
                   conn->place->strategy_name, MY_SCHEMA_VERSION);
    return schema_query(conn, text, err);
}

enum dlock_status my_schema_create(struct my_conn *conn, struct dlock_error *err)
{
    if (!conn->place->create)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NO_STORE, 1146,
                          "%s: database %.64s has no tables %s*, and create=off",
                          conn->place->endpoint, conn->place->database, conn->place->prefix);
    return tables_create(conn, err);
}

/* ---- what is there ---- */

static enum dlock_status other_strategy(const struct my_conn *conn, const char *found,
                                        struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: the tables %s* of %.40s are for strategy=%.16s, not %s; "
                      "choose another table_prefix",
                      conn->place->endpoint, conn->place->prefix, conn->place->database, found,
                      conn->place->strategy_name);
}

static enum dlock_status meta_check(struct my_conn *conn, MYSQL_RES *answer, int *missing,
                                    struct dlock_error *err)
{
    MYSQL_ROW row = NULL;

    if (answer == NULL || mysql_num_fields(answer) != 2)
        return my_conn_garbled(conn, err);
    row = mysql_fetch_row(answer);
    *missing = row == NULL || row[0] == NULL || row[1] == NULL;
    if (*missing)
        return DLOCK_OK;
    if (strcmp(row[0], conn->place->strategy_name) != 0)
        return other_strategy(conn, row[0], err);
    if (strtol(row[1], NULL, 10) != MY_SCHEMA_VERSION)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: the tables %s* have version %.16s, this plugin knows %d",
                          conn->place->endpoint, conn->place->prefix, row[1], MY_SCHEMA_VERSION);
    return DLOCK_OK;
}

static enum dlock_status table_bad(const struct my_conn *conn, size_t i, const char *what,
                                   struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, "%s: table %s%s: %s", conn->place->endpoint,
                      conn->place->prefix, columns[i].table, what);
}

static enum dlock_status column_bad(const struct my_conn *conn, size_t i, const char *what,
                                    struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, "%s: table %s%s, column %s: %s",
                      conn->place->endpoint, conn->place->prefix, columns[i].table, columns[i].name,
                      what);
}

static int begins_with(const char *text, const char *with)
{
    return with != NULL && strncmp(text, with, strlen(with)) == 0;
}

static enum dlock_status column_check(const struct my_conn *conn, size_t i, const char *shown,
                                      struct dlock_error *err)
{
    char before[64];
    const char *at = NULL;

    (void)snprintf(before, sizeof before, "\n  `%s` ", columns[i].name);
    at = strstr(shown, before);
    if (at == NULL)
        return column_bad(conn, i, "is not there", err);
    at += strlen(before);
    if (begins_with(at, kinds[columns[i].kind].shown) ||
        begins_with(at, kinds[columns[i].kind].other))
        return DLOCK_OK;
    return column_bad(conn, i, "has another type, which does not compare bytes", err);
}

/* The table that begins at column i, as SHOW CREATE TABLE shows it. */
static enum dlock_status table_check(struct my_conn *conn, size_t i, MYSQL_RES *answer,
                                     struct dlock_error *err)
{
    char key[KEY_SIZE];
    MYSQL_ROW row = answer != NULL ? mysql_fetch_row(answer) : NULL;
    const char *engine = NULL;
    enum dlock_status status = DLOCK_OK;

    if (row == NULL || mysql_num_fields(answer) < 2 || row[1] == NULL)
        return my_conn_garbled(conn, err);
    if (!begins_with(row[1], "CREATE TABLE "))
        return table_bad(conn, i, "not a table but a view, or a temporary table", err);
    engine = strstr(row[1], "\n) ENGINE=");
    if (engine == NULL || !begins_with(engine, "\n) ENGINE=InnoDB"))
        return table_bad(conn, i, "the engine is not InnoDB, rows are not locked", err);
    for (size_t j = i; belongs(i, j) && status == DLOCK_OK; j++) {
        if (wanted(conn, j))
            status = column_check(conn, j, row[1], err);
    }
    key_make(i, key, sizeof key);
    if (status == DLOCK_OK && strstr(row[1], key) == NULL)
        status = table_bad(conn, i, "the primary key is another one", err);
    return status;
}

void my_schema_ask(FILE *out, const struct my_conn *conn, int look)
{
    const char *prefix = conn->place->prefix;

    (void)fprintf(out, ";SELECT strategy,version FROM `%smeta` WHERE id=1", prefix);
    for (size_t i = table_next(conn, 0); look && i < COLUMNS; i = table_next(conn, i + 1))
        (void)fprintf(out, ";SHOW CREATE TABLE `%s%s`", prefix, columns[i].table);
}

enum dlock_status my_schema_check(struct my_conn *conn, MYSQL_RES *const *answers, size_t count,
                                  int look, int *missing, struct dlock_error *err)
{
    size_t i = table_next(conn, 0);
    enum dlock_status status = meta_check(conn, answers[0], missing, err);

    if (!look || *missing)
        return status;
    for (size_t n = 1; n < count && status == DLOCK_OK && i < COLUMNS; n++) {
        status = table_check(conn, i, answers[n], err);
        i = table_next(conn, i + 1);
    }
    if (status == DLOCK_OK && i == COLUMNS)
        my_side_check(conn->side);
    return status;
}

enum dlock_status my_schema_look(struct my_conn *conn, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    enum dlock_status status = DLOCK_NOMEM;
    int missing = 0;

    if (out == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    my_schema_ask(out, conn, 1);
    if (fclose(out) == 0)
        status = my_conn_script(conn, text + 1, &results, err);
    free(text);
    if (status == DLOCK_OK)
        status = my_schema_check(conn, results.list, results.count, 1, &missing, err);
    my_results_free(&results);
    if (status == DLOCK_OK && missing)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1146, "%s: the tables %s* are gone",
                          conn->place->endpoint, conn->place->prefix);
    return status;
}
