/* SPDX-License-Identifier: MIT */
#include "added_table.h"

#include "query.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_SIZE 1024

/* columns: the answer to the query: of each column name, type and key. */
static const struct {
    const char *name, *definition, *columns;
} tables[MY_ADDED_TABLES] = {
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

void my_added_table_queries(FILE *out, const struct my_connection *conn)
{
    const char *prefix = conn->config->prefix;

    for (size_t i = 0; conn->config->strategy != MY_SESSION && i < MY_ADDED_TABLES; i++)
        (void)fprintf(out,
                      ";SELECT MAX(t.engine), GROUP_CONCAT(c.column_name, ' ',"
                      " REPLACE(c.column_type, 'bigint(20)', 'bigint'), ' ', c.column_key"
                      " ORDER BY c.ordinal_position) FROM information_schema.tables t"
                      " JOIN information_schema.columns c"
                      " WHERE t.table_schema = DATABASE() AND t.table_name = '%s%s'"
                      " AND c.table_schema = DATABASE() AND c.table_name = '%s%s'",
                      prefix, tables[i].name, prefix, tables[i].name);
}

static enum dlock_status table_check(struct my_connection *conn, size_t i, MYSQL_RES *answer,
                                     struct dlock_error *err)
{
    MYSQL_ROW row = answer != NULL ? mysql_fetch_row(answer) : NULL;

    if (row == NULL || mysql_num_fields(answer) != 2)
        return my_connection_bad_reply(conn, err);
    conn->lacks[i] = row[1] == NULL;
    if (!conn->lacks[i])
        atomic_store(is_there(conn, i), true);
    if (conn->lacks[i] ||
        (row[0] != NULL && strcmp(row[0], "InnoDB") == 0 && strcmp(row[1], tables[i].columns) == 0))
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: table %s%s: not an InnoDB table with the columns of README.md",
                      conn->config->endpoint, conn->config->prefix, tables[i].name);
}

enum dlock_status my_added_table_check(struct my_connection *conn,
                                       MYSQL_RES *const answers[MY_ADDED_TABLES],
                                       struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; status == DLOCK_OK && i < MY_ADDED_TABLES; i++)
        status = table_check(conn, i, answers[i], err);
    return status;
}

static enum dlock_status table_create(struct my_connection *conn, size_t i, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char text[TABLE_SIZE];
    enum dlock_status status = DLOCK_INTERNAL;

    if (!my_statements_expand(tables[i].definition, conn->config->prefix, text, sizeof text))
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "the table prefix is too long");
    status = my_query_script(conn, text, &results, err);
    my_query_results_free(&results);
    return status;
}

static enum dlock_status table_ensure(struct my_connection *conn, size_t i, bool *made,
                                      struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    const enum dlock_status status = table_create(conn, i, &why);

    if (status == DLOCK_OK)
        *made = true;
    if (status == DLOCK_OK || status == DLOCK_AUTH)
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
}

/* What was made may be there already, and this user may have no rights on it. */
static enum dlock_status tables_reread(struct my_connection *conn, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    enum dlock_status status = DLOCK_NOMEM;

    if (out == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    my_added_table_queries(out, conn);
    if (fclose(out) == 0)
        status = my_query_script(conn, text + 1, &results, err);
    free(text);
    if (status == DLOCK_OK && results.count != MY_ADDED_TABLES)
        status = my_connection_bad_reply(conn, err);
    if (status == DLOCK_OK)
        status = my_added_table_check(conn, results.list, err);
    my_query_results_free(&results);
    return status;
}

enum dlock_status my_added_table_create(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    bool made = false;

    for (size_t i = 0; conn->config->strategy != MY_SESSION && i < MY_ADDED_TABLES; i++)
        if (status == DLOCK_OK)
            status = table_ensure(conn, i, &made, err);
    return status;
}

void my_added_table_note(struct my_connection *conn)
{
    for (size_t i = 0; i < MY_ADDED_TABLES; i++)
        if (conn->lacks[i])
            atomic_store(is_there(conn, i), false);
}

enum dlock_status my_added_table_ensure(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    bool made = false;

    if (conn->config->strategy == MY_SESSION || !conn->config->create)
        return DLOCK_OK;
    for (size_t i = 0; status == DLOCK_OK && i < MY_ADDED_TABLES; i++)
        if (conn->lacks[i] || !atomic_load(is_there(conn, i)))
            status = table_ensure(conn, i, &made, err);
    return status == DLOCK_OK && made ? tables_reread(conn, err) : status;
}

bool my_added_table_is_hidden(enum dlock_status status, const struct dlock_error *err)
{
    return status != DLOCK_OK && (err->code == 1142 || err->code == 1143 || err->code == 1146);
}
