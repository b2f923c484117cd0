/* SPDX-License-Identifier: MIT */
#include "permit_table.h"

#include "query.h"

#include <string.h>

#define TABLE_SIZE 1024

static const char definition[] =
    "CREATE TABLE IF NOT EXISTS {permits} (name VARBINARY(255) NOT NULL,"
    " token VARBINARY(16) NOT NULL, since_us BIGINT NOT NULL, until_us BIGINT NOT NULL,"
    " label VARBINARY(255) NOT NULL, fence BIGINT NOT NULL, lim BIGINT NOT NULL,"
    " permit BIGINT NOT NULL, kept BIGINT NOT NULL, PRIMARY KEY (name,token)) ENGINE=InnoDB";

/* The answer to the query: of each column name, type and key. */
static const char columns[] =
    "name varbinary(255) PRI,token varbinary(16) PRI,since_us bigint ,until_us bigint ,"
    "label varbinary(255) ,fence bigint ,lim bigint ,permit bigint ,kept bigint ";

void my_permit_table_query(FILE *out, const struct my_connection *conn)
{
    if (conn->config->strategy == MY_SESSION)
        return;
    (void)fprintf(out,
                  ";SELECT MAX(t.engine), GROUP_CONCAT(c.column_name, ' ',"
                  " REPLACE(c.column_type, 'bigint(20)', 'bigint'), ' ', c.column_key"
                  " ORDER BY c.ordinal_position) FROM information_schema.tables t"
                  " JOIN information_schema.columns c"
                  " WHERE t.table_schema = DATABASE() AND t.table_name = '%spermits'"
                  " AND c.table_schema = DATABASE() AND c.table_name = '%spermits'",
                  conn->config->prefix, conn->config->prefix);
}

enum dlock_status my_permit_table_check(struct my_connection *conn, MYSQL_RES *answer,
                                        struct dlock_error *err)
{
    MYSQL_ROW row = answer != NULL ? mysql_fetch_row(answer) : NULL;

    if (row == NULL || mysql_num_fields(answer) != 2)
        return my_connection_bad_reply(conn, err);
    atomic_store(&conn->tables->has_permits, row[1] != NULL);
    if (row[1] == NULL ||
        (row[0] != NULL && strcmp(row[0], "InnoDB") == 0 && strcmp(row[1], columns) == 0))
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: table %spermits: not an InnoDB table with the columns of README.md",
                      conn->config->endpoint, conn->config->prefix);
}

enum dlock_status my_permit_table_ensure(struct my_connection *conn, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char text[TABLE_SIZE];
    enum dlock_status status = DLOCK_INTERNAL;

    if (conn->config->strategy == MY_SESSION || !conn->config->create ||
        atomic_load(&conn->tables->has_permits))
        return DLOCK_OK;
    if (!my_statements_expand(definition, conn->config->prefix, text, sizeof text))
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "the table prefix is too long");
    status = my_query_script(conn, text, &results, err);
    my_query_results_free(&results);
    if (status == DLOCK_OK)
        atomic_store(&conn->tables->has_permits, true);
    return status == DLOCK_AUTH ? DLOCK_OK : status;
}

bool my_permit_table_is_hidden(enum dlock_status status, const struct dlock_error *err)
{
    return status != DLOCK_OK && (err->code == 1142 || err->code == 1143 || err->code == 1146);
}
