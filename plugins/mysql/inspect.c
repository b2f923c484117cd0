/* SPDX-License-Identifier: MIT */
#include "inspect.h"

#include "lib/text.h"
#include "query.h"
#include "row_queue.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_TEXT_MOST 640 /* of the longest name */
#define IN_PERMITS      2   /* the first column: the holders are in {permits} */

static bool permit_report(const struct my_row *row, uint32_t waiters, dlock_holder_fn *fn,
                          void *arg)
{
    char owner[2 * DLOCK_TOKEN_SIZE + 1] = "";
    const struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = row->bytes[0],
        .name_len = (uint32_t)row->length[0],
        .mode = DLOCK_EXCLUSIVE,
        .waiters = waiters,
        .fence = (uint64_t)row->number[1],
        .fence_last = (uint64_t)row->number[1] + MY_FENCE_STEP - 1,
        .remaining_ms = row->number[2] / MY_US_PER_MS,
        .held_ms = row->number[3] / MY_US_PER_MS,
        .owner = owner,
        .label = (const char *)row->bytes[2],
        .limit = row->number[0] > 1 ? (uint32_t)row->number[0] : 0,
        .permit = (uint32_t)row->number[4],
        .kept = row->number[5] != 0,
        .data_len = (uint32_t)row->length[3],
        .data = row->length[3] > 0 ? row->bytes[3] : NULL,
    };

    if (!info.kept) /* what is kept has no owner */
        dl_hex_encode(owner, row->bytes[1],
                      row->length[1] <= DLOCK_TOKEN_SIZE ? row->length[1] : 0);
    return fn(arg, &info);
}

/* The name in conn->input is taken, and no more is known: this user may not read {permits}. */
static bool name_report(const struct my_connection *conn, const long long *number, uint32_t waiters,
                        dlock_holder_fn *fn, void *arg)
{
    const struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = conn->input.name,
        .name_len = (uint32_t)conn->input.name_len,
        .mode = DLOCK_EXCLUSIVE,
        .waiters = waiters,
        .fence = (uint64_t)number[1],
        .fence_last = (uint64_t)number[1] + MY_FENCE_STEP - 1,
        .remaining_ms = number[2] / MY_US_PER_MS,
        .held_ms = -1,
        .owner = "",
        .label = "",
    };

    return fn(arg, &info);
}

/* The holders with their data or, if this user may not read {data} or it is gone, without. */
static enum dlock_status holders_select(struct my_connection *conn, enum my_statement which,
                                        struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    enum dlock_status status = my_statements_run(conn, which, &why);

    if (my_schema_is_hidden(status, &why) && conn->with_data) {
        atomic_store(&conn->tables->has_data, false);
        return my_statements_run(conn, which, err);
    }
    return status == DLOCK_OK ? DLOCK_OK
                              : dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
}

/* Of the name in conn->input; number: of its row in {names}. */
static enum dlock_status permits_report(struct my_connection *conn, const long long *number,
                                        uint32_t waiters, dlock_holder_fn *fn, void *arg,
                                        bool *stop, struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    enum dlock_status status = holders_select(conn, MY_INSPECT_PERMITS, &why);

    if (my_schema_is_hidden(status, &why)) {
        *stop = name_report(conn, number, waiters, fn, arg);
        return DLOCK_OK;
    }
    if (status != DLOCK_OK)
        return dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
    while (!*stop && my_statements_fetch(conn, MY_INSPECT_PERMITS))
        *stop = permit_report(&conn->row, waiters, fn, arg);
    my_statements_done(conn, MY_INSPECT_PERMITS);
    return DLOCK_OK;
}

static bool report(const struct my_row *row, uint32_t waiters, dlock_holder_fn *fn, void *arg)
{
    char owner[2 * DLOCK_TOKEN_SIZE + 1];
    struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = row->bytes[0],
        .name_len = (uint32_t)row->length[0],
        .mode = row->number[0] != 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = waiters,
        .fence = (uint64_t)row->number[1],
        .fence_last = (uint64_t)row->number[1] + MY_FENCE_STEP - 1,
        .remaining_ms = row->number[2] / MY_US_PER_MS,
        .held_ms = row->number[3] / MY_US_PER_MS,
        .owner = owner,
        .label = (const char *)row->bytes[2],
        .data_len = (uint32_t)row->length[3], /* 0 with strategy session */
        .data = row->length[3] > 0 ? row->bytes[3] : NULL,
    };

    dl_hex_encode(owner, row->bytes[1], row->length[1] <= DLOCK_TOKEN_SIZE ? row->length[1] : 0);
    return fn(arg, &info);
}

/* *waiters: of the name in conn->input; UINT32_MAX: strategy session does not count them. */
static enum dlock_status waiters_count(struct my_connection *conn, uint32_t *waiters,
                                       struct dlock_error *err)
{
    char hex[2 * QUEUE_TEXT_MOST + 1];
    char *queue = NULL, *text = NULL;
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = DLOCK_NOMEM;

    *waiters = UINT32_MAX;
    if (conn->config->strategy == MY_SESSION)
        return DLOCK_OK;
    queue = my_queue_text(conn->config, conn->input.name, (uint32_t)conn->input.name_len);
    if (queue != NULL && strlen(queue) <= QUEUE_TEXT_MOST) {
        dl_hex_encode(hex, (const unsigned char *)queue, strlen(queue));
        conn->input.leases = hex;
        text = my_statements_text(conn, MY_WAITERS);
    }
    if (text != NULL)
        status = my_query_select(conn, text, 1, &result, err);
    else
        status = dlock_fail(err, MY_ORIGIN, status, 0, "no memory for a query");
    row = status == DLOCK_OK ? mysql_fetch_row(result) : NULL;
    if (row != NULL && row[0] != NULL)
        *waiters = (uint32_t)strtoul(row[0], NULL, 10);
    mysql_free_result(result);
    free(queue);
    free(text);
    return status;
}

/* Strategy session: a holder that died leaves its entry behind, so that only the row itself tells
 * whether it is held. This takes a free row for a moment and gives it back in the same exchange. */
static enum dlock_status row_free(struct my_connection *conn, bool *is_free,
                                  struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *text = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *is_free = false;
    if (conn->config->strategy != MY_SESSION)
        return DLOCK_OK;
    text = my_statements_text(conn, MY_PROBE_FREE);
    if (text == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    conn->in_transaction = true;
    status = my_query_script(conn, text, &results, err);
    conn->in_transaction = false;
    if (status == DLOCK_OK && results.list[0] != NULL)
        *is_free = mysql_num_rows(results.list[0]) > 0;
    my_query_results_free(&results);
    my_query_end_read(conn);
    free(text);
    return status;
}

/* Of the name in conn->input. */
static enum dlock_status name_inspect(struct my_connection *conn, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    bool is_free = false, stop = false;
    struct my_row named = {.number = {0}};
    uint32_t waiters = UINT32_MAX;
    enum dlock_status status = row_free(conn, &is_free, err);

    if (status != DLOCK_OK || is_free)
        return status;
    status = waiters_count(conn, &waiters, err);
    if (status != DLOCK_OK)
        return status;
    conn->input.number = conn->config->grace_ms * MY_US_PER_MS;
    status = holders_select(conn, MY_INSPECT, err);
    if (status != DLOCK_OK)
        return status;
    while (!stop && my_statements_fetch(conn, MY_INSPECT)) {
        if (conn->row.number[0] == IN_PERMITS)
            named = conn->row;
        else
            stop = report(&conn->row, waiters, fn, arg);
    }
    my_statements_done(conn, MY_INSPECT);
    if (named.number[0] == IN_PERMITS && !stop)
        status = permits_report(conn, named.number, waiters, fn, arg, &stop, err);
    my_query_end_read(conn);
    return status;
}

/* Of the names that begin with the one in conn->input. */
static enum dlock_status names_inspect(struct my_connection *conn, dlock_holder_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    bool stop = false;

    conn->input.number = conn->config->grace_ms * MY_US_PER_MS;
    status = holders_select(conn, MY_LIST, err);
    if (status != DLOCK_OK)
        return status;
    while (status == DLOCK_OK && !stop && my_statements_fetch(conn, MY_LIST)) {
        struct my_row row = conn->row;
        bool is_free = false;

        my_statements_input_name(conn, row.bytes[0], (uint32_t)row.length[0]);
        status = row_free(conn, &is_free, err);
        if (status == DLOCK_OK && row.number[0] == IN_PERMITS)
            status = permits_report(conn, row.number, UINT32_MAX, fn, arg, &stop, err);
        else if (status == DLOCK_OK && !is_free)
            stop = report(&row, UINT32_MAX, fn, arg);
    }
    my_statements_done(conn, MY_LIST);
    my_query_end_read(conn);
    return status;
}

enum dlock_status my_inspect_name(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, deadline_ns, err);

    my_statements_input_name(&session->conn, name, name_len);
    return status == DLOCK_OK ? name_inspect(&session->conn, fn, arg, err) : status;
}

enum dlock_status my_inspect_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, deadline_ns, err);

    my_statements_input_name(&session->conn, prefix, prefix_len);
    return status == DLOCK_OK ? names_inspect(&session->conn, fn, arg, err) : status;
}
