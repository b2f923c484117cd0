/* SPDX-License-Identifier: MIT */
#include "my.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection that said nothing for so long is looked at before it is used. */
#define FRESH_NS (5 * MY_NS_PER_MS)

#define TEXT_MAX 4096

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
    if (status == DLOCK_OK && !conn->queue)
        status = my_schema(conn, err);
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
        conn->statements[i] = NULL;
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

/* A call that ended with the server's or the library's refusal. */
static enum dlock_status refused(struct my_conn *conn, unsigned code, const char *text,
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

/* A call that did not end. */
static enum dlock_status unanswered(struct my_conn *conn, enum dlock_status why,
                                    struct dlock_error *err)
{
    if (why == DLOCK_CANCELED)
        return dlock_fail(err, MY_ORIGIN, why, 0, "the wait was cancelled");
    return dlock_fail(err, MY_ORIGIN, conn->transaction ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, 0,
                      "%s: no answer in time", conn->place->endpoint);
}

/* The library copies and we read as many columns as the server says there are. */
static enum dlock_status garbled(struct my_conn *conn, struct dlock_error *err)
{
    conn->dead = 1;
    return dlock_fail(err, MY_ORIGIN, DLOCK_PROTOCOL, 0, "%s: an answer to another question",
                      conn->place->endpoint);
}

/* *result may be NULL after OK. */
static enum dlock_status ask(struct my_conn *conn, const char *text, MYSQL_RES **result,
                             struct dlock_error *err)
{
    struct my_call call = {.what = MY_QUERY, .text = text};
    enum dlock_status status = my_drive(conn, &call);

    *result = NULL;
    if (status == DLOCK_OK && !call.failed && mysql_field_count(conn->mysql) > 0) {
        call.what = MY_STORE;
        status = my_drive(conn, &call);
        call.failed = call.result == NULL;
    }
    if (status != DLOCK_OK)
        return unanswered(conn, status, err);
    conn->answered_ns = now_ns(conn);
    if (call.failed)
        return refused(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), err);
    conn->affected = mysql_affected_rows(conn->mysql);
    *result = call.result;
    return DLOCK_OK;
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
    return garbled(conn, err);
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
    int64_t begin_ns = now_ns(conn);
    enum dlock_status status = DLOCK_INTERNAL;

    conn->transaction = 1;
    status = my_conn_query(conn, "BEGIN", err);
    if (status == DLOCK_OK)
        conn->begun_ns = begin_ns;
    return status;
}

enum dlock_status my_conn_commit(struct my_conn *conn, struct dlock_error *err)
{
    conn->transaction = 0;
    return my_conn_query(conn, "COMMIT", err);
}

void my_conn_rollback(struct my_conn *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!conn->dead && my_conn_query(conn, "ROLLBACK", &ignored) != DLOCK_OK)
        conn->dead = 1;
    conn->transaction = 0;
}

int my_conn_in_transaction(const struct my_conn *conn)
{
    unsigned status = 0;

    return mariadb_get_infov(conn->mysql, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 &&
           (status & SERVER_STATUS_IN_TRANS) != 0;
}

void my_conn_input_name(struct my_conn *conn, const unsigned char *name, uint32_t name_len)
{
    conn->input.name_len = name_len < MY_NAME_MAX ? name_len : MY_NAME_MAX;
    if (conn->input.name_len > 0)
        memcpy(conn->input.name, name, conn->input.name_len);
}

void my_conn_input(struct my_conn *conn, const struct dlock_request *req)
{
    struct my_input *input = &conn->input;

    my_conn_input_name(conn, req->name, req->name_len);
    memcpy(input->token, req->token, sizeof input->token);
    input->token_len = sizeof input->token;
    input->label_len = req->label != NULL ? strnlen(req->label, sizeof input->label) : 0;
    if (input->label_len > 0)
        memcpy(input->label, req->label, input->label_len);
    input->ttl_us = req->ttl_ms * MY_US_PER_MS;
}

/* The one place where dialects differ, or the end. */
static const char *find_mark(const char *text)
{
    const char *mark = strstr(text, "@s");

    if (mark == NULL)
        mark = strstr(text, "@w");
    return mark != NULL ? mark : text + strlen(text);
}

/* The text with a question mark for each @x, and what they stand for in inputs. -1: no room. */
static int text_make(const struct my_conn *conn, const char *template, char *text, char *inputs)
{
    const char *mark = find_mark(template);
    const char *ours = mark[0] == '\0'  ? ""
                       : mark[1] == 's' ? conn->dialect->share
                                        : conn->dialect->at_once;
    char dialect[TEXT_MAX];
    char *out = text;
    size_t count = 0;

    (void)snprintf(dialect, sizeof dialect, "%.*s%s%s", (int)(mark - template), template, ours,
                   *mark != '\0' ? mark + 2 : "");
    if (my_schema_expand(dialect, conn->place->prefix, text, TEXT_MAX) != 0)
        return -1;
    for (const char *in = text; *in != '\0'; in++) {
        *out = *in;
        if (*in == '@' && strchr("ntldi", in[1]) != NULL) {
            if (count == MY_INPUTS)
                return -1;
            inputs[count++] = *++in;
            *out = '?';
        }
        out++;
    }
    *out = inputs[count] = '\0';
    return 0;
}

static MYSQL_BIND input_bind(struct my_input *input, char letter)
{
    switch (letter) {
    case 'n':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->name,
                            .buffer_length = sizeof input->name,
                            .length = &input->name_len};
    case 't':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->token,
                            .buffer_length = sizeof input->token,
                            .length = &input->token_len};
    case 'l':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->label,
                            .buffer_length = sizeof input->label,
                            .length = &input->label_len};
    default:
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG,
                            .buffer = letter == 'd' ? &input->ttl_us : &input->number};
    }
}

static int inputs_bind(struct my_conn *conn, MYSQL_STMT *stmt, const char *inputs)
{
    MYSQL_BIND binds[MY_INPUTS] = {0};

    for (size_t i = 0; inputs[i] != '\0'; i++)
        binds[i] = input_bind(&conn->input, inputs[i]);
    return inputs[0] != '\0' && mysql_stmt_bind_param(stmt, binds);
}

static int row_bind(struct my_conn *conn, MYSQL_STMT *stmt, const char *out)
{
    MYSQL_BIND binds[MY_NUMBERS + MY_BLOBS] = {0};
    struct my_row *row = &conn->row;
    size_t numbers = 0, blobs = 0, i = 0;

    for (; out[i] != '\0'; i++) {
        binds[i].is_null = &row->null[i];
        if (out[i] == 'i') {
            binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
            binds[i].buffer = &row->number[numbers++];
        } else {
            binds[i].buffer_type = MYSQL_TYPE_BLOB;
            binds[i].buffer = row->bytes[blobs];
            binds[i].buffer_length = MY_NAME_MAX;
            binds[i].length = &row->length[blobs++];
        }
    }
    return i > 0 && mysql_stmt_bind_result(stmt, binds);
}

/* Nothing can be held by a statement that is only prepared. */
static enum dlock_status prepare_failed(struct my_conn *conn, MYSQL_STMT *stmt,
                                        enum dlock_status status, struct dlock_error *err)
{
    int before = conn->transaction;

    conn->transaction = 1;
    if (status != DLOCK_OK)
        status = unanswered(conn, status, err);
    else
        status = refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
    conn->transaction = before;
    return status;
}

static enum dlock_status prepare(struct my_conn *conn, enum my_statement which,
                                 struct dlock_error *err)
{
    const struct my_sql *sql = my_sql(conn->place->strategy, which);
    char text[TEXT_MAX], inputs[MY_INPUTS + 1];
    struct my_call call = {.what = MY_PREPARE, .text = text};
    MYSQL_STMT *stmt = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (sql->text == NULL || text_make(conn, sql->text, text, inputs) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d is no good", (int)which);
    stmt = mysql_stmt_init(conn->mysql);
    if (stmt == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    conn->statements[which] = call.stmt = stmt;
    status = my_drive(conn, &call);
    if (status != DLOCK_OK || call.failed)
        return prepare_failed(conn, stmt, status, err);
    if (mysql_stmt_param_count(stmt) != strlen(inputs) ||
        mysql_stmt_field_count(stmt) != strlen(sql->out))
        return garbled(conn, err);
    if (inputs_bind(conn, stmt, inputs) != 0 || row_bind(conn, stmt, sql->out) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d: %.180s", (int)which,
                          mysql_stmt_error(stmt));
    return DLOCK_OK;
}

static enum dlock_status statement_failed(struct my_conn *conn, MYSQL_STMT *stmt,
                                          enum dlock_status status, struct dlock_error *err)
{
    if (status != DLOCK_OK)
        return unanswered(conn, status, err);
    conn->answered_ns = now_ns(conn);
    return refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
}

enum dlock_status my_conn_execute(struct my_conn *conn, enum my_statement which,
                                  struct dlock_error *err)
{
    struct my_call call = {.what = MY_EXECUTE};
    enum dlock_status status = DLOCK_OK;

    if (conn->statements[which] == NULL)
        status = prepare(conn, which, err);
    if (status != DLOCK_OK)
        return status;
    call.stmt = conn->statements[which];
    status = my_drive(conn, &call);
    if (status == DLOCK_OK && !call.failed && mysql_stmt_field_count(call.stmt) > 0) {
        call.what = MY_STMT_STORE;
        status = my_drive(conn, &call);
    }
    if (status != DLOCK_OK || call.failed)
        return statement_failed(conn, call.stmt, status, err);
    if (mysql_stmt_field_count(call.stmt) != strlen(my_sql(conn->place->strategy, which)->out))
        return garbled(conn, err);
    conn->answered_ns = now_ns(conn);
    conn->affected = mysql_stmt_affected_rows(call.stmt);
    conn->insert_id = mysql_stmt_insert_id(call.stmt);
    return DLOCK_OK;
}

int my_conn_fetch(struct my_conn *conn, enum my_statement which)
{
    struct my_row *row = &conn->row;
    int rc = mysql_stmt_fetch(conn->statements[which]);

    if (rc != 0 && rc != MYSQL_DATA_TRUNCATED)
        return 0;
    for (size_t i = 0; i < MY_BLOBS; i++) {
        if (row->length[i] > MY_NAME_MAX)
            row->length[i] = MY_NAME_MAX;
        row->bytes[i][row->length[i]] = '\0';
    }
    return 1;
}

void my_conn_done(struct my_conn *conn, enum my_statement which)
{
    (void)mysql_stmt_free_result(conn->statements[which]);
}

enum dlock_status my_conn_row(struct my_conn *conn, enum my_statement which, int *found,
                              struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, which, err);

    *found = 0;
    if (status != DLOCK_OK)
        return status;
    *found = my_conn_fetch(conn, which);
    my_conn_done(conn, which);
    return DLOCK_OK;
}
