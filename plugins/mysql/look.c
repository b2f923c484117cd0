/* SPDX-License-Identifier: MIT */
#include "my.h"

#include <stdlib.h>
#include <string.h>

void my_hex(char *out, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = '\0';
}

static bool tell(const struct my_row *row, dlock_holder_fn *fn, void *arg)
{
    char owner[MY_HEX_SIZE];
    struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = row->bytes[0],
        .name_len = (uint32_t)row->length[0],
        .mode = row->number[0] != 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = UINT32_MAX,
        .fence = (uint64_t)row->number[1],
        .fence_room = MY_FENCE_STEP - 1,
        .remaining_ms = row->number[2] / MY_US_PER_MS,
        .held_ms = row->number[3] / MY_US_PER_MS,
        .owner = owner,
        .label = (const char *)row->bytes[2],
    };

    my_hex(owner, row->bytes[1], row->length[1] <= DLOCK_TOKEN_SIZE ? row->length[1] : 0);
    return fn(arg, &info);
}

/* It was a question only: nothing can have come of it. */
static enum dlock_status asked(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
}

/* Strategy session: nobody has cleared what a holder left behind, so that the row itself is asked.
 * That takes it for a moment, if it is free, and gives it back in the same exchange. */
static enum dlock_status row_free(struct my_session *session, int *is_free, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *question = NULL, *text = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *is_free = 0;
    if (session->place.strategy != MY_SESSION)
        return DLOCK_OK;
    question = my_conn_text(&session->conn, MY_PROBE_FREE);
    if (question != NULL && asprintf(&text, "%s;ROLLBACK", question) < 0)
        text = NULL;
    if (text == NULL)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    else
        status = asked(my_conn_script(&session->conn, text, &results, err));
    if (status == DLOCK_OK && results.list[0] != NULL)
        *is_free = mysql_num_rows(results.list[0]) > 0;
    my_results_free(&results);
    my_conn_asked(&session->conn);
    free(question);
    free(text);
    return status;
}

enum dlock_status my_look_inspect(struct my_session *session, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    int is_free = 0;
    enum dlock_status status = row_free(session, &is_free, err);

    if (status != DLOCK_OK || is_free)
        return status;
    conn->input.number = session->place.grace_ms * MY_US_PER_MS;
    status = asked(my_conn_execute(conn, MY_INSPECT, err));
    if (status != DLOCK_OK)
        return status;
    while (my_conn_fetch(conn, MY_INSPECT) && tell(&conn->row, fn, arg) == 0)
        ;
    my_conn_done(conn, MY_INSPECT);
    my_conn_asked(conn);
    return DLOCK_OK;
}

enum dlock_status my_look_list(struct my_session *session, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum dlock_status status = DLOCK_INTERNAL;
    int stop = 0;

    conn->input.number = session->place.grace_ms * MY_US_PER_MS;
    status = asked(my_conn_execute(conn, MY_LIST, err));
    if (status != DLOCK_OK)
        return status;
    while (status == DLOCK_OK && !stop && my_conn_fetch(conn, MY_LIST)) {
        struct my_row row = conn->row;
        int is_free = 0;

        my_conn_input_name(conn, row.bytes[0], (uint32_t)row.length[0]);
        status = row_free(session, &is_free, err);
        if (status == DLOCK_OK && !is_free)
            stop = tell(&row, fn, arg);
    }
    my_conn_done(conn, MY_LIST);
    my_conn_asked(conn);
    return status;
}

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* 0, or -1: no owner of ours looks like that. */
static int token_parse(const char *owner, unsigned char *token)
{
    if (strlen(owner) != 2 * (size_t)DLOCK_TOKEN_SIZE)
        return -1;
    for (size_t i = 0; i < DLOCK_TOKEN_SIZE; i++) {
        int high = digit(owner[2 * i]), low = digit(owner[2 * i + 1]);

        if (high < 0 || low < 0)
            return -1;
        token[i] = (unsigned char)(high << 4 | low);
    }
    return 0;
}

enum dlock_status my_look_break(struct my_session *session, const char *owner,
                                struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum dlock_status status = DLOCK_INTERNAL;
    int gone = 0;

    conn->input.number = owner == NULL;
    conn->input.token_len = owner == NULL ? 0 : DLOCK_TOKEN_SIZE;
    if (owner != NULL && token_parse(owner, conn->input.token) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOT_HELD, 0, "nobody of that token holds it");
    status = my_conn_execute(conn, MY_BREAK, err);
    if (status != DLOCK_OK || conn->affected > 0)
        return status;
    status = my_reader_break(session, &gone, err);
    if (status == DLOCK_OK && gone == 0)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_NOT_HELD, 0, "nobody holds it");
    return status;
}
