/* SPDX-License-Identifier: MIT */
/*
 * Shared mode of the strategies row and insert, each change of it between my_guard_begin and
 * my_guard_end. MY_READERS_UPDATE stores last until when readers hold the name, so that an
 * exclusive contender reads this one row only.
 */
#include "reader.h"

#include "data.h"
#include "execute.h"
#include "guard.h"
#include "queue.h"
#include "row_shared.h"
#include "transaction.h"

static enum dlock_status finish(struct my_connection *conn, enum dlock_status status,
                                struct dlock_error *err)
{
    return my_guard_end(conn, status, MY_READERS_UPDATE, err);
}

/* The row of the guard: an exclusive holder, permits, or a waiter for whom it is reserved. */
static enum dlock_status name_check(struct my_connection *conn, struct dlock_grant *grant,
                                    struct dlock_error *err)
{
    const long long *number = conn->row.number;

    if (number[MY_GUARD_LEFT_US] > 0)
        grant->holder_ms = number[MY_GUARD_LEFT_US] / MY_US_PER_MS + 1;
    if (number[MY_GUARD_HAS_PERMITS] != 0)
        return my_permit_refuse(conn, err);
    return number[MY_GUARD_LEFT_US] > 0 || number[MY_GUARD_MAY_TAKE] == 0 ? DLOCK_BUSY : DLOCK_OK;
}

enum dlock_status my_reader_try(struct my_connection *conn, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    enum dlock_status status = my_guard_begin_any(conn, err);
    uint64_t fence = 0;

    if (status != DLOCK_OK)
        return my_errmap_contended(status, err);
    fence = (uint64_t)conn->row.number[MY_GUARD_FENCE];
    status = name_check(conn, grant, err);
    if (status != DLOCK_OK) {
        my_transaction_rollback(conn);
        return my_errmap_contended(status, err);
    }
    grant->fence = fence;
    grant->lease_ms = req->ttl_ms;
    status = my_execute(conn, MY_READER_REAP, err); /* of the dead */
    if (status == DLOCK_OK)
        status = my_execute(conn, MY_READER_ADD, err);
    if (status == DLOCK_OK)
        status = my_data_put(conn, err);
    if (status == DLOCK_OK && my_queue_is_head(slot->queue))
        status = my_execute(conn, MY_UNRESERVE, err);
    return my_errmap_contended(finish(conn, status, err), err);
}

/* By the row of guard: it is held exclusively by us, and the lease has not ended. */
static bool ours(const struct my_connection *conn)
{
    return conn->row.number[MY_GUARD_IS_OURS] != 0 && conn->row.number[MY_GUARD_LEFT_US] > 0;
}

/* What was exclusive becomes shared. */
static enum dlock_status step_down(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!ours(conn))
        return DLOCK_LOST;
    status = my_execute(conn, MY_READER_REAP, err);
    if (status == DLOCK_OK)
        status = my_execute(conn, MY_READER_STEP_DOWN, err);
    return status == DLOCK_OK ? my_execute(conn, MY_STEP_DOWN, err) : status;
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
    enum dlock_status status = my_guard_begin(conn, at_once ? MY_GUARD_NOW : MY_GUARD, &found, err);

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
    enum dlock_status status = my_guard_begin(conn, MY_GUARD, &found, err);

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
    enum dlock_status status = my_guard_begin(conn, MY_GUARD, &found, err);

    *count = 0;
    if (status != DLOCK_OK)
        return status;
    if (found)
        status = my_execute(conn, which, err);
    if (found && status == DLOCK_OK)
        *count = conn->affected;
    return finish(conn, status, err);
}
