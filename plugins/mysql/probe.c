/* SPDX-License-Identifier: MIT */
/* What this store gives, for people who ask: a finding at a time. */
#include "my.h"

#include <stdlib.h>
#include <string.h>

uint32_t my_flush_costs(long flush)
{
    if (flush == 1)
        return 0;
    return DLOCK_CAP_FENCE_DURABLE | (flush == 0 ? DLOCK_CAP_CRASH_SAFE : 0u);
}

void my_info_fill(struct dlock_session_info *info, const struct my_session *session)
{
    info->caps = DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE |
                 (session->place.strategy == MY_SESSION
                      ? DLOCK_CAP_SESSION | DLOCK_CAP_NATIVE_WAIT
                      : DLOCK_CAP_DOWNGRADE | DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH);
    info->caps &= ~my_flush_costs(session->conn.flush);
    (void)snprintf(info->server, sizeof info->server, "%s", session->conn.server);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", session->place.endpoint);
}

/* A question to the server, and what is to be said about its answer. */
struct question {
    const char *name;
    const char *text;
    const char *fine;   /* the answer that needs no advice; NULL: any */
    const char *advice; /* for others */
    uint32_t clears;
    int galera; /* of servers that know wsrep */
};

static const struct question questions[] = {
    {"version", "SELECT VERSION()", NULL, NULL, 0, 0},
    {"read_only", "SELECT @@GLOBAL.read_only", "0", "nobody can take a lock here", 0, 0},
    {"sync_binlog", "SELECT IF(@@GLOBAL.log_bin, @@GLOBAL.sync_binlog, 1)", "1",
     "a replica that is promoted after a crash may know less than this server did", 0, 0},
    {"log_bin", "SELECT @@GLOBAL.log_bin", "0",
     "if replicas follow, none of them may take over while locks are held", 0, 0},
    {"wsrep_on", "SELECT @@GLOBAL.wsrep_on", "0", "a Galera node; all clients have to use this one",
     0, 1},
    {"time zone", "SELECT CONCAT(@@GLOBAL.time_zone, ', session ', @@SESSION.time_zone)", NULL,
     NULL, 0, 0},
    {"clock", "SELECT UTC_TIMESTAMP(3)", NULL, NULL, 0, 0},
    {"max_connections", "SELECT @@GLOBAL.max_connections", NULL, NULL, 0, 0},
    {"connections",
     "SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), "
     "'@', "
     "1)",
     NULL, NULL, 0, 0},
};

/* Advice on innodb_flush_log_at_trx_commit. */
#define NOT_SYNCED                                                                                 \
    "with 1 each lock and each fence reaches the disk before it is handed out; without, the last " \
    "second is lost with the power, and the clock alone keeps fences rising"
#define NOT_WRITTEN                                                                              \
    "set it to 1: with 0 the last second is lost when the server's process ends, and a lock of " \
    "that second can have two holders"

static enum dlock_status ask(struct my_conn *conn, const char *text, char *answer, size_t size,
                             struct dlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = my_conn_select(conn, text, 1, &result, err);

    if (status != DLOCK_OK)
        return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
    row = mysql_fetch_row(result);
    (void)snprintf(answer, size, "%s", row != NULL && row[0] != NULL ? row[0] : "not known");
    mysql_free_result(result);
    return DLOCK_OK;
}

static void tell(dlock_check_fn *fn, void *arg, const struct question *question, const char *found)
{
    int fine = question->fine == NULL || strcmp(question->fine, found) == 0;

    if (fn != NULL)
        fn(arg, &(struct dlock_check){
                    .struct_size = sizeof(struct dlock_check),
                    .name = question->name,
                    .found = found,
                    .advice = fine ? NULL : question->advice,
                    .clears = fine ? 0 : question->clears,
                });
}

/* And the connection's own note of it. */
static enum dlock_status tell_flush(struct my_conn *conn, dlock_check_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    static const char text[] = "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit";
    struct question question = {.name = "innodb_flush_log_at_trx_commit", .fine = "1"};
    char found[32];
    enum dlock_status status = ask(conn, text, found, sizeof found, err);

    if (status != DLOCK_OK)
        return status;
    conn->flush = strtol(found, NULL, 10);
    question.advice = conn->flush == 0 ? NOT_WRITTEN : NOT_SYNCED;
    question.clears = my_flush_costs(conn->flush);
    if (conn->place->strategy == MY_SESSION) /* which ends with the server in any case */
        question.clears &= ~(uint32_t)DLOCK_CAP_CRASH_SAFE;
    tell(fn, arg, &question, found);
    return DLOCK_OK;
}

/* What the schema check sees, once more: the tables may have been changed since. */
static enum dlock_status tell_tables(struct my_session *session, dlock_check_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    static const struct question tables = {.name = "tables"};
    enum dlock_status status = my_schema_look(&session->conn, err);
    char found[256];

    (void)snprintf(found, sizeof found, "%s.%s*, InnoDB, strategy %s, version %d",
                   session->place.database, session->place.prefix, session->place.strategy_name,
                   MY_SCHEMA_VERSION);
    if (status == DLOCK_OK)
        tell(fn, arg, &tables, found);
    return status;
}

enum dlock_status my_probe(struct my_session *session, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum dlock_status status = tell_tables(session, fn, arg, err);
    char found[256];

    if (status == DLOCK_OK)
        status = tell_flush(conn, fn, arg, err);

    for (size_t i = 0; status == DLOCK_OK && i < sizeof questions / sizeof questions[0]; i++) {
        const struct question *question = &questions[i];

        if (question->galera && !conn->dialect->galera)
            continue;
        status = ask(conn, question->text, found, sizeof found, err);
        if (status == DLOCK_OK)
            tell(fn, arg, question, found);
    }
    my_conn_asked(conn);
    return status;
}
