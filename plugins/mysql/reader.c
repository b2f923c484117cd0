/* SPDX-License-Identifier: MIT */
/*
 * Shared mode of the strategies row and insert. The row of the name is locked first, by MY_GUARD,
 * and says last, by MY_SETTLE, until when readers hold the name: an exclusive contender looks at
 * this one row only. Whoever was asking for the row meanwhile waits for it and then sees what we
 * committed.
 */
#include "my.h"

/* OK: inside a transaction, with the row of the name locked and in conn->row. */
static enum dlock_status guard(struct my_conn *conn, enum my_statement which, int *found,
                               struct dlock_error *err)
{
    enum dlock_status status = my_conn_begin(conn, err);

    *found = 0;
    if (status == DLOCK_OK)
        status = my_conn_row(conn, which, found, err);
    if (status != DLOCK_OK)
        my_conn_rollback(conn);
    return status;
}

/* The same for a name that nobody may have asked for yet. */
static enum dlock_status guard_any(struct my_conn *conn, struct dlock_error *err)
{
    int found = 0;
    enum dlock_status status = guard(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK || found)
        return status;
    my_conn_rollback(conn);
    status = my_conn_execute(conn, MY_ENSURE, err);
    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE; /* a free row, or none */
    if (status == DLOCK_OK)
        status = guard(conn, MY_GUARD, &found, err);
    if (status == DLOCK_OK && !found) {
        my_conn_rollback(conn);
        status = DLOCK_BUSY; /* removed already: others are at it */
    }
    return status;
}

/* Ends what guard began: with a commit if the change was made. */
static enum dlock_status settle(struct my_conn *conn, enum dlock_status status,
                                struct dlock_error *err)
{
    if (status == DLOCK_OK)
        status = my_conn_execute(conn, MY_SETTLE, err);
    if (status == DLOCK_OK && conn->place->strategy == MY_INSERT)
        status = my_conn_execute(conn, MY_SWEEP, err);
    if (status == DLOCK_OK)
        return my_conn_commit(conn, err);
    my_conn_rollback(conn);
    return status;
}

enum dlock_status my_reader_try(struct my_session *session, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    const struct my_slot *slot = req->slot;
    enum dlock_status status = guard_any(conn, err);

    if (status != DLOCK_OK)
        return my_lease_contended(status, err);
    if (conn->row.number[2] > 0) {
        grant->holder_ms = conn->row.number[2] / MY_US_PER_MS + 1;
        my_conn_rollback(conn);
        return DLOCK_BUSY;
    }
    if (conn->row.number[4] == 0) { /* somebody waits, and is next */
        my_conn_rollback(conn);
        return DLOCK_BUSY;
    }
    grant->fence = (uint64_t)conn->row.number[0];
    grant->lease_ms = req->ttl_ms;
    status = my_conn_execute(conn, MY_READER_REAP, err); /* of the dead */
    if (status == DLOCK_OK)
        status = my_conn_execute(conn, MY_READER_ADD, err);
    if (status == DLOCK_OK && slot->queue != NULL)
        status = my_conn_execute(conn, MY_UNRESERVE, err);
    return my_lease_contended(settle(conn, status, err), err);
}

/* By what guard saw: exclusively, and it has not run out. */
static int ours(const struct my_conn *conn)
{
    return conn->row.number[1] != 0 && conn->row.number[2] > 0;
}

/* What was exclusive becomes shared. */
static enum dlock_status step_down(struct my_conn *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!ours(conn))
        return DLOCK_LOST;
    status = my_conn_execute(conn, MY_READER_REAP, err);
    if (status == DLOCK_OK)
        status = my_conn_execute(conn, MY_STEP_DOWN, err);
    return status == DLOCK_OK ? my_conn_execute(conn, MY_READER_ADD, err) : status;
}

static enum dlock_status extend(struct my_conn *conn, struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, MY_READER_EXTEND, err);

    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

enum dlock_status my_reader_renew(struct my_session *session, struct dlock_lease_op *op,
                                  int at_once, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    int found = 0;
    enum dlock_status status = guard(conn, at_once ? MY_GUARD_NOW : MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    status = found ? extend(conn, err) : DLOCK_LOST;
    if (status == DLOCK_LOST && found && (op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        status = step_down(conn, err);
    status = settle(conn, status, err);
    if (status == DLOCK_OK)
        my_lease_pass(op->req);
    return status;
}

enum dlock_status my_reader_unlock(struct my_session *session, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    int found = 0;
    enum dlock_status status = guard(conn, MY_GUARD, &found, err);

    (void)req;
    if (status != DLOCK_OK)
        return status;
    status = found ? my_conn_execute(conn, MY_READER_REMOVE, err) : DLOCK_LOST;
    if (status == DLOCK_OK && conn->affected == 0) /* a downgrade that never arrived */
        status = ours(conn) ? my_conn_execute(conn, MY_STEP_DOWN, err) : DLOCK_LOST;
    return settle(conn, status, err);
}

enum dlock_status my_reader_break(struct my_session *session, int *gone, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    int found = 0, one = conn->input.number == 0;
    enum dlock_status status = guard(conn, MY_GUARD, &found, err);

    *gone = 0;
    if (status != DLOCK_OK)
        return status;
    if (found)
        status = my_conn_execute(conn, one ? MY_READER_REMOVE : MY_READER_BREAK, err);
    if (found && status == DLOCK_OK)
        *gone = (int)conn->affected;
    return settle(conn, status, err);
}
