/* SPDX-License-Identifier: MIT */
/*
 * Many exclusive leases are extended by one statement: one exchange, and one write of the server's
 * log. The statement waits for no row: if another transaction has locked one, it extends nothing.
 * Then the server tells which rows are free, and these are extended together. The other leases are
 * renewed one by one at the end. Each may wait for its row for a second, so that only leases whose
 * row is locked are late when the deadline comes.
 *
 * It is not one transaction of SELECT ... FOR UPDATE SKIP LOCKED and UPDATE: a client that is
 * stopped between the two would keep all these rows locked (ADR 0015).
 */
#include "renew.h"

#include "execute.h"
#include "lib/hex.h"
#include "query.h"
#include "reader.h"
#include "row_lease.h"
#include "row_shared.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 64

/* How often the rows that are free are extended, if others lock rows between the two statements. */
#define TRIES 3

struct batch {
    struct my_connection *conn;
    struct dlock_lease_op *const *ops;
    size_t n;
    bool together[BATCH];
};

static size_t together(const struct batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->n; i++)
        count += batch->together[i];
    return count;
}

/* For free(); NULL: no memory. */
static char *leases_make(const struct batch *batch)
{
    char name[2 * MY_NAME_MAX + 1], token[2 * DLOCK_TOKEN_SIZE + 1];
    char *text = NULL;
    const char *between = "";
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < batch->n; i++) {
        const struct dlock_request *req = batch->ops[i]->req;

        if (!batch->together[i])
            continue;
        dl_hex_encode(name, req->name, req->name_len);
        dl_hex_encode(token, req->token, sizeof req->token);
        (void)fputs(between, out);
        (void)fprintf(out, MY_LEASE, i, name, token, (long long)req->ttl_ms * MY_US_PER_MS);
        between = " UNION ALL ";
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static enum dlock_status leases_query(struct batch *batch, enum my_statement which,
                                      unsigned columns, MYSQL_RES **result, struct dlock_error *err)
{
    char *leases = leases_make(batch), *text = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    batch->conn->input.leases = leases;
    if (leases != NULL)
        text = my_execute_text(batch->conn, which);
    if (text != NULL)
        status = my_query_select(batch->conn, text, columns, result, err);
    else
        status = dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    free(leases);
    free(text);
    return status;
}

/* LOST: some leases are lost, and the others are extended. BUSY: a row is locked by another
 * transaction, and none is extended. */
static enum dlock_status extend(struct batch *batch, struct dlock_error *err)
{
    MYSQL_RES *none = NULL;
    enum dlock_status status = leases_query(batch, MY_EXTEND_ALL, 0, &none, err);

    if (status == DLOCK_OK && batch->conn->affected != together(batch))
        return DLOCK_LOST;
    return my_errmap_contended(status, err);
}

/* Leases whose rows are locked by others, or that are lost, do not stay together. */
static enum dlock_status keep_free(struct batch *batch, struct dlock_error *err)
{
    bool is_free[BATCH] = {false};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = leases_query(batch, MY_FREE_OF, 1, &result, err);

    while (status == DLOCK_OK && (row = mysql_fetch_row(result)) != NULL) {
        const size_t i = row[0] != NULL ? strtoul(row[0], NULL, 10) : BATCH;

        if (i < BATCH)
            is_free[i] = true;
    }
    mysql_free_result(result);
    for (size_t i = 0; i < batch->n && status == DLOCK_OK; i++)
        batch->together[i] &= is_free[i];
    return status;
}

static void renew_together(struct batch *batch, struct dlock_error *err)
{
    enum dlock_status status = extend(batch, err);

    for (int i = 1; i < TRIES && status == DLOCK_BUSY; i++) {
        status = keep_free(batch, err);
        if (status == DLOCK_OK && together(batch) > 0)
            status = extend(batch, err);
    }
    if (status == DLOCK_LOST)
        status = keep_free(batch, err);
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->together[i])
            batch->ops[i]->status = status;
    }
}

static bool is_alone(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && !my_permit_is(req);
}

/* Exclusive leases together, readers and permits one by one. BUSY: later. */
static void renew_some(struct batch *batch, struct dlock_error *err)
{
    for (size_t i = 0; i < batch->n; i++)
        batch->together[i] = is_alone(batch->ops[i]->req);
    if (together(batch) > 0)
        renew_together(batch, err);
    for (size_t i = 0; i < batch->n && !batch->conn->dead; i++) {
        struct dlock_lease_op *op = batch->ops[i];

        if (is_alone(op->req))
            continue;
        my_execute_input(batch->conn, op->req);
        op->status = my_permit_is(op->req) ? my_permit_renew(batch->conn, true, err)
                                           : my_reader_renew(batch->conn, op, true, err);
        op->status = my_errmap_contended(op->status, err);
    }
}

void my_renew(struct my_connection *conn, struct dlock_lease_op *const *ops, size_t n,
              struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        ops[i]->grant.lease_ms = ops[i]->req->ttl_ms;
        ops[i]->status = DLOCK_BUSY;
    }
    for (size_t i = 0; i < n && n > 1; i += BATCH) {
        struct batch batch = {.conn = conn, .ops = ops + i, .n = n - i < BATCH ? n - i : BATCH};

        renew_some(&batch, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status == DLOCK_BUSY)
            ops[i]->status = conn->dead ? DLOCK_UNAVAILABLE : my_lease_renew(conn, ops[i], err);
    }
}
