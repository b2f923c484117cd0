/* SPDX-License-Identifier: MIT */
/*
 * Many exclusive leases are extended by one statement, so that they cost one exchange and one write
 * of the server's log. It waits for no row: if others have locked one, it extends nothing, the
 * server says which rows are free, and those are extended together. The rest is asked for one by
 * one, and the rows that are locked at the very end, with the server's patience of a second: only
 * they are late when the deadline comes.
 */
#include "my.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 64

enum state { TOGETHER, ALONE, DONE };

struct batch {
    struct my_session *session;
    struct dlock_lease_op *ops;
    size_t n;
    enum state state[BATCH];
};

static size_t together(const struct batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->n; i++)
        count += batch->state[i] == TOGETHER;
    return count;
}

/* Those that are together: from now on they are this, with this status. */
static void together_end(struct batch *batch, enum state state, enum dlock_status status)
{
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->state[i] != TOGETHER)
            continue;
        batch->ops[i].status = status;
        batch->state[i] = state;
    }
}

/* For free(); NULL: no memory. */
static char *text_make(const struct batch *batch, enum my_batch which)
{
    const struct my_session *session = batch->session;
    const struct my_sql_batch *sql = &my_sql_batches[which];
    const int at_once = sql->head[0] == '@';
    char name[2 * MY_NAME_MAX + 1], token[MY_HEX_SIZE], tail[512];
    char *text = NULL;
    const char *between = "";
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    (void)my_schema_expand(sql->tail, session->place.prefix, tail, sizeof tail);
    (void)fprintf(out, "%s%s", at_once ? session->conn.dialect->at_once : "",
                  sql->head + (at_once ? 2 : 0));
    for (size_t i = 0; i < batch->n; i++) {
        const struct dlock_request *req = batch->ops[i].req;

        if (batch->state[i] != TOGETHER)
            continue;
        my_hex(name, req->name, req->name_len);
        my_hex(token, req->token, sizeof req->token);
        (void)fputs(between, out);
        (void)fprintf(out, MY_SQL_BATCH_ONE, i, name, token, (long long)req->ttl_ms * MY_US_PER_MS);
        between = " UNION ALL ";
    }
    (void)fputs(tail, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
}

/* *all: every one of them was there. Otherwise those that were are extended, too. */
static enum dlock_status extend(struct batch *batch, int *all, struct dlock_error *err)
{
    struct my_conn *conn = &batch->session->conn;
    char *text = text_make(batch, MY_BATCH_EXTEND);
    enum dlock_status status = DLOCK_INTERNAL;

    *all = 0;
    if (text == NULL)
        return no_memory(err);
    status = my_conn_query(conn, text, err);
    free(text);
    *all = status == DLOCK_OK && conn->affected == together(batch);
    return status;
}

/* Which of them the server names. */
static enum dlock_status question(struct batch *batch, enum my_batch which, unsigned char *named,
                                  struct dlock_error *err)
{
    char *text = text_make(batch, which);
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (text == NULL)
        return no_memory(err);
    status = my_conn_select(&batch->session->conn, text, 1, &result, err);
    free(text);
    while (status == DLOCK_OK && (row = mysql_fetch_row(result)) != NULL) {
        const size_t i = row[0] != NULL ? strtoul(row[0], NULL, 10) : BATCH;

        if (i < BATCH)
            named[i] = 1;
    }
    mysql_free_result(result);
    return status;
}

/* Some were not there: who is there now was there then. */
static enum dlock_status tell_lost(struct batch *batch, struct dlock_error *err)
{
    unsigned char live[BATCH] = {0};
    enum dlock_status status = question(batch, MY_BATCH_LIVE, live, err);

    for (size_t i = 0; i < batch->n && status == DLOCK_OK; i++) {
        if (batch->state[i] == TOGETHER && !live[i]) {
            batch->ops[i].status = DLOCK_LOST;
            batch->state[i] = DONE;
        }
    }
    return status;
}

/* Those whose rows are locked by others, or that are lost, do not stay together. */
static enum dlock_status part(struct batch *batch, struct dlock_error *err)
{
    unsigned char is_free[BATCH] = {0};
    enum dlock_status status = question(batch, MY_BATCH_FREE, is_free, err);

    for (size_t i = 0; i < batch->n && status == DLOCK_OK; i++) {
        if (batch->state[i] == TOGETHER && !is_free[i])
            batch->state[i] = ALONE;
    }
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status; /* nothing was extended */
}

static void renew_together(struct batch *batch, struct dlock_error *err)
{
    int all = 0;
    enum dlock_status status = extend(batch, &all, err);

    if (status != DLOCK_OK && my_contention((unsigned)err->backend_code)) {
        status = part(batch, err);
        if (status == DLOCK_OK && together(batch) == 0)
            return;
        if (status == DLOCK_OK)
            status = extend(batch, &all, err);
    }
    if (status == DLOCK_OK && !all)
        status = tell_lost(batch, err);
    if (status != DLOCK_OK && my_contention((unsigned)err->backend_code))
        together_end(batch, ALONE, status);
    else
        together_end(batch, DONE, status);
}

/* A row that others have locked is left for later, as BUSY. */
static void renew_alone(struct batch *batch, struct dlock_error *err)
{
    struct my_session *session = batch->session;

    for (size_t i = 0; i < batch->n; i++) {
        struct dlock_lease_op *op = &batch->ops[i];

        if (batch->state[i] != ALONE)
            continue;
        op->status = DLOCK_UNAVAILABLE;
        if (!session->conn.dead)
            op->status = my_lease_contended(my_lease_renew_one(session, op, 1, err), err);
    }
}

static void renew_some(struct batch *batch, struct dlock_error *err)
{
    for (size_t i = 0; i < batch->n; i++)
        batch->state[i] = batch->ops[i].req->mode == DLOCK_EXCLUSIVE ? TOGETHER : ALONE;
    if (together(batch) > 1)
        renew_together(batch, err);
    else
        together_end(batch, ALONE, DLOCK_INTERNAL);
    renew_alone(batch, err);
}

enum dlock_status my_lease_renew(struct my_session *session, struct dlock_lease_op *ops, size_t n,
                                 struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        ops[i].grant.lease_ms = ops[i].req->ttl_ms;
        ops[i].status = DLOCK_BUSY;
    }
    for (size_t i = 0; i < n && n > 1; i += BATCH) {
        struct batch batch = {
            .session = session, .ops = ops + i, .n = n - i < BATCH ? n - i : BATCH};

        renew_some(&batch, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == DLOCK_BUSY)
            ops[i].status = session->conn.dead ? DLOCK_UNAVAILABLE
                                               : my_lease_renew_one(session, &ops[i], 0, err);
    }
    return DLOCK_OK;
}
