/* SPDX-License-Identifier: MIT */
/* Many leases are extended by one statement, so that they cost one exchange and one write of the
 * server's log. If it did not find all of them, each is asked for alone. */
#include "my.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 64

static int batchable(const struct dlock_lease_op *op)
{
    return op->req->mode == DLOCK_EXCLUSIVE;
}

/* Of the first `n` elements, the text for those in exclusive mode. NULL: no memory. */
static char *text_make(const struct my_place *place, const struct dlock_lease_op *ops, size_t n)
{
    char name[2 * MY_NAME_MAX + 1], token[MY_HEX_SIZE], head[64];
    char *text = NULL;
    const char *between = "";
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    (void)my_schema_expand(my_sql_batch_head, place->prefix, head, sizeof head);
    (void)fputs(head, out);
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i].req;

        if (!batchable(&ops[i]))
            continue;
        my_hex(name, req->name, req->name_len);
        my_hex(token, req->token, sizeof req->token);
        (void)fputs(between, out);
        (void)fprintf(out, MY_SQL_BATCH_ONE, name, token, (long long)req->ttl_ms * MY_US_PER_MS);
        between = " UNION ALL ";
    }
    (void)fputs(my_sql_batch_tail, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* *all: every one of them was there. Otherwise those that were are extended, too. */
static enum dlock_status batch_send(struct my_session *session, const struct dlock_lease_op *ops,
                                    size_t n, size_t count, int *all, struct dlock_error *err)
{
    char *text = text_make(&session->place, ops, n);
    enum dlock_status status = DLOCK_INTERNAL;

    *all = 0;
    if (text == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    status = my_conn_query(&session->conn, text, err);
    free(text);
    *all = status == DLOCK_OK && session->conn.affected == count;
    return status;
}

static void renew_some(struct my_session *session, struct dlock_lease_op *ops, size_t n,
                       struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    size_t count = 0;
    int all = 0;

    for (size_t i = 0; i < n; i++)
        count += batchable(&ops[i]) != 0;
    if (count > 1)
        status = batch_send(session, ops, n, count, &all, err);
    for (size_t i = 0; i < n; i++) {
        ops[i].grant.lease_ms = ops[i].req->ttl_ms;
        if (batchable(&ops[i]) && (all || status != DLOCK_OK))
            ops[i].status = status;
        else if (session->conn.dead)
            ops[i].status = DLOCK_UNAVAILABLE;
        else
            ops[i].status = my_lease_renew_one(session, &ops[i], err);
    }
}

enum dlock_status my_lease_renew(struct my_session *session, struct dlock_lease_op *ops, size_t n,
                                 struct dlock_error *err)
{
    for (size_t i = 0; i < n; i += BATCH)
        renew_some(session, ops + i, n - i < BATCH ? n - i : BATCH, err);
    return DLOCK_OK;
}
