/* SPDX-License-Identifier: MIT */
/*
 * Shared mode of the strategies row and insert. Each change locks the row of the name first, by
 * MY_GUARD. MY_READERS_UPDATE stores last until when readers hold the name, so that an exclusive
 * contender reads this one row only. A contender that comes during the change waits for the row and
 * then sees what was committed.
 */
#include "reader.h"

#include "execute.h"
#include "queue.h"
#include "transaction.h"

/* OK: inside a transaction, with the row of the name locked and in conn->row. */
static enum dlock_status guard(struct my_connection *conn, enum my_statement which, bool *found,
                               struct dlock_error *err)
{
    enum dlock_status status = my_transaction_begin(conn, err);

    *found = false;
    if (status == DLOCK_OK)
        status = my_execute_row(conn, which, found, err);
    if (status != DLOCK_OK)
        my_transaction_rollback(conn);
    return status;
}

/* The same for a name that may be new. */
static enum dlock_status guard_any(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK || found)
        return status;
    my_transaction_rollback(conn);
    status = my_execute(conn, MY_ENSURE, err);
    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE; /* a free row, or none */
    if (status == DLOCK_OK)
        status = guard(conn, MY_GUARD, &found, err);
    if (status == DLOCK_OK && !found) {
        my_transaction_rollback(conn);
        status = DLOCK_BUSY; /* removed already by another client */
    }
    return status;
}

/* Ends what guard began: with a commit if the change was made. */
static enum dlock_status finish(struct my_connection *conn, enum dlock_status status,
                                struct dlock_error *err)
{
    if (status == DLOCK_OK)
        status = my_execute(conn, MY_READERS_UPDATE, err);
    if (status == DLOCK_OK && conn->config->strategy == MY_INSERT)
        status = my_execute(conn, MY_SWEEP, err);
    if (status == DLOCK_OK)
        return my_transaction_commit(conn, err);
    my_transaction_rollback(conn);
    return status;
}

enum dlock_status my_reader_try(struct my_connection *conn, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    enum dlock_status status = guard_any(conn, err);

    if (status != DLOCK_OK)
        return my_errmap_contended(status, err);
    if (conn->row.number[2] > 0)
        grant->holder_ms = conn->row.number[2] / MY_US_PER_MS + 1;
    if (conn->row.number[2] > 0 || conn->row.number[4] == 0) { /* 0: reserved for a waiter */
        my_transaction_rollback(conn);
        return DLOCK_BUSY;
    }
    grant->fence = (uint64_t)conn->row.number[0];
    grant->lease_ms = req->ttl_ms;
    status = my_execute(conn, MY_READER_REAP, err); /* of the dead */
    if (status == DLOCK_OK)
        status = my_execute(conn, MY_READER_ADD, err);
    if (status == DLOCK_OK && slot->queue != NULL)
        status = my_execute(conn, MY_UNRESERVE, err);
    return my_errmap_contended(finish(conn, status, err), err);
}

/* By the row of guard: it is held exclusively by us, and the lease has not ended. */
static bool ours(const struct my_connection *conn)
{
    return conn->row.number[1] != 0 && conn->row.number[2] > 0;
}

/* What was exclusive becomes shared. */
static enum dlock_status step_down(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!ours(conn))
        return DLOCK_LOST;
    status = my_execute(conn, MY_READER_REAP, err);
    if (status == DLOCK_OK)
        status = my_execute(conn, MY_STEP_DOWN, err);
    return status == DLOCK_OK ? my_execute(conn, MY_READER_ADD, err) : status;
}

static enum dlock_status extend(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = my_execute(conn, MY_READER_EXTEND, err);

    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

enum dlock_status my_reader_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                  bool at_once, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard(conn, at_once ? MY_GUARD_NOW : MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    status = found ? extend(conn, err) : DLOCK_LOST;
    if (status == DLOCK_LOST && found && (op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        status = step_down(conn, err);
    status = finish(conn, status, err);
    if (status == DLOCK_OK)
        my_queue_dequeue(op->req);
    return status;
}

enum dlock_status my_reader_unlock(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    status = found ? my_execute(conn, MY_READER_REMOVE, err) : DLOCK_LOST;
    if (status == DLOCK_OK && conn->affected == 0) /* a downgrade that never arrived */
        status = ours(conn) ? my_execute(conn, MY_STEP_DOWN, err) : DLOCK_LOST;
    return finish(conn, status, err);
}

enum dlock_status my_reader_break(struct my_connection *conn, uint64_t *count,
                                  struct dlock_error *err)
{
    const enum my_statement which = conn->input.number == 0 ? MY_READER_REMOVE : MY_READER_BREAK;
    bool found = false;
    enum dlock_status status = guard(conn, MY_GUARD, &found, err);

    *count = 0;
    if (status != DLOCK_OK)
        return status;
    if (found)
        status = my_execute(conn, which, err);
    if (found && status == DLOCK_OK)
        *count = conn->affected;
    return finish(conn, status, err);
}
