/* SPDX-License-Identifier: MIT */
/*
 * Many leases are extended by one statement: one exchange, and one wait for the disk. It waits for
 * no row. Leases whose rows another transaction has locked are renewed one by one at the end, and
 * each may wait for its row: only these are late when the deadline comes.
 */
#include "renew.h"

#include "lib/hex.h"
#include "notify.h"
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 128

/* The result of an element. */
enum { IS_LOST, IS_EXTENDED, IS_LOCKED };

/* The elements as arrays of the server. */
struct columns {
    char *names, *tokens, *ttls, *downgrades;
};

static void bytes_write(FILE *out, const void *bytes, size_t len)
{
    char hex[2 * 255 + 1];

    dl_hex_encode(hex, bytes, len <= 255 ? len : 255);
    (void)fprintf(out, "\"\\\\x%s\"", hex);
}

static void name_write(FILE *out, const struct dlock_request *req)
{
    bytes_write(out, req->name, req->name_len);
}

static void token_write(FILE *out, const struct dlock_request *req)
{
    bytes_write(out, req->token, sizeof req->token);
}

static void ttl_write(FILE *out, const struct dlock_request *req)
{
    (void)fprintf(out, "%lld", (long long)req->ttl_ms);
}

static void downgrade_write(FILE *out, const struct dlock_request *req)
{
    (void)fputc((req->flags & DLOCK_REQ_DOWNGRADE) != 0 ? 't' : 'f', out);
}

/* "{a,b,c}", for free(); NULL: no memory. */
static char *column_make(struct dlock_lease_op *const *ops, size_t n,
                         void (*write)(FILE *out, const struct dlock_request *req))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        (void)fputc(i == 0 ? '{' : ',', out);
        write(out, ops[i]->req);
    }
    (void)fputc('}', out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static bool columns_make(struct columns *columns, struct dlock_lease_op *const *ops, size_t n)
{
    *columns = (struct columns){
        .names = column_make(ops, n, name_write),
        .tokens = column_make(ops, n, token_write),
        .ttls = column_make(ops, n, ttl_write),
        .downgrades = column_make(ops, n, downgrade_write),
    };
    return columns->names != NULL && columns->tokens != NULL && columns->ttls != NULL &&
           columns->downgrades != NULL;
}

static void columns_free(struct columns *columns)
{
    free(columns->names);
    free(columns->tokens);
    free(columns->ttls);
    free(columns->downgrades);
}

static void op_read(const PGresult *result, int row, struct dlock_lease_op *op)
{
    const int64_t outcome = pg_query_number(result, row, 1);

    op->status = outcome == IS_LOST ? DLOCK_LOST : DLOCK_BUSY;
    if (outcome != IS_EXTENDED)
        return;
    op->status = DLOCK_OK;
    op->grant.lease_ms = op->req->ttl_ms;
    op->grant.waiters = (uint32_t)pg_query_number(result, row, 2);
}

/* skip: leases whose rows are locked stay BUSY, and all do if another transaction is in the way. */
static enum dlock_status renew_some(struct pg_connection *conn, struct dlock_lease_op *const *ops,
                                    size_t n, bool skip, struct dlock_error *err)
{
    struct columns columns;
    struct pg_params params = {0};
    PGresult *result = NULL;
    const int64_t patience_ms = pg_statements_patience_ms(conn);
    enum dlock_status status = DLOCK_NOMEM;

    if (columns_make(&columns, ops, n)) {
        pg_params_literal(&params, columns.names);
        pg_params_literal(&params, columns.tokens);
        pg_params_literal(&params, columns.ttls);
        pg_params_literal(&params, columns.downgrades);
        pg_params_number(&params, skip ? -(patience_ms + 3) / 4 : patience_ms);
        status = pg_statements_run(conn, PG_RENEW, &params, (int)n, &result, err);
    } else {
        (void)dlock_fail(err, PG_ORIGIN, status, 0, "no memory for renewals");
    }
    columns_free(&columns);
    if (skip && status == DLOCK_UNAVAILABLE && !conn->dead && pg_errmap_contention(err->code))
        return DLOCK_BUSY;
    for (size_t i = 0; i < n && status != DLOCK_OK; i++)
        ops[i]->status = status;
    if (status != DLOCK_OK)
        return status;
    for (int row = 0; row < PQntuples(result); row++) {
        const int64_t i = pg_query_number(result, row, 0);

        if (i >= 1 && i <= (int64_t)n)
            op_read(result, row, ops[i - 1]);
    }
    pg_notify_send(conn, result);
    PQclear(result);
    return DLOCK_OK;
}

enum dlock_status pg_renew(struct pg_session *session, struct dlock_lease_op *const *ops, size_t n,
                           int64_t deadline_ns, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    enum dlock_status status = pg_connection_enter(conn, deadline_ns, err);

    for (size_t i = 0; i < n; i++)
        ops[i]->status = status == DLOCK_OK ? DLOCK_BUSY : status;
    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < n && n > 1 && !conn->dead; i += BATCH)
        (void)renew_some(conn, ops + i, n - i < BATCH ? n - i : BATCH, true, err);
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status == DLOCK_BUSY && conn->dead)
            ops[i]->status = DLOCK_UNAVAILABLE; /* not sent */
        else if (ops[i]->status == DLOCK_BUSY)
            (void)renew_some(conn, ops + i, 1, false, err);
    }
    return DLOCK_OK;
}
