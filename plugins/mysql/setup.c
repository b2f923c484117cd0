/* SPDX-License-Identifier: MIT */
/*
 * What a session must not inherit from the server's defaults, from init_connect or from a proxy: it
 * is set, and then read back, because a setting that did not take is a lock that does not hold.
 */
#include "my.h"

#include <stdlib.h>
#include <string.h>

static const struct my_dialect mariadb = {
    .name = "MariaDB",
    .isolation = "tx_isolation",
    .read_only = "tx_read_only",
    .statement_time = "max_statement_time",
    .statement_time_off = "0.000000",
    .idle_transaction = 1,
    .galera = 1,
    .share = "LOCK IN SHARE MODE",
    .at_once = "SET STATEMENT innodb_lock_wait_timeout=0 FOR ",
};

/* From the manual of MySQL 8.0; never run. */
static const struct my_dialect mysql8 = {
    .name = "MySQL",
    .isolation = "transaction_isolation",
    .read_only = "transaction_read_only",
    .statement_time = "max_execution_time",
    .statement_time_off = "0",
    .share = "FOR SHARE",
    .at_once = "",
};

struct setting {
    const char *name, *value; /* as SQL */
    const char *back;         /* as it reads afterwards; NULL: not to be seen */
};

#define SETTINGS_MAX 24

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

static void settings_make(const struct my_conn *conn, struct settings *settings)
{
    const struct my_dialect *dialect = conn->dialect;
    int64_t idle_s =
        conn->place->strategy == MY_SESSION ? (conn->place->grace_ms + 999) / 1000 : MY_STALL_S;

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
    add(settings, "innodb_lock_wait_timeout", conn->place->strategy == MY_SESSION ? "60" : "1",
        conn->place->strategy == MY_SESSION ? "60" : "1");
    add(settings, dialect->statement_time, "0", dialect->statement_time_off);
    add(settings, "sql_safe_updates", "0", "0");
    add(settings, "sql_big_selects", "1", "1");
    add(settings, "sql_select_limit", "18446744073709551615", "18446744073709551615");
    add(settings, "unique_checks", "1", "1");
    if (dialect->idle_transaction)
        add(settings, "idle_transaction_timeout", settings->idle, settings->idle);
    if (conn->queue)
        add(settings, "wait_timeout", HEAD_TEXT, HEAD_TEXT);
    else if (!dialect->idle_transaction && conn->place->strategy == MY_SESSION)
        add(settings, "wait_timeout", settings->idle, settings->idle);
    else
        add(settings, "wait_timeout", "28800", "28800");
}

static enum dlock_status settings_pin(struct my_conn *conn, const struct settings *settings,
                                      struct dlock_error *err)
{
    char text[2048] = "SET ";
    size_t len = strlen(text);

    for (size_t i = 0; i < settings->count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s SESSION %s=%s", i > 0 ? "," : "",
                                settings->list[i].name, settings->list[i].value);
    return my_conn_query(conn, text, err);
}

static enum dlock_status settings_compare(const struct my_conn *conn,
                                          const struct settings *settings, MYSQL_ROW row,
                                          struct dlock_error *err)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->list[i];

        if (setting->back == NULL || (row[i] != NULL && strcmp(row[i], setting->back) == 0))
            continue;
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: %s is %.60s in spite of SET, want %s", conn->place->endpoint,
                          setting->name, row[i] != NULL ? row[i] : "NULL", setting->back);
    }
    return DLOCK_OK;
}

/* The server itself: may it be written, by one node only, and does it keep what it commits? */
static enum dlock_status server_check(struct my_conn *conn, char **facts, struct dlock_error *err)
{
    const struct my_place *place = conn->place;

    if (facts[0] != NULL && strcmp(facts[0], "0") != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 1290,
                          "%s: the server is read-only; a replica cannot keep locks",
                          place->endpoint);
    if (facts[2] != NULL && strcmp(facts[2], "0") != 0 && !place->galera)
        return dlock_fail(
            err, MY_ORIGIN, DLOCK_CONFIG, 0,
            "%s: a Galera node; if all clients use this one node, say unsafe_galera=on",
            place->endpoint);
    if (facts[2] != NULL && strcmp(facts[2], "0") != 0 && place->strategy == MY_SESSION)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: a Galera node: row locks are its own, strategy=session is not safe",
                          place->endpoint);
    conn->durable = facts[1] != NULL && strcmp(facts[1], "1") == 0;
    return DLOCK_OK;
}

static enum dlock_status settings_check(struct my_conn *conn, const struct settings *settings,
                                        struct dlock_error *err)
{
    char text[2048] = "SELECT ";
    size_t len = strlen(text);
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    for (size_t i = 0; i < settings->count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "@@SESSION.%s,",
                                settings->list[i].name);
    (void)snprintf(text + len, sizeof text - len,
                   "@@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit, %s",
                   conn->dialect->galera ? "@@wsrep_on" : "0");
    status = my_conn_select(conn, text, (unsigned)settings->count + 3, &result, err);
    if (status != DLOCK_OK)
        return status;
    row = mysql_fetch_row(result);
    if (my_conn_in_transaction(conn))
        status = dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                            "%s: in a transaction that nobody began", conn->place->endpoint);
    else if (row == NULL)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_PROTOCOL, 0, "%s: no settings to read",
                            conn->place->endpoint);
    else
        status = settings_compare(conn, settings, row, err);
    if (status == DLOCK_OK)
        status = server_check(conn, row + settings->count, err);
    mysql_free_result(result);
    return status;
}

enum dlock_status my_setup(struct my_conn *conn, struct dlock_error *err)
{
    struct settings settings = {.count = 0};
    const char *version = mysql_get_server_info(conn->mysql);
    enum dlock_status status = DLOCK_INTERNAL;

    if (version == NULL)
        version = "";
    conn->dialect = strstr(version, "MariaDB") != NULL ? &mariadb : &mysql8;
    (void)snprintf(conn->server, sizeof conn->server, "%s %.*s", conn->dialect->name,
                   (int)strcspn(version, "-"), version);
    if (conn->dialect == &mysql8 ? mysql_get_server_version(conn->mysql) < 80001
                                 : mysql_get_server_version(conn->mysql) < 100600)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: want MariaDB 10.6 or MySQL 8.0, not %s", conn->place->endpoint,
                          conn->server);
    settings_make(conn, &settings);
    /* SET autocommit=1 ends no transaction where it is on already. */
    status = my_conn_query(conn, "ROLLBACK AND NO CHAIN NO RELEASE", err);
    if (status == DLOCK_OK)
        status = settings_pin(conn, &settings, err);
    return status == DLOCK_OK ? settings_check(conn, &settings, err) : status;
}
