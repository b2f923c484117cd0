/* SPDX-License-Identifier: MIT */
/*
 * The tables, version 1. One prefix serves one strategy, which {meta} names: a name used under two
 * of them would be two locks.
 *
 * Times are microseconds since 1970, UTC, of the server. Names and tokens are VARBINARY, which
 * compares bytes; CHAR and VARCHAR would fold case and ignore spaces at the end.
 *
 *   row      {names}   a row a name for ever: fence, the exclusive holder (token, until_us), and
 * until when readers may hold it (readers_us, the greatest of theirs) {readers} a row a reader.
 * While next_us is in the future, next_token alone may take the name insert   {names}   a row a
 * name that is held; {readers} as above; {fences} a row a name for ever, with next_token and
 * next_us session  {names}   a row a name for ever, whose InnoDB row lock is the lock {fences}  a
 * row a name for ever: fence, and who got it last, through which connection {readers} who got it
 * shared
 */
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

static const struct {
    const char *ddl, *type, *length;
} kinds[] = {
    [NUMBER] = {"BIGINT", "bigint", NULL},
    [NAME] = {"VARBINARY(255)", "varbinary", "255"},
    [TOKEN] = {"VARBINARY(16)", "varbinary", "16"},
    [LABEL] = {"VARBINARY(255)", "varbinary", "255"},
    [WORD] = {"VARBINARY(16)", "varbinary", "16"},
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

static enum dlock_status too_long(struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "the table prefix is too long");
}

/* Runs text with table names in braces. */
static enum dlock_status schema_query(struct my_conn *conn, const char *text,
                                      struct dlock_error *err)
{
    char expanded[2048];

    if (my_schema_expand(text, conn->place->prefix, expanded, sizeof expanded) != 0)
        return too_long(err);
    return my_conn_query(conn, expanded, err);
}

/* CREATE of the table whose columns begin at *i, which moves on behind it. */
static enum dlock_status table_create(struct my_conn *conn, size_t *i, struct dlock_error *err)
{
    const char *table = columns[*i].table;
    char text[1024], key[128] = "";
    size_t len = 0, key_len = 0;

    len += (size_t)snprintf(text, sizeof text, "CREATE TABLE IF NOT EXISTS {%s} (", table);
    for (; *i < COLUMNS && strcmp(columns[*i].table, table) == 0; ++*i) {
        const struct column *column = &columns[*i];

        if (!wanted(conn, *i))
            continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s %s NOT NULL, ", column->name,
                                kinds[column->kind].ddl);
        if (column->key)
            key_len += (size_t)snprintf(key + key_len, sizeof key - key_len, "%s%s",
                                        key_len > 0 ? ", " : "", column->name);
    }
    if (key_len == 0)
        return DLOCK_OK; /* not of this strategy */
    (void)snprintf(text + len, sizeof text - len, "PRIMARY KEY (%s)) ENGINE=InnoDB", key);
    return schema_query(conn, text, err);
}

static enum dlock_status tables_create(struct my_conn *conn, struct dlock_error *err)
{
    char text[256];
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < COLUMNS && status == DLOCK_OK;)
        status = table_create(conn, &i, err);
    if (status != DLOCK_OK)
        return status;
    (void)snprintf(text, sizeof text,
                   "INSERT IGNORE INTO {meta} (id, strategy, version) VALUES (1, '%s', %d)",
                   conn->place->strategy_name, MY_SCHEMA_VERSION);
    return schema_query(conn, text, err);
}

static enum dlock_status other_strategy(const struct my_conn *conn, const char *found,
                                        struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: the tables %s* of %.40s are for strategy=%.16s, not %s; "
                      "choose another table_prefix",
                      conn->place->endpoint, conn->place->prefix, conn->place->database, found,
                      conn->place->strategy_name);
}

/* OK and *there, or CONFIG. */
static enum dlock_status meta_check(struct my_conn *conn, int *there, struct dlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    char text[128];
    enum dlock_status status = DLOCK_INTERNAL;

    *there = 0;
    if (my_schema_expand("SELECT strategy, version FROM {meta} WHERE id = 1", conn->place->prefix,
                         text, sizeof text) != 0)
        return too_long(err);
    status = my_conn_select(conn, text, 2, &result, err);
    if (status != DLOCK_OK)
        return err->backend_code == 1146 ? DLOCK_OK : status;
    row = mysql_fetch_row(result);
    if (row != NULL && row[0] != NULL && row[1] != NULL) {
        *there = 1;
        if (strcmp(row[0], conn->place->strategy_name) != 0)
            status = other_strategy(conn, row[0], err);
        else if (strtol(row[1], NULL, 10) != MY_SCHEMA_VERSION)
            status =
                dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                           "%s: the tables %s* have version %.16s, this plugin knows %d",
                           conn->place->endpoint, conn->place->prefix, row[1], MY_SCHEMA_VERSION);
    }
    mysql_free_result(result);
    return status;
}

static enum dlock_status column_bad(const struct my_conn *conn, const struct column *column,
                                    const char *what, struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, "%s: table %s%s, column %s: %.120s",
                      conn->place->endpoint, conn->place->prefix, column->table, column->name,
                      what);
}

/* A row: table, column, type, length, key, engine, kind of table. */
static enum dlock_status column_check(const struct my_conn *conn, const struct column *column,
                                      MYSQL_ROW row, struct dlock_error *err)
{
    const char *length = kinds[column->kind].length;

    if (row[5] == NULL || strcmp(row[5], "InnoDB") != 0)
        return column_bad(conn, column, "the engine is not InnoDB, rows are not locked", err);
    if (row[6] == NULL || strcmp(row[6], "BASE TABLE") != 0)
        return column_bad(conn, column, "not a table but a view", err);
    if (row[2] == NULL || strcasecmp(row[2], kinds[column->kind].type) != 0 ||
        (length != NULL && (row[3] == NULL || strcmp(row[3], length) != 0)))
        return column_bad(conn, column, "has another type, which does not compare bytes", err);
    if (column->key != (row[4] != NULL && strcmp(row[4], "PRI") == 0))
        return column_bad(conn, column, "the primary key is another one", err);
    return DLOCK_OK;
}

static const struct column *column_find(const struct my_conn *conn, MYSQL_ROW row, size_t *i)
{
    size_t prefix = strlen(conn->place->prefix);

    for (*i = 0; *i < COLUMNS; ++*i) {
        if (wanted(conn, *i) && row[0] != NULL && row[1] != NULL && strlen(row[0]) > prefix &&
            strcmp(row[0] + prefix, columns[*i].table) == 0 &&
            strcmp(row[1], columns[*i].name) == 0)
            return &columns[*i];
    }
    return NULL;
}

static enum dlock_status columns_check(struct my_conn *conn, MYSQL_RES *result,
                                       struct dlock_error *err)
{
    unsigned seen = 0;
    MYSQL_ROW row = NULL;

    while ((row = mysql_fetch_row(result)) != NULL) {
        size_t i = 0;
        const struct column *column = column_find(conn, row, &i);
        enum dlock_status status = DLOCK_OK;

        if (column == NULL)
            continue;
        seen |= 1u << i;
        status = column_check(conn, column, row, err);
        if (status != DLOCK_OK)
            return status;
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        if (wanted(conn, i) && (seen & 1u << i) == 0)
            return column_bad(conn, &columns[i], "is not there", err);
    }
    return DLOCK_OK;
}

#define TABLES_QUERY                                                               \
    "SELECT c.table_name, c.column_name, c.data_type, c.character_maximum_length," \
    " c.column_key, t.engine, t.table_type"                                        \
    " FROM information_schema.columns c JOIN information_schema.tables t"          \
    " ON t.table_schema = c.table_schema AND t.table_name = c.table_name"          \
    " WHERE c.table_schema = DATABASE() AND c.table_name IN"                       \
    " ('%smeta', '%snames', '%sreaders', '%sfences')"

enum dlock_status my_schema_check(struct my_conn *conn, struct dlock_error *err)
{
    const char *prefix = conn->place->prefix;
    char text[sizeof TABLES_QUERY + 4 * (size_t)MY_PREFIX_MAX];
    MYSQL_RES *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)snprintf(text, sizeof text, TABLES_QUERY, prefix, prefix, prefix, prefix);
    status = my_conn_select(conn, text, 7, &result, err);
    if (status == DLOCK_OK)
        status = columns_check(conn, result, err);
    if (result != NULL)
        mysql_free_result(result);
    return status;
}

static enum dlock_status schema_create(struct my_conn *conn, struct dlock_error *err)
{
    int there = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->place->create)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1146,
                          "%s: database %.64s has no tables %s*, and create=off",
                          conn->place->endpoint, conn->place->database, conn->place->prefix);
    status = tables_create(conn, err);
    return status == DLOCK_OK ? meta_check(conn, &there, err) : status;
}

enum dlock_status my_schema(struct my_conn *conn, struct dlock_error *err)
{
    int there = 0;
    enum dlock_status status = meta_check(conn, &there, err);

    if (status == DLOCK_OK && !there)
        status = schema_create(conn, err);
    else if (status == DLOCK_OK && my_side_checked(conn->side))
        return DLOCK_OK;
    if (status == DLOCK_OK)
        status = my_schema_check(conn, err);
    if (status == DLOCK_OK)
        my_side_check(conn->side);
    return status;
}
