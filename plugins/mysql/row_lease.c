/* SPDX-License-Identifier: MIT */
#include "row_lease.h"

#include "connection.h"
#include "lib/text.h"
#include "query.h"
#include "row.h"
#include "row_queue.h"
#include "row_shared.h"

#include <stdio.h>
#include <stdlib.h>

int64_t my_row_lease_left_ms(int64_t exclusive_us, int64_t readers_us)
{
    int64_t us = exclusive_us > readers_us ? exclusive_us : readers_us;

    return us > 0 ? (us + MY_US_PER_MS - 1) / MY_US_PER_MS : 0;
}

/* Whether another owner holds it. This locks no row: many contenders would lock it in turn. */
static enum dlock_status poll_row(struct my_connection *conn, struct dlock_grant *grant,
                                  bool *there, struct dlock_error *err)
{
    enum dlock_status status = my_statements_row(conn, MY_POLL, there, err);
    int64_t left_ms = 0;

    if (status != DLOCK_OK || !*there)
        return status;
    left_ms = my_row_lease_left_ms(conn->row.number[1], conn->row.number[2]);
    if (left_ms > 0) /* 0: it is free, and may be reserved for a waiter */
        grant->holder_ms = left_ms;
    if (conn->row.number[3] != 0) /* the name has permits */
        return my_row_permit_refuse(conn, err);
    return left_ms > 0 && conn->row.number[0] == 0 ? DLOCK_BUSY : DLOCK_OK;
}

/* BUSY, with what the holder has left. */
static enum dlock_status held(struct my_connection *conn, struct dlock_grant *grant,
                              struct dlock_error *err)
{
    bool there = false;
    enum dlock_status status = poll_row(conn, grant, &there, err);

    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

static enum dlock_status row_try(struct my_connection *conn, const struct my_slot *slot,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    bool there = false;
    enum dlock_status status =
        my_statements_run(conn, slot->queue != NULL ? MY_TAKE_AGAIN : MY_TAKE, err);

    if (status != DLOCK_OK || conn->affected > 0)
        return status;
    status = poll_row(conn, grant, &there, err);
    if (status != DLOCK_OK)
        return status;
    if (!there)
        return my_statements_run(conn, MY_CREATE, err);
    if (conn->row.number[0] == 0 || conn->row.number[1] <= 0)
        return DLOCK_BUSY;
    status = my_statements_run(conn, MY_TAKE_AGAIN, err); /* it is ours: an answer was lost */
    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_BUSY : status;
}

/* The row is ours; the number follows, and without it the row is given back. The numbers of one
 * name rise all the same: another owner can take the row only after our lease has ended. */
static enum dlock_status insert_fence(struct my_connection *conn, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = my_statements_run(conn, MY_FENCE, err);

    if (status == DLOCK_OK && conn->affected == 0)
        status = my_statements_run(conn, MY_FENCE_FIRST, err);
    if (status == DLOCK_OK) /* none: broken, or too late, and not ours any more */
        return conn->affected > 0 ? DLOCK_OK : DLOCK_BUSY;
    if (conn->dead || my_statements_run(conn, MY_UNLOCK, &ignored) != DLOCK_OK)
        return DLOCK_UNKNOWN;
    return status;
}

/* There is a row: another owner's, one that nobody holds any more, or ours. */
static enum dlock_status insert_again(struct my_connection *conn, struct dlock_grant *grant,
                                      struct dlock_error *err)
{
    enum dlock_status status = my_statements_run(conn, MY_EXTEND, err);

    if (status == DLOCK_OK && conn->affected == 0) {
        status = my_statements_run(conn, MY_SWEEP, err);
        if (status == DLOCK_OK && conn->affected > 0)
            status = my_statements_run(conn, MY_TAKE, err);
        if (status == DLOCK_OK && conn->affected == 0)
            status = held(conn, grant, err);
    }
    return status;
}

static enum dlock_status insert_try(struct my_connection *conn, struct dlock_grant *grant,
                                    struct dlock_error *err)
{
    enum dlock_status status = my_statements_run(conn, MY_TAKE, err);

    if (status == DLOCK_OK && conn->affected == 0)
        return held(conn, grant, err);
    if (status != DLOCK_OK && err->code == 1062)
        status = insert_again(conn, grant, err);
    return status == DLOCK_OK ? insert_fence(conn, err) : status;
}

/* With its data, if it has any. The row of one that does not get the name goes again. */
static enum dlock_status exclusive_take(struct my_connection *conn, const struct my_slot *slot,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = my_row_data_put(conn, err);

    if (status != DLOCK_OK)
        return status;
    conn->input.number = my_queue_is_head(slot->queue);
    status = conn->config->strategy == MY_ROW ? row_try(conn, slot, grant, err)
                                              : insert_try(conn, grant, err);
    status = my_connection_contended(status, err);
    if (status == DLOCK_BUSY && my_row_data_is(conn))
        my_row_data_remove(conn);
    return status;
}

static enum dlock_status exclusive_try(struct my_connection *conn, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    bool there = false;
    enum dlock_status status = DLOCK_OK;

    if ((slot->tried && slot->queue == NULL) || my_row_data_is(conn))
        status = poll_row(conn, grant, &there, err);
    if (status == DLOCK_OK)
        status = exclusive_take(conn, slot, grant, err);
    if (status != DLOCK_OK)
        return my_connection_contended(status, err);
    grant->lease_ms = req->ttl_ms;
    grant->fence = conn->insert_id;
    grant->fence_room = MY_FENCE_STEP - 1;
    return DLOCK_OK;
}

/* The head has not reserved the name for so long: it would be the second one that the server has
 * ended, or this entry is lost. */
#define SILENT_S (2 * MY_HEAD_S)

/* BUSY: other waiters come first. A grant here would pass them: the reservation of the head lapses
 * when the head is slow, and ends when it gets the name. */
static enum dlock_status order_check(struct my_connection *conn, const struct my_slot *slot,
                                     struct dlock_error *err)
{
    bool there = false;
    enum dlock_status status = DLOCK_OK;

    if (!my_queue_is_behind(slot->queue) || slot->doubtful)
        return DLOCK_OK;
    conn->input.number = SILENT_S * 1000 * MY_US_PER_MS;
    status = my_statements_row(conn, MY_QUEUE_SILENT, &there, err);
    return status == DLOCK_OK && there && conn->row.number[0] == 0 ? DLOCK_BUSY : status;
}

void my_row_lease_tried(struct my_slot *slot, enum dlock_status status)
{
    slot->tried = status == DLOCK_BUSY;
    slot->doubtful |= status != DLOCK_OK && status != DLOCK_BUSY && status != DLOCK_UNAVAILABLE;
}

enum dlock_status my_row_lease_try(struct my_connection *conn, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    const bool alone = req->mode == DLOCK_EXCLUSIVE && !my_row_permit_is(req);
    struct my_slot *slot = req->attempt;
    enum dlock_status status = DLOCK_INTERNAL;

    my_statements_input(conn, req);
    slot->asked = true;
    status = order_check(conn, slot, err);
    if (status != DLOCK_OK) {
        my_row_lease_tried(slot, status);
        return status;
    }
    if (alone)
        status = exclusive_try(conn, req, grant, err);
    else if (my_row_permit_is(req))
        status = my_row_permit_try(conn, req, grant, err);
    else
        status = my_row_reader_try(conn, req, grant, err);
    my_row_lease_tried(slot, status);
    if (status == DLOCK_OK && slot->queue != NULL && (!alone || !my_queue_keep(slot->queue)))
        my_queue_dequeue(req);
    if (status == DLOCK_OK)
        my_row_data_reap(conn);
    return status;
}

static enum dlock_status lease_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    my_statements_input(conn, op->req);
    if (op->req->mode == DLOCK_SHARED)
        return my_row_reader_renew(conn, op, false, err);
    if (my_row_permit_is(op->req))
        return my_row_permit_renew(conn, false, err);
    status = my_statements_run(conn, MY_EXTEND, err);
    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

static void pass(void *queue)
{
    my_queue_pass(queue);
}

static enum dlock_status lease_end(struct my_connection *conn, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (req->keep_ms > 0)
        return my_row_permit_keep(conn, req, err);
    if (req->mode == DLOCK_SHARED)
        return my_row_reader_unlock(conn, err);
    if (my_row_permit_is(req))
        return my_row_permit_unlock(conn, err);
    status = my_statements_run(conn, MY_UNLOCK, err);
    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

/* An adopted lease may have data, and its request has none. */
static bool may_have_data(const struct my_connection *conn, const struct my_slot *slot)
{
    return my_row_data_is(conn) || (!slot->asked && atomic_load(&conn->tables->has_data));
}

/* The next waiter is let through while the server executes this, and waits for the row of the name:
 * its way to the server and the commit take place at the same time. */
enum dlock_status my_row_lease_unlock(struct my_connection *conn, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    struct my_slot *slot = req->attempt;
    struct my_queue *queue = slot->queue;
    enum dlock_status status = my_connection_enter(conn, req->deadline_ns, err);

    slot->queue = NULL;
    conn->on_sent = queue != NULL ? pass : NULL;
    conn->on_sent_arg = queue;
    my_statements_input(conn, req);
    if (status == DLOCK_OK)
        status = lease_end(conn, req, err);
    conn->on_sent = NULL;
    if ((status == DLOCK_OK || status == DLOCK_LOST) && may_have_data(conn, slot))
        my_row_data_remove(conn);
    if (queue != NULL)
        my_queue_end(queue, req->deadline_ns);
    return status;
}

/* Of the name in conn->input; owner NULL: of all owners. */
static enum dlock_status lease_break(struct my_connection *conn, const char *owner,
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    uint64_t count = 0;

    conn->input.number = owner == NULL;
    conn->input.token_len = owner == NULL ? 0 : DLOCK_TOKEN_SIZE;
    if (owner != NULL && !dl_hex_decode(conn->input.token, DLOCK_TOKEN_SIZE, owner))
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOT_HELD, 0, "no holder has this token");
    status = my_statements_run(conn, MY_BREAK, err);
    if (status != DLOCK_OK || conn->affected > 0)
        return status;
    status = my_row_reader_break(conn, &count, err);
    if (status == DLOCK_OK && count == 0 && conn->row.number[MY_GUARD_HAS_PERMITS] != 0)
        status = my_row_permit_break(conn, &count, err);
    if (status == DLOCK_OK && count == 0)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_NOT_HELD, 0, "there is no holder");
    return status;
}

/* ---- the slots ---- */

enum dlock_status my_row_trylock(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, req->deadline_ns, err);

    return status == DLOCK_OK ? my_row_lease_try(&session->conn, req, grant, err) : status;
}

enum dlock_status my_row_unlock(void *self, const struct dlock_request *req,
                                struct dlock_error *err)
{
    struct my_session *session = self;

    return my_row_lease_unlock(&session->conn, req, err);
}

enum dlock_status my_row_break(void *self, const unsigned char *name, uint32_t name_len,
                               const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, deadline_ns, err);

    my_statements_input_name(&session->conn, name, name_len);
    return status == DLOCK_OK ? lease_break(&session->conn, owner, err) : status;
}

/*
 * ---- renewals ----
 *
 * Many exclusive leases are extended by one statement: one exchange, and one write of the server's
 * log. The statement waits for no row: if another transaction has locked one, it extends nothing.
 * Then the server tells which rows are free, and these are extended together. The other leases are
 * renewed one by one at the end. Each may wait for its row for a second, so that only leases whose
 * row is locked are late when the deadline comes.
 *
 * It is not one transaction of SELECT ... FOR UPDATE SKIP LOCKED and UPDATE: a client that is
 * stopped between the two would keep all these rows locked (ADR 0015).
 */

#define RENEWALS 64

/* How often the rows that are free are extended, if others lock rows between the two statements. */
#define TRIES 3

struct renewal {
    struct my_connection *conn;
    struct dlock_lease_op *const *ops;
    size_t n;
    bool together[RENEWALS];
};

static size_t together(const struct renewal *renewal)
{
    size_t count = 0;

    for (size_t i = 0; i < renewal->n; i++)
        count += renewal->together[i];
    return count;
}

/* For free(); NULL: no memory. */
static char *leases_make(const struct renewal *renewal)
{
    char name[2 * MY_NAME_MAX + 1], token[2 * DLOCK_TOKEN_SIZE + 1];
    char *text = NULL;
    const char *between = "";
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < renewal->n; i++) {
        const struct dlock_request *req = renewal->ops[i]->req;

        if (!renewal->together[i])
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

static enum dlock_status leases_query(struct renewal *renewal, enum my_statement which,
                                      unsigned columns, MYSQL_RES **result, struct dlock_error *err)
{
    char *leases = leases_make(renewal), *text = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    renewal->conn->input.leases = leases;
    if (leases != NULL)
        text = my_statements_text(renewal->conn, which);
    if (text != NULL)
        status = my_query_select(renewal->conn, text, columns, result, err);
    else
        status = dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    free(leases);
    free(text);
    return status;
}

/* LOST: some leases are lost, and the others are extended. BUSY: a row is locked by another
 * transaction, and none is extended. */
static enum dlock_status extend_all(struct renewal *renewal, struct dlock_error *err)
{
    MYSQL_RES *none = NULL;
    enum dlock_status status = leases_query(renewal, MY_EXTEND_ALL, 0, &none, err);

    if (status == DLOCK_OK && renewal->conn->affected != together(renewal))
        return DLOCK_LOST;
    return my_connection_contended(status, err);
}

/* Leases whose rows are locked by others, or that are lost, do not stay together. */
static enum dlock_status keep_free(struct renewal *renewal, struct dlock_error *err)
{
    bool is_free[RENEWALS] = {false};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = leases_query(renewal, MY_FREE_OF, 1, &result, err);

    while (status == DLOCK_OK && (row = mysql_fetch_row(result)) != NULL) {
        const size_t i = row[0] != NULL ? strtoul(row[0], NULL, 10) : RENEWALS;

        if (i < RENEWALS)
            is_free[i] = true;
    }
    mysql_free_result(result);
    for (size_t i = 0; i < renewal->n && status == DLOCK_OK; i++)
        renewal->together[i] &= is_free[i];
    return status;
}

static void renew_together(struct renewal *renewal, struct dlock_error *err)
{
    enum dlock_status status = extend_all(renewal, err);

    for (int i = 1; i < TRIES && status == DLOCK_BUSY; i++) {
        status = keep_free(renewal, err);
        if (status == DLOCK_OK && together(renewal) > 0)
            status = extend_all(renewal, err);
    }
    if (status == DLOCK_LOST)
        status = keep_free(renewal, err);
    for (size_t i = 0; i < renewal->n; i++) {
        if (renewal->together[i])
            renewal->ops[i]->status = status;
    }
}

static bool is_alone(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && !my_row_permit_is(req);
}

/* Exclusive leases together, readers and permits one by one. BUSY: later. */
static void renew_some(struct renewal *renewal, struct dlock_error *err)
{
    for (size_t i = 0; i < renewal->n; i++)
        renewal->together[i] = is_alone(renewal->ops[i]->req);
    if (together(renewal) > 0)
        renew_together(renewal, err);
    for (size_t i = 0; i < renewal->n && !renewal->conn->dead; i++) {
        struct dlock_lease_op *op = renewal->ops[i];

        if (is_alone(op->req))
            continue;
        my_statements_input(renewal->conn, op->req);
        op->status = my_row_permit_is(op->req) ? my_row_permit_renew(renewal->conn, true, err)
                                               : my_row_reader_renew(renewal->conn, op, true, err);
        op->status = my_connection_contended(op->status, err);
    }
}

enum dlock_status my_row_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                               int64_t deadline_ns, struct dlock_error *err)
{
    struct my_session *session = self;
    struct my_connection *conn = &session->conn;
    const enum dlock_status status = my_connection_enter(conn, deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        ops[i]->grant.lease_ms = ops[i]->req->ttl_ms;
        ops[i]->status = DLOCK_BUSY;
    }
    for (size_t i = 0; i < n && n > 1; i += RENEWALS) {
        struct renewal renewal = {
            .conn = conn, .ops = ops + i, .n = n - i < RENEWALS ? n - i : RENEWALS};

        renew_some(&renewal, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status == DLOCK_BUSY)
            ops[i]->status = conn->dead ? DLOCK_UNAVAILABLE : lease_renew(conn, ops[i], err);
    }
    return DLOCK_OK;
}
