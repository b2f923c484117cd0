/* SPDX-License-Identifier: MIT */
/*
 * The statements of statements.c. The first time in a connection one is sent as text, in one
 * exchange; one that is used again is prepared, which is an exchange more once and a cheaper
 * execution from then on. A program that takes one lock and ends so never prepares anything.
 */
#include "my.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

static int64_t now_ns(const struct my_conn *conn)
{
    return conn->host->now_ns(conn->host->ctx);
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

/* A statement for this dialect and this prefix, with its @x still in it. -1: no room. */
static int template_make(const struct my_conn *conn, const char *template, char *text)
{
    const char *mark = find_mark(template);
    const char *ours = mark[0] == '\0'  ? ""
                       : mark[1] == 's' ? conn->dialect->share
                                        : conn->dialect->at_once;
    char dialect[TEXT_MAX];
    int len = snprintf(dialect, sizeof dialect, "%.*s%s%s", (int)(mark - template), template, ours,
                       *mark != '\0' ? mark + 2 : "");

    if (len < 0 || len >= TEXT_MAX)
        return -1;
    return my_schema_expand(dialect, conn->place->prefix, text, TEXT_MAX);
}

/* Whether an @x begins here. */
static int is_input(const char *text)
{
    return text[0] == '@' && text[1] != '\0' && strchr("ntldi", text[1]) != NULL;
}

/* ---- as text, with the values in it: one exchange, and the server forgets it ---- */

/* Bytes in hex, so that there is nothing to escape. */
static void value_write(FILE *out, const struct my_input *input, char letter)
{
    char hex[2 * MY_NAME_MAX + 1];

    switch (letter) {
    case 'n':
        my_hex(hex, input->name, input->name_len);
        break;
    case 't':
        my_hex(hex, input->token, input->token_len);
        break;
    case 'l':
        my_hex(hex, (const unsigned char *)input->label, input->label_len);
        break;
    default:
        (void)fprintf(out, "%lld", letter == 'd' ? input->ttl_us : input->number);
        return;
    }
    (void)fprintf(out, "x'%s'", hex);
}

char *my_conn_text(struct my_conn *conn, enum my_statement which)
{
    const struct my_sql *sql = my_sql(conn->place->strategy, which);
    char template[TEXT_MAX];
    char *text = NULL;
    size_t size = 0;
    FILE *out = NULL;

    if (sql->text == NULL || template_make(conn, sql->text, template) != 0)
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

static enum dlock_status no_good(struct dlock_error *err, enum my_statement which)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d is no good, or no memory",
                      (int)which);
}

static enum dlock_status tell(struct my_conn *conn, enum my_statement which,
                              struct dlock_error *err)
{
    const size_t columns = strlen(my_sql(conn->place->strategy, which)->out);
    char *text = my_conn_text(conn, which);
    enum dlock_status status = DLOCK_INTERNAL;

    if (text == NULL)
        return no_good(err, which);
    if (columns > 0)
        status = my_conn_select(conn, text, (unsigned)columns, &conn->answers[which], err);
    else
        status = my_conn_query(conn, text, err);
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

        row->null[i] = values[i] == NULL;
        if (out[i] == 'i') {
            row->number[numbers++] = strtoll(value, NULL, 10);
            continue;
        }
        row->length[blobs] = lengths[i] < MY_NAME_MAX ? lengths[i] : MY_NAME_MAX;
        memcpy(row->bytes[blobs], value, row->length[blobs]);
        row->bytes[blobs][row->length[blobs]] = '\0';
        blobs++;
    }
}

static int fetch_told(struct my_conn *conn, enum my_statement which)
{
    MYSQL_RES *result = conn->answers[which];
    MYSQL_ROW values = mysql_fetch_row(result);

    if (values == NULL)
        return 0;
    row_read(&conn->row, my_sql(conn->place->strategy, which)->out, values,
             mysql_fetch_lengths(result));
    return 1;
}

/* ---- prepared ---- */

/* The text with a question mark for each @x, and what they stand for in inputs. -1: no room. */
static int marks_make(const struct my_conn *conn, const char *template, char *text, char *inputs)
{
    char *out = text;
    size_t count = 0;

    if (template_make(conn, template, text) != 0)
        return -1;
    for (const char *in = text; *in != '\0'; in++) {
        *out = *in;
        if (is_input(in)) {
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
        status = my_conn_unanswered(conn, status, err);
    else
        status = my_conn_refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
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

    if (sql->text == NULL || marks_make(conn, sql->text, text, inputs) != 0)
        return no_good(err, which);
    stmt = mysql_stmt_init(conn->mysql);
    if (stmt == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    conn->statements[which] = call.stmt = stmt;
    status = my_drive(conn, &call);
    if (status != DLOCK_OK || call.failed)
        return prepare_failed(conn, stmt, status, err);
    if (mysql_stmt_param_count(stmt) != strlen(inputs) ||
        mysql_stmt_field_count(stmt) != strlen(sql->out))
        return my_conn_garbled(conn, err);
    if (inputs_bind(conn, stmt, inputs) != 0 || row_bind(conn, stmt, sql->out) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d: %.180s", (int)which,
                          mysql_stmt_error(stmt));
    return DLOCK_OK;
}

static enum dlock_status statement_failed(struct my_conn *conn, MYSQL_STMT *stmt,
                                          enum dlock_status status, struct dlock_error *err)
{
    if (status != DLOCK_OK)
        return my_conn_unanswered(conn, status, err);
    conn->answered_ns = now_ns(conn);
    return my_conn_refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
}

static enum dlock_status execute(struct my_conn *conn, enum my_statement which,
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
        return my_conn_garbled(conn, err);
    conn->answered_ns = now_ns(conn);
    conn->affected = mysql_stmt_affected_rows(call.stmt);
    conn->insert_id = mysql_stmt_insert_id(call.stmt);
    return DLOCK_OK;
}

/* ---- either ---- */

enum dlock_status my_conn_execute(struct my_conn *conn, enum my_statement which,
                                  struct dlock_error *err)
{
    if (conn->known[which])
        return execute(conn, which, err);
    conn->known[which] = 1;
    return tell(conn, which, err);
}

static int fetch_executed(struct my_conn *conn, enum my_statement which)
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

int my_conn_fetch(struct my_conn *conn, enum my_statement which)
{
    return conn->answers[which] != NULL ? fetch_told(conn, which) : fetch_executed(conn, which);
}

void my_conn_done(struct my_conn *conn, enum my_statement which)
{
    if (conn->answers[which] != NULL)
        mysql_free_result(conn->answers[which]);
    else
        (void)mysql_stmt_free_result(conn->statements[which]);
    conn->answers[which] = NULL;
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
