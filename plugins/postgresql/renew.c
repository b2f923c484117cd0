/* SPDX-License-Identifier: MIT */
/*
 * Many leases are extended by one statement: one exchange, and one wait for the disk. It waits for
 * no row. Leases whose rows another transaction has locked are renewed one by one at the end, and
 * each may wait for its row: only these are late when the deadline comes.
 */
#include "renew.h"

#include "columns.h"
#include "notify.h"
#include "statements.h"

#define BATCH 128

/* The result of an element. */
enum { IS_LOST, IS_EXTENDED, IS_LOCKED };

/* Fills the parameters, which borrow from *columns. False: no memory. */
static bool params_make(struct pg_params *params, struct pg_columns *columns,
                        struct dlock_lease_op *const *ops, size_t n)
{
    static const enum pg_column which[] = {PG_COLUMN_NAME, PG_COLUMN_TOKEN, PG_COLUMN_TTL,
                                           PG_COLUMN_DOWNGRADE};
    const struct dlock_request *reqs[BATCH];
    bool made = true;

    for (size_t i = 0; i < n; i++)
        reqs[i] = ops[i]->req;
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++)
        made = made && pg_columns_add(columns, params, which[i], reqs, n);
    return made;
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
    struct pg_columns columns = {.count = 0};
    struct pg_params params = {0};
    PGresult *result = NULL;
    const int64_t patience_ms = pg_statements_patience_ms(conn);
    enum dlock_status status = DLOCK_NOMEM;

    if (params_make(&params, &columns, ops, n)) {
        pg_params_number(&params, skip ? -(patience_ms + 3) / 4 : patience_ms);
        status = pg_statements_run(conn, PG_RENEW, &params, (int)n, &result, err);
    } else {
        (void)dlock_fail(err, PG_ORIGIN, status, 0, "no memory for renewals");
    }
    pg_columns_free(&columns);
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
