/* SPDX-License-Identifier: MIT */
#include "my.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection that said nothing for so long is looked at before it is used. */
#define FRESH_NS (5 * DL_NS_PER_MS)

static int64_t now_ns(const struct my_conn *conn)
{
    return conn->host->now_ns(conn->host->ctx);
}

enum dlock_status my_conn_open(struct my_conn *conn, const struct my_place *place,
                               const struct dlock_host *host, int64_t deadline_ns,
                               struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    conn->place = place;
    conn->host = host;
    conn->deadline_ns = deadline_ns;
    conn->tls = place->tls;
    spin_init(&conn->spin, place->spin && !conn->queue ? spin_processors() : 0);
    status = my_dial(conn, err);
    conn->transaction = 1; /* nothing that is lost in here has taken a lock */
    if (status == DLOCK_OK)
        status = my_setup(conn, err);
    conn->transaction = 0;
    conn->opened_ns = now_ns(conn);
    return status;
}

void my_conn_close(struct my_conn *conn, int forked)
{
    if (conn->mysql == NULL)
        return;
    if (forked) {
        if (conn->socket > 0)
            (void)close(conn->socket - 1);
        return;
    }
    if (conn->dead && conn->socket > 0)
        (void)shutdown(conn->socket - 1, SHUT_RDWR);
    my_drive_close(conn);
    for (int i = 0; i < MY_STATEMENTS; i++) {
        if (conn->statements[i] != NULL)
            (void)mysql_stmt_close(conn->statements[i]);
        mysql_free_result(conn->answers[i]);
        conn->statements[i] = NULL;
        conn->answers[i] = NULL;
    }
    explicit_bzero(&conn->input, sizeof conn->input);
}

static enum dlock_status gone(struct my_conn *conn, struct dlock_error *err)
{
    conn->dead = 1;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 2006,
                      "%s: the server closed the connection", conn->place->endpoint);
}

enum dlock_status my_conn_enter(struct my_conn *conn, int64_t deadline_ns, struct dlock_error *err)
{
    unsigned char byte;
    ssize_t got = -1;

    conn->deadline_ns = deadline_ns;
    if (conn->dead)
        return gone(conn, err);
    if (now_ns(conn) - conn->answered_ns < FRESH_NS)
        return DLOCK_OK;
    got = recv(conn->socket - 1, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* TLS has words of its own that may lie there; else it is the server's good-bye. */
    return got == 0 || (got > 0 && !conn->tls) ? gone(conn, err) : DLOCK_OK;
}

enum dlock_status my_conn_refused(struct my_conn *conn, unsigned code, const char *text,
                                  struct dlock_error *err)
{
    enum dlock_status status = my_status_of(code, conn->transaction);

    if (my_fatal(code))
        conn->dead = 1;
    if (status == DLOCK_CONFIG)
        my_side_uncheck(conn->side);
    return dlock_fail(err, MY_ORIGIN, status, (int32_t)code, "%s: %.180s", conn->place->endpoint,
                      text);
}

enum dlock_status my_conn_unanswered(struct my_conn *conn, enum dlock_status why,
                                     struct dlock_error *err)
{
    if (why == DLOCK_CANCELED)
        return dlock_fail(err, MY_ORIGIN, why, 0, "the wait was cancelled");
    return dlock_fail(err, MY_ORIGIN, conn->transaction ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, 0,
                      "%s: no answer in time", conn->place->endpoint);
}

enum dlock_status my_conn_garbled(struct my_conn *conn, struct dlock_error *err)
{
    conn->dead = 1;
    return dlock_fail(err, MY_ORIGIN, DLOCK_PROTOCOL, 0, "%s: an answer to another question",
                      conn->place->endpoint);
}

/* What the query that was sent, or the next one of several, has to say. *result may be NULL after
 * OK. */
static enum dlock_status answer(struct my_conn *conn, struct my_call *call, MYSQL_RES **result,
                                struct dlock_error *err)
{
    enum dlock_status status = my_drive(conn, call);

    *result = NULL;
    if (status == DLOCK_OK && !call->failed && mysql_field_count(conn->mysql) > 0) {
        call->what = MY_STORE;
        status = my_drive(conn, call);
        call->failed = call->result == NULL;
    }
    if (status != DLOCK_OK)
        return my_conn_unanswered(conn, status, err);
    conn->answered_ns = now_ns(conn);
    if (call->failed)
        return my_conn_refused(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), err);
    conn->affected = mysql_affected_rows(conn->mysql);
    conn->insert_id = mysql_insert_id(conn->mysql);
    *result = call->result;
    return DLOCK_OK;
}

enum dlock_status my_conn_script(struct my_conn *conn, const char *text, struct my_results *results,
                                 struct dlock_error *err)
{
    struct my_call call = {.what = MY_QUERY, .text = text};
    enum dlock_status status = DLOCK_INTERNAL;

    results->count = 0;
    do {
        status = answer(conn, &call, &results->list[results->count], err);
        if (status != DLOCK_OK)
            return status;
        results->count++;
        call = (struct my_call){.what = MY_NEXT};
    } while (mysql_more_results(conn->mysql) && results->count < MY_RESULTS);
    return mysql_more_results(conn->mysql) ? my_conn_garbled(conn, err) : DLOCK_OK;
}

void my_results_free(struct my_results *results)
{
    for (size_t i = 0; i < results->count; i++)
        mysql_free_result(results->list[i]);
    results->count = 0;
}

/* One statement. *result may be NULL after OK. */
static enum dlock_status ask(struct my_conn *conn, const char *text, MYSQL_RES **result,
                             struct dlock_error *err)
{
    struct my_results results;
    enum dlock_status status = my_conn_script(conn, text, &results, err);

    *result = NULL;
    if (status == DLOCK_OK && results.count == 1) {
        *result = results.list[0];
        return DLOCK_OK;
    }
    my_results_free(&results);
    return status == DLOCK_OK ? my_conn_garbled(conn, err) : status;
}

enum dlock_status my_conn_select(struct my_conn *conn, const char *text, unsigned columns,
                                 MYSQL_RES **result, struct dlock_error *err)
{
    enum dlock_status status = ask(conn, text, result, err);

    if (status != DLOCK_OK || (*result != NULL && mysql_num_fields(*result) == columns))
        return status;
    if (*result != NULL)
        mysql_free_result(*result);
    *result = NULL;
    return my_conn_garbled(conn, err);
}

enum dlock_status my_conn_query(struct my_conn *conn, const char *text, struct dlock_error *err)
{
    MYSQL_RES *result = NULL;
    enum dlock_status status = ask(conn, text, &result, err);

    if (result != NULL)
        mysql_free_result(result);
    return status;
}

enum dlock_status my_conn_begin(struct my_conn *conn, struct dlock_error *err)
{
    conn->transaction = 1;
    return my_conn_query(conn, "BEGIN", err);
}

/* What a transaction that goes on would lock, nobody would give back. */
static enum dlock_status transaction_end(struct my_conn *conn, const char *text,
                                         struct dlock_error *err)
{
    enum dlock_status status = my_conn_query(conn, text, err);

    if (status == DLOCK_OK && my_conn_in_transaction(conn))
        conn->dead = 1;
    return status;
}

enum dlock_status my_conn_commit(struct my_conn *conn, struct dlock_error *err)
{
    conn->transaction = 0;
    return transaction_end(conn, "COMMIT", err);
}

void my_conn_rollback(struct my_conn *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!conn->dead && transaction_end(conn, "ROLLBACK", &ignored) != DLOCK_OK)
        conn->dead = 1;
    conn->transaction = 0;
}

static unsigned server_status(const struct my_conn *conn)
{
    unsigned status = 0;

    return mariadb_get_infov(conn->mysql, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 ? status
                                                                                          : 0;
}

int my_conn_in_transaction(const struct my_conn *conn)
{
    return (server_status(conn) & SERVER_STATUS_IN_TRANS) != 0;
}

int my_conn_autocommits(const struct my_conn *conn)
{
    return (server_status(conn) & SERVER_STATUS_AUTOCOMMIT) != 0;
}

void my_conn_asked(struct my_conn *conn)
{
    if (!conn->dead && my_conn_in_transaction(conn))
        my_conn_rollback(conn);
}
