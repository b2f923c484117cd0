/* SPDX-License-Identifier: MIT */
/*
 * A session must not inherit settings from the server's defaults, from init_connect or from a
 * proxy. Each is set and then read back, because a setting that did not take is a lock that does
 * not hold. All of it, and the queries of schema.c, is one exchange.
 */
#include "open.h"

#include "connect.h"
#include "query.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

#define OF_MARIADB                                                                               \
    .name = "MariaDB", .statement_time = "max_statement_time", .statement_time_off = "0.000000", \
    .idle_transaction = true, .mariadb = true, .processlist = "information_schema.processlist",  \
    .share = "LOCK IN SHARE MODE", .at_once = "SET STATEMENT innodb_lock_wait_timeout=0 FOR ",   \
    .in_line = "SET STATEMENT max_statement_time=@i*0.00000075 FOR "

static const struct my_dialect mariadb10 = {OF_MARIADB, .isolation = "tx_isolation",
                                            .read_only = "tx_read_only"};

/* From 11.1 on, which deprecates the names above. */
static const struct my_dialect mariadb11 = {OF_MARIADB, .isolation = "transaction_isolation",
                                            .read_only = "transaction_read_only"};

/* Its information_schema.processlist fails while any statement with bytes in it runs, those of
 * other programs, too: it converts all texts. performance_schema has had the same table
 * since 8.0.22. */
static const struct my_dialect mysql8 = {
    .name = "MySQL",
    .isolation = "transaction_isolation",
    .read_only = "transaction_read_only",
    .statement_time = "max_execution_time",
    .statement_time_off = "0",
    .processlist = "performance_schema.processlist",
    .share = "FOR SHARE",
    .at_once = "",
};

struct setting {
    const char *name, *value; /* as SQL */
    const char *back;         /* as it reads afterwards; NULL: it cannot be read */
};

#define SETTINGS_MAX 24

/* Seconds until the server ends a session that stopped inside a transaction. Those of strategies
 * row and insert last for microseconds. */
#define STALL_S 5

#define HEAD_TEXT "3"
_Static_assert(MY_HEAD_S == 3, "HEAD_TEXT spells it out");

struct settings {
    struct setting list[SETTINGS_MAX];
    size_t count;
    char idle[24];
};

static void add(struct settings *settings, const char *name, const char *value, const char *back)
{
    if (settings->count < SETTINGS_MAX)
        settings->list[settings->count++] = (struct setting){name, value, back};
}

static void settings_make(const struct my_connection *conn, struct settings *settings)
{
    const struct my_dialect *dialect = conn->dialect;
    int64_t idle_s =
        conn->config->strategy == MY_SESSION ? (conn->config->grace_ms + 999) / 1000 : STALL_S;

    (void)snprintf(settings->idle, sizeof settings->idle, "%lld", (long long)idle_s);
    add(settings, "autocommit", "1", "1");
    add(settings, dialect->isolation, "'READ-COMMITTED'", "READ-COMMITTED");
    add(settings, dialect->read_only, "0", "0");
    add(settings, "completion_type", "0", "NO_CHAIN");
    add(settings, "sql_mode", "'STRICT_ALL_TABLES'", "STRICT_ALL_TABLES");
    add(settings, "time_zone", "'+00:00'", "+00:00");
    add(settings, "timestamp", "DEFAULT", NULL);
    add(settings, "character_set_client", "utf8mb4", "utf8mb4");
    add(settings, "character_set_connection", "utf8mb4", "utf8mb4");
    add(settings, "character_set_results", "utf8mb4", "utf8mb4");
    add(settings, "innodb_lock_wait_timeout", conn->config->strategy == MY_SESSION ? "60" : "1",
        conn->config->strategy == MY_SESSION ? "60" : "1");
    add(settings, dialect->statement_time, "0", dialect->statement_time_off);
    add(settings, "group_concat_max_len", "1024", "1024");
    add(settings, "sql_quote_show_create", "1", "1");
    add(settings, "sql_safe_updates", "0", "0");
    add(settings, "sql_big_selects", "1", "1");
    add(settings, "sql_select_limit", "18446744073709551615", "18446744073709551615");
    add(settings, "unique_checks", "1", "1");
    if (dialect->idle_transaction) {
        add(settings, "idle_transaction_timeout", settings->idle, settings->idle);
        add(settings, "idle_readonly_transaction_timeout", "0", "0"); /* else they end it first */
        add(settings, "idle_write_transaction_timeout", "0", "0");
    }
    if (conn->for_queue)
        add(settings, "wait_timeout", HEAD_TEXT, HEAD_TEXT);
    else if (!dialect->idle_transaction && conn->config->strategy == MY_SESSION)
        add(settings, "wait_timeout", settings->idle, settings->idle);
    else
        add(settings, "wait_timeout", "28800", "28800");
}

static enum dlock_status settings_compare(const struct my_connection *conn,
                                          const struct settings *settings, MYSQL_ROW row,
                                          struct dlock_error *err)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->list[i];

        if (setting->back == NULL || (row[i] != NULL && strcmp(row[i], setting->back) == 0))
            continue;
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: %s is %.60s in spite of SET, want %s", conn->config->endpoint,
                          setting->name, row[i] != NULL ? row[i] : "NULL", setting->back);
    }
    return DLOCK_OK;
}

#define SERVER_VALUES 5

/* Of a session of MariaDB: whether it is a node of a cluster; and whether InnoDB may refuse
 * each change, because the log is to have statements, and READ COMMITTED does not make them the
 * same elsewhere. Builds without Galera have no variable wsrep_on. */
#define IS_NODE                                                                      \
    "(SELECT COUNT(*) FROM information_schema.session_variables WHERE variable_name" \
    " = 'WSREP_ON' AND variable_value <> 'OFF')"
#define LOGS_STATEMENTS "@@GLOBAL.log_bin AND @@SESSION.binlog_format = 'STATEMENT'"

/* The longest text: a renewal of 64 leases with the longest names takes 40 KB, a batch 60 KB. */
#define PACKET_LEAST 65536

/* Whether the server can be written, by one node only, and keeps what it commits. */
static enum dlock_status server_check(struct my_connection *conn, char **values,
                                      struct dlock_error *err)
{
    const struct my_config *config = conn->config;

    if (values[0] != NULL && strcmp(values[0], "0") != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1290,
                          "%s: the server is read-only; a replica cannot keep locks",
                          config->endpoint);
    if (values[2] != NULL && strcmp(values[2], "0") != 0 && !config->galera)
        return dlock_fail(
            err, MY_ORIGIN, DLOCK_CONFIG, 0,
            "%s: a Galera node; if all clients use this one node, say unsafe_galera=on",
            config->endpoint);
    if (values[2] != NULL && strcmp(values[2], "0") != 0 && config->strategy == MY_SESSION)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: a Galera node: row locks are its own, strategy=session is not safe",
                          config->endpoint);
    conn->logs_statements = values[4] != NULL && strcmp(values[4], "0") != 0;
    if (values[3] != NULL && strtol(values[3], NULL, 10) < PACKET_LEAST)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1153,
                          "%s: max_allowed_packet is %.20s, want %d or more", config->endpoint,
                          values[3], PACKET_LEAST);
    conn->flush = values[1] != NULL ? strtol(values[1], NULL, 10) : 0;
    return DLOCK_OK;
}

/* Indexes of the script's answers. */
enum { SETTINGS_ANSWER = 3, SCHEMA_ANSWERS = 4 };

/* No statement names the database: init_connect, or a proxy, may have chosen another one. */
static void database_write(FILE *out, const char *name)
{
    (void)fputs(";USE `", out);
    for (; *name != '\0'; name++)
        (void)fprintf(out, "%s%c", *name == '`' ? "`" : "", *name);
    (void)fputc('`', out);
}

static void settings_write(FILE *out, const struct my_connection *conn,
                           const struct settings *settings)
{
    /* SET autocommit=1 ends no transaction where it is on already. */
    (void)fputs("ROLLBACK AND NO CHAIN NO RELEASE", out);
    database_write(out, conn->config->database);
    (void)fputs(";SET", out);
    for (size_t i = 0; i < settings->count; i++)
        (void)fprintf(out, "%s SESSION %s=%s", i > 0 ? "," : "", settings->list[i].name,
                      settings->list[i].value);
    (void)fputs(";SELECT ", out);
    for (size_t i = 0; i < settings->count; i++)
        (void)fprintf(out, "@@SESSION.%s,", settings->list[i].name);
    (void)fprintf(out, "@@GLOBAL.read_only,@@GLOBAL.innodb_flush_log_at_trx_commit,%s",
                  conn->dialect->mariadb ? IS_NODE : "0");
    (void)fprintf(out, ",@@SESSION.max_allowed_packet,%s",
                  conn->dialect->mariadb ? LOGS_STATEMENTS : "0");
}

/* For free(); NULL: no memory. */
static char *script_make(const struct my_connection *conn, const struct settings *settings,
                         bool full)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    settings_write(out, conn, settings);
    if (!conn->for_queue)
        my_schema_queries(out, conn, full);
    if (conn->for_row_lock)
        (void)fputs(";SET SESSION autocommit=0", out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static enum dlock_status settings_check(struct my_connection *conn, const struct settings *settings,
                                        MYSQL_RES *answer, struct dlock_error *err)
{
    MYSQL_ROW row = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (answer == NULL || mysql_num_fields(answer) != settings->count + SERVER_VALUES)
        return my_connection_bad_reply(conn, err);
    row = mysql_fetch_row(answer);
    if (row == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_PROTOCOL, 0, "%s: no settings to read",
                          conn->config->endpoint);
    status = settings_compare(conn, settings, row, err);
    return status == DLOCK_OK ? server_check(conn, row + settings->count, err) : status;
}

/* The state of the session that the server reports in each answer. */
static enum dlock_status state_check(struct my_connection *conn, struct dlock_error *err)
{
    if (my_query_is_in_transaction(conn))
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: the session begins in a transaction", conn->config->endpoint);
    if (my_query_autocommits(conn) == conn->for_row_lock)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, "%s: autocommit is %s in spite of SET",
                          conn->config->endpoint, conn->for_row_lock ? "on" : "off");
    return DLOCK_OK;
}

/* Checks the answers that have come, in their order: the first that is wrong says why. */
static enum dlock_status answers_check(struct my_connection *conn, const struct settings *settings,
                                       const struct my_results *results, bool full, bool *missing,
                                       struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (results->count > SETTINGS_ANSWER)
        status = settings_check(conn, settings, results->list[SETTINGS_ANSWER], err);
    if (status == DLOCK_OK && !conn->for_queue && results->count > SCHEMA_ANSWERS)
        status = my_schema_check(conn, results->list + SCHEMA_ANSWERS,
                                 results->count - SCHEMA_ANSWERS, full, missing, err);
    return status;
}

/* *missing: there are no tables. */
static enum dlock_status script_run(struct my_connection *conn, const struct settings *settings,
                                    bool *missing, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    const bool full =
        !conn->for_queue && !my_connection_tables_checked(conn->tables, my_connection_now(conn));
    char *text = script_make(conn, settings, full);
    enum dlock_status status = DLOCK_INTERNAL, checked = DLOCK_INTERNAL;

    *missing = false;
    if (text == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    status = my_query_script(conn, text, &results, err);
    free(text);
    if (results.count == SCHEMA_ANSWERS && status == DLOCK_CONFIG && err->code == 1146)
        *missing = true;
    checked = answers_check(conn, settings, &results, full, missing, err);
    my_query_results_free(&results);
    if (checked != DLOCK_OK || *missing)
        return checked;
    return status == DLOCK_OK ? state_check(conn, err) : status;
}

static enum dlock_status dialect_find(struct my_connection *conn, struct dlock_error *err)
{
    const char *version = mysql_get_server_info(conn->mysql);
    const unsigned long number = mysql_get_server_version(conn->mysql);

    if (version == NULL)
        version = "";
    if (strstr(version, "MariaDB") == NULL)
        conn->dialect = &mysql8;
    else
        conn->dialect = number < 110100 ? &mariadb10 : &mariadb11;
    (void)snprintf(conn->server, sizeof conn->server, "%s %.*s", conn->dialect->name,
                   (int)strcspn(version, "-"), version);
    if (number >= (conn->dialect->mariadb ? 100600 : 80022))
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: want MariaDB 10.6 or MySQL 8.0.22, not %s", conn->config->endpoint,
                      conn->server);
}

/* A change of nothing, which the server refuses as it would refuse others. It takes them if this
 * database is left out of the log. */
static enum dlock_status log_check(struct my_connection *conn, struct dlock_error *err)
{
    char text[96];
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->logs_statements || conn->for_queue)
        return DLOCK_OK;
    (void)snprintf(text, sizeof text, "UPDATE %snames SET name = name WHERE FALSE",
                   conn->config->prefix);
    status = my_query(conn, text, err);
    return status == DLOCK_OK ? my_query(conn, "ROLLBACK", err) : status;
}

static enum dlock_status tables_ensure(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = log_check(conn, err);

    return status == DLOCK_OK ? my_schema_added_ensure(conn, err) : status;
}

static enum dlock_status setup(struct my_connection *conn, struct dlock_error *err)
{
    struct settings settings = {.count = 0};
    enum dlock_status status = dialect_find(conn, err);
    bool missing = false;

    if (status != DLOCK_OK)
        return status;
    settings_make(conn, &settings);
    status = script_run(conn, &settings, &missing, err);
    if (status == DLOCK_OK && !missing && !conn->for_queue)
        return tables_ensure(conn, err);
    if (status != DLOCK_OK || !missing)
        return status;
    status = my_schema_create(conn, err);
    if (status == DLOCK_OK)
        status = script_run(conn, &settings, &missing, err);
    if (status == DLOCK_OK && !missing)
        status = tables_ensure(conn, err);
    if (status == DLOCK_OK && missing)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1146, "%s: the tables %s* are gone again",
                            conn->config->endpoint, conn->config->prefix);
    return status;
}

static enum dlock_status set_up(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = setup(conn, err);

    if (status != DLOCK_CONFIG || err->code != 1665)
        return status;
    return dlock_fail(err, MY_ORIGIN, status, 1665,
                      "%s: binlog_format=STATEMENT takes no change of InnoDB's READ COMMITTED: "
                      "SET GLOBAL binlog_format=ROW, or MIXED",
                      conn->config->endpoint);
}

enum dlock_status my_open(struct my_connection *conn, int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    conn->tls = conn->config->tls;
    spin_init(&conn->spin, conn->config->spin && !conn->for_queue ? spin_processors() : 0);
    status = my_connect(conn, err);
    conn->in_transaction = true; /* no statement of the setup takes a lock */
    if (status == DLOCK_OK)
        status = set_up(conn, err);
    conn->in_transaction = false;
    conn->opened_ns = my_connection_now(conn);
    return status;
}
