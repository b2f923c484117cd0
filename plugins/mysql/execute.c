/* SPDX-License-Identifier: MIT */
/*
 * The first time a statement is used in a connection it is sent as text, in one exchange. The
 * second time it is prepared, which costs one exchange more and makes each execution cheaper. A
 * program that takes one lock and ends prepares nothing.
 */
#include "execute.h"

#include "async.h"
#include "lib/hex.h"
#include "query.h"
#include "setup.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

void my_execute_input_name(struct my_connection *conn, const unsigned char *name, uint32_t name_len)
{
    conn->input.name_len = name_len < MY_NAME_MAX ? name_len : MY_NAME_MAX;
    if (conn->input.name_len > 0)
        memcpy(conn->input.name, name, conn->input.name_len);
}

void my_execute_input(struct my_connection *conn, const struct dlock_request *req)
{
    struct my_input *input = &conn->input;
    const unsigned char *data = NULL;
    uint32_t data_len = 0;

    my_execute_input_name(conn, req->name, req->name_len);
    memcpy(input->token, req->token, sizeof input->token);
    input->token_len = sizeof input->token;
    input->label_len = req->label != NULL ? strnlen(req->label, sizeof input->label) : 0;
    if (input->label_len > 0)
        memcpy(input->label, req->label, input->label_len);
    data = dlock_request_data(req, &data_len);
    input->data_len = data_len <= sizeof input->data ? data_len : 0;
    if (input->data_len > 0)
        memcpy(input->data, data, input->data_len);
    input->ttl_us = req->ttl_ms * MY_US_PER_MS;
}

/* What stands for a mark, where dialects or tables differ; NULL: it is none. */
static const char *mark_text(const struct my_connection *conn, const char *mark)
{
    switch (mark[0] == '@' ? mark[1] : '\0') {
    case 's':
        return conn->dialect->share;
    case 'w':
        return conn->dialect->at_once;
    case 'q':
        return conn->dialect->in_line;
    case 'p':
        return conn->dialect->processlist;
    case 'j':
        return conn->with_data ? MY_DATA_OF_HOLDER : "''";
    default:
        return NULL;
    }
}

/* A statement for this dialect and this prefix, with its inputs @x. false: no room. */
static bool template_make(const struct my_connection *conn, const char *template, char *text)
{
    char dialect[TEXT_MAX];
    size_t len = 0;

    while (*template != '\0' && len < sizeof dialect) {
        const char *mark = mark_text(conn, template);

        if (mark != NULL)
            len += (size_t)snprintf(dialect + len, sizeof dialect - len, "%s", mark);
        else
            dialect[len++] = *template;
        template += mark != NULL ? 2 : 1;
    }
    if (len >= sizeof dialect)
        return false;
    dialect[len] = '\0';
    return my_statements_expand(dialect, conn->config->prefix, text, TEXT_MAX);
}

/* Whether an @x begins here. */
static bool is_input(const char *text)
{
    return text[0] == '@' && text[1] != '\0' && strchr("ntlvdib", text[1]) != NULL;
}

/* ---- as text, with the values in it ---- */

/* What stands for an input instead of its value; NULL: nothing does. */
static const char *input_text(const struct my_input *input, char letter)
{
    switch (letter) {
    case 'b':
        return input->leases;
    case 't':
        return input->tokens;
    case 'l':
        return input->labels;
    case 'd':
        return input->ttls;
    default:
        return NULL;
    }
}

/* Bytes in hex, so that there is nothing to escape. */
static void value_write(FILE *out, const struct my_input *input, char letter)
{
    const char *text = input_text(input, letter);
    char hex[2 * MY_BYTES + 1];

    if (text != NULL) {
        (void)fputs(text, out);
        return;
    }
    switch (letter) {
    case 'n':
        dl_hex_encode(hex, input->name, input->name_len);
        break;
    case 't':
        dl_hex_encode(hex, input->token, input->token_len);
        break;
    case 'l':
        dl_hex_encode(hex, (const unsigned char *)input->label, input->label_len);
        break;
    case 'v':
        dl_hex_encode(hex, input->data, input->data_len);
        break;
    default:
        (void)fprintf(out, "%lld", letter == 'd' ? input->ttl_us : input->number);
        return;
    }
    (void)fprintf(out, "x'%s'", hex);
}

char *my_execute_text(struct my_connection *conn, enum my_statement which)
{
    const struct my_sql *sql = my_statements_get(conn->config->strategy, which);
    char template[TEXT_MAX];
    char *text = NULL;
    size_t size = 0;
    FILE *out = NULL;

    if (sql->text == NULL || !template_make(conn, sql->text, template))
        return NULL;
    out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    for (const char *in = template; *in != '\0'; in++) {
        if (is_input(in))
            value_write(out, &conn->input, *++in);
        else
            (void)fputc(*in, out);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static enum dlock_status statement_unusable(struct dlock_error *err, enum my_statement which)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d does not fit, or no memory",
                      (int)which);
}

static enum dlock_status text_execute(struct my_connection *conn, enum my_statement which,
                                      struct dlock_error *err)
{
    const unsigned columns =
        (unsigned)strlen(my_statements_get(conn->config->strategy, which)->out);
    char *text = my_execute_text(conn, which);
    enum dlock_status status = DLOCK_INTERNAL;

    if (text == NULL)
        return statement_unusable(err, which);
    status = my_query_select(conn, text, columns, &conn->answers[which], err);
    free(text);
    return status;
}

/* NULL is 0, or no bytes. */
static void row_read(struct my_row *row, const char *out, MYSQL_ROW values,
                     const unsigned long *lengths)
{
    size_t numbers = 0, blobs = 0;

    for (size_t i = 0; out[i] != '\0'; i++) {
        const char *value = values[i] != NULL ? values[i] : "";

        if (out[i] == 'i') {
            row->number[numbers++] = strtoll(value, NULL, 10);
            continue;
        }
        row->length[blobs] = lengths[i] < MY_BYTES ? lengths[i] : MY_BYTES;
        memcpy(row->bytes[blobs], value, row->length[blobs]);
        row->bytes[blobs][row->length[blobs]] = '\0';
        blobs++;
    }
}

static bool text_fetch(struct my_connection *conn, enum my_statement which)
{
    MYSQL_RES *result = conn->answers[which];
    MYSQL_ROW values = mysql_fetch_row(result);

    if (values == NULL)
        return false;
    row_read(&conn->row, my_statements_get(conn->config->strategy, which)->out, values,
             mysql_fetch_lengths(result));
    return true;
}

/* ---- prepared ---- */

/* The text with a question mark for each @x, whose letters are in inputs. false: no room. */
static bool marks_make(const struct my_connection *conn, const char *template, char *text,
                       char *inputs)
{
    char *out = text;
    size_t count = 0;

    if (!template_make(conn, template, text))
        return false;
    for (const char *in = text; *in != '\0'; in++) {
        *out = *in;
        if (is_input(in)) {
            if (count == MY_INPUTS)
                return false;
            inputs[count++] = *++in;
            *out = '?';
        }
        out++;
    }
    *out = inputs[count] = '\0';
    return true;
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
    case 'v':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->data,
                            .buffer_length = sizeof input->data,
                            .length = &input->data_len};
    default:
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG,
                            .buffer = letter == 'd' ? &input->ttl_us : &input->number};
    }
}

static bool inputs_bind(struct my_connection *conn, MYSQL_STMT *stmt, const char *inputs)
{
    MYSQL_BIND binds[MY_INPUTS] = {0};

    for (size_t i = 0; inputs[i] != '\0'; i++)
        binds[i] = input_bind(&conn->input, inputs[i]);
    return inputs[0] == '\0' || mysql_stmt_bind_param(stmt, binds) == 0;
}

static bool row_bind(struct my_connection *conn, MYSQL_STMT *stmt, const char *out)
{
    MYSQL_BIND binds[MY_NUMBERS + MY_BLOBS] = {0};
    struct my_row *row = &conn->row;
    size_t numbers = 0, blobs = 0, i = 0;

    for (; out[i] != '\0'; i++) {
        if (out[i] == 'i') {
            binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
            binds[i].buffer = &row->number[numbers++];
        } else {
            binds[i].buffer_type = MYSQL_TYPE_BLOB;
            binds[i].buffer = row->bytes[blobs];
            binds[i].buffer_length = MY_BYTES;
            binds[i].length = &row->length[blobs++];
        }
    }
    return i == 0 || mysql_stmt_bind_result(stmt, binds) == 0;
}

/* A statement that is only prepared has no effect. One that the server refused is forgotten, and
 * prepared anew the next time: the reason may pass. */
static enum dlock_status prepare_failed(struct my_connection *conn, enum my_statement which,
                                        enum dlock_status status, struct dlock_error *err)
{
    MYSQL_STMT *stmt = conn->statements[which];
    const bool before = conn->in_transaction;

    conn->in_transaction = true;
    if (status != DLOCK_OK) {
        status = my_connection_unanswered(conn, status, err);
    } else {
        status = my_connection_refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
        if (!conn->dead) {
            (void)mysql_stmt_close(stmt); /* the server has none: nothing is sent */
            conn->statements[which] = NULL;
        }
    }
    conn->in_transaction = before;
    return status;
}

static enum dlock_status prepare(struct my_connection *conn, enum my_statement which,
                                 struct dlock_error *err)
{
    const struct my_sql *sql = my_statements_get(conn->config->strategy, which);
    char text[TEXT_MAX], inputs[MY_INPUTS + 1];
    struct my_call call = {.kind = MY_PREPARE, .text = text};
    MYSQL_STMT *stmt = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (sql->text == NULL || !marks_make(conn, sql->text, text, inputs))
        return statement_unusable(err, which);
    stmt = mysql_stmt_init(conn->mysql);
    if (stmt == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    conn->statements[which] = call.stmt = stmt;
    conn->prepared_with_data[which] = conn->with_data;
    status = my_async_run(conn, &call);
    if (status != DLOCK_OK || call.failed)
        return prepare_failed(conn, which, status, err);
    if (mysql_stmt_param_count(stmt) != strlen(inputs) ||
        mysql_stmt_field_count(stmt) != strlen(sql->out))
        return my_connection_bad_reply(conn, err);
    if (!inputs_bind(conn, stmt, inputs) || !row_bind(conn, stmt, sql->out))
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d: %.180s", (int)which,
                          mysql_stmt_error(stmt));
    return DLOCK_OK;
}

static enum dlock_status statement_failed(struct my_connection *conn, MYSQL_STMT *stmt,
                                          enum dlock_status status, struct dlock_error *err)
{
    if (status != DLOCK_OK)
        return my_connection_unanswered(conn, status, err);
    conn->answered_ns = my_connection_now(conn);
    return my_connection_refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
}

static enum dlock_status prepared_execute(struct my_connection *conn, enum my_statement which,
                                          struct dlock_error *err)
{
    struct my_call call = {.kind = MY_EXECUTE};
    enum dlock_status status = DLOCK_OK;

    if (conn->statements[which] == NULL)
        status = prepare(conn, which, err);
    if (status != DLOCK_OK)
        return status;
    call.stmt = conn->statements[which];
    status = my_async_run(conn, &call);
    if (status == DLOCK_OK && !call.failed && mysql_stmt_field_count(call.stmt) > 0) {
        call.kind = MY_STMT_STORE;
        status = my_async_run(conn, &call);
    }
    if (status != DLOCK_OK || call.failed)
        return statement_failed(conn, call.stmt, status, err);
    if (mysql_stmt_field_count(call.stmt) !=
        strlen(my_statements_get(conn->config->strategy, which)->out))
        return my_connection_bad_reply(conn, err);
    conn->answered_ns = my_connection_now(conn);
    conn->affected = mysql_stmt_affected_rows(call.stmt);
    conn->insert_id = mysql_stmt_insert_id(call.stmt);
    return DLOCK_OK;
}

/* ---- either ---- */

/* It has been prepared, and since then {data} has come or gone. */
static bool is_outdated(const struct my_connection *conn, enum my_statement which)
{
    return conn->statements[which] != NULL && conn->prepared_with_data[which] != conn->with_data &&
           strstr(my_statements_get(conn->config->strategy, which)->text, "@j") != NULL;
}

enum dlock_status my_execute(struct my_connection *conn, enum my_statement which,
                             struct dlock_error *err)
{
    const bool prepared = conn->used_before[which];
    enum dlock_status status = DLOCK_INTERNAL;

    conn->used_before[which] = true;
    conn->with_data = atomic_load(&conn->tables->has_data);
    if (!prepared || is_outdated(conn, which))
        return text_execute(conn, which, err);
    status = prepared_execute(conn, which, err);
    if (status == DLOCK_UNKNOWN && my_statements_get(conn->config->strategy, which)->out[0] != '\0')
        return DLOCK_UNAVAILABLE; /* a SELECT */
    return status;
}

static bool prepared_fetch(struct my_connection *conn, enum my_statement which)
{
    struct my_row *row = &conn->row;
    int rc = mysql_stmt_fetch(conn->statements[which]);

    if (rc != 0 && rc != MYSQL_DATA_TRUNCATED)
        return false;
    for (size_t i = 0; i < MY_BLOBS; i++) {
        if (row->length[i] > MY_BYTES)
            row->length[i] = MY_BYTES;
        row->bytes[i][row->length[i]] = '\0';
    }
    return true;
}

bool my_execute_fetch(struct my_connection *conn, enum my_statement which)
{
    return conn->answers[which] != NULL ? text_fetch(conn, which) : prepared_fetch(conn, which);
}

void my_execute_done(struct my_connection *conn, enum my_statement which)
{
    if (conn->answers[which] != NULL)
        mysql_free_result(conn->answers[which]);
    else
        (void)mysql_stmt_free_result(conn->statements[which]);
    conn->answers[which] = NULL;
}

enum dlock_status my_execute_row(struct my_connection *conn, enum my_statement which, bool *found,
                                 struct dlock_error *err)
{
    enum dlock_status status = my_execute(conn, which, err);

    *found = false;
    if (status != DLOCK_OK)
        return status;
    *found = my_execute_fetch(conn, which);
    my_execute_done(conn, which);
    return DLOCK_OK;
}
