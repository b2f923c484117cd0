/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include <string.h>

enum dlock_status my_lease_contended(enum dlock_status status, const struct dlock_error *err)
{
    if ((status == DLOCK_UNAVAILABLE || status == DLOCK_BUSY) &&
        my_contention((unsigned)err->backend_code))
        return DLOCK_BUSY;
    return status;
}

static int64_t longer_ms(int64_t a_us, int64_t b_us)
{
    int64_t us = a_us > b_us ? a_us : b_us;

    return us > 0 ? (us + MY_US_PER_MS - 1) / MY_US_PER_MS : 0;
}

static enum dlock_status granted(const struct my_conn *conn, const struct dlock_request *req,
                                 struct dlock_grant *grant)
{
    grant->lease_ms = req->ttl_ms;
    grant->fence = conn->insert_id;
    grant->fence_room = MY_FENCE_STEP - 1;
    return DLOCK_OK;
}

/* Whether others hold it, without touching it: a row that many ask for is not to be locked by each
 * of them each time. */
static enum dlock_status look(struct my_conn *conn, struct dlock_grant *grant, int *there,
                              struct dlock_error *err)
{
    enum dlock_status status = my_conn_row(conn, MY_LOOK, there, err);
    int64_t left_ms = 0;

    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE; /* it was a question only */
    if (status != DLOCK_OK || !*there)
        return status;
    left_ms = longer_ms(conn->row.number[1], conn->row.number[2]);
    if (left_ms > 0) /* 0: it is free, and may be reserved for a waiter */
        grant->holder_ms = left_ms;
    return left_ms > 0 && conn->row.number[0] == 0 ? DLOCK_BUSY : DLOCK_OK;
}

/* BUSY, with what the holder has left. */
static enum dlock_status held(struct my_conn *conn, struct dlock_grant *grant,
                              struct dlock_error *err)
{
    int there = 0;
    enum dlock_status status = look(conn, grant, &there, err);

    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* The first time that anybody asks for this name. */
static enum dlock_status row_first(struct my_conn *conn, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, MY_CREATE, err);

    if (status == DLOCK_OK)
        return granted(conn, req, grant);
    return my_lease_contended(status, err);
}

/* OK and *taken, or it is held. */
static enum dlock_status row_take(struct my_conn *conn, enum my_statement which, int *taken,
                                  struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, which, err);

    *taken = status == DLOCK_OK && conn->affected > 0;
    return my_lease_contended(status, err);
}

static enum dlock_status row_try(struct my_conn *conn, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->slot;
    int there = 0, taken = 0;
    enum dlock_status status =
        row_take(conn, slot->queue != NULL ? MY_TAKE_AGAIN : MY_TAKE, &taken, err);

    if (status != DLOCK_OK || taken)
        return status == DLOCK_OK ? granted(conn, req, grant) : status;
    status = look(conn, grant, &there, err);
    if (status != DLOCK_OK)
        return status;
    if (!there)
        return row_first(conn, req, grant, err);
    if (conn->row.number[0] != 0 && conn->row.number[1] > 0) /* an answer was lost */
        status = row_take(conn, MY_TAKE_AGAIN, &taken, err);
    if (status != DLOCK_OK)
        return status;
    return taken ? granted(conn, req, grant) : DLOCK_BUSY;
}

/* The row is ours; the number follows, and without it the row is given back. The numbers of one
 * name rise all the same: whoever took the row over did so after our lease had run out. */
static enum dlock_status insert_granted(struct my_conn *conn, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = my_conn_execute(conn, MY_FENCE, err);

    if (status == DLOCK_OK && conn->affected == 0)
        status = my_conn_execute(conn, MY_FENCE_FIRST, err);
    if (status == DLOCK_OK && conn->affected > 0)
        return granted(conn, req, grant);
    if (status == DLOCK_OK)
        return DLOCK_BUSY; /* broken, or too late: not ours any more */
    if (conn->dead || my_conn_execute(conn, MY_RELEASE, &ignored) != DLOCK_OK)
        return DLOCK_UNKNOWN;
    return my_lease_contended(status, err);
}

/* Somebody has it, or did until now, or it is ours already. */
static enum dlock_status insert_again(struct my_conn *conn, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, MY_EXTEND, err);

    if (status == DLOCK_OK && conn->affected == 0) {
        status = my_conn_execute(conn, MY_SWEEP, err);
        if (status == DLOCK_OK && conn->affected > 0)
            status = my_conn_execute(conn, MY_TAKE, err);
        if (status == DLOCK_OK && conn->affected == 0)
            status = held(conn, grant, err);
    }
    return status == DLOCK_OK ? insert_granted(conn, req, grant, err)
                              : my_lease_contended(status, err);
}

static enum dlock_status insert_try(struct my_conn *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, MY_TAKE, err);

    if (status == DLOCK_OK && conn->affected == 0)
        return held(conn, grant, err);
    if (status == DLOCK_OK)
        return insert_granted(conn, req, grant, err);
    if (err->backend_code == 1062)
        return insert_again(conn, req, grant, err);
    return my_lease_contended(status, err);
}

void my_lease_pass(const struct dlock_request *req)
{
    struct my_slot *slot = req->slot;

    if (slot->queue == NULL)
        return;
    my_queue_pass(slot->queue);
    my_queue_rest(slot->queue, req->deadline_ns);
    slot->queue = NULL;
}

enum dlock_status my_lease_try(struct my_session *session, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    struct my_slot *slot = req->slot;
    enum dlock_status status = DLOCK_OK;
    int there = 0;

    my_conn_input(conn, req);
    if (req->mode == DLOCK_SHARED)
        status = my_reader_try(session, req, grant, err);
    else if (slot->tried && slot->queue == NULL)
        status = look(conn, grant, &there, err);
    if (status == DLOCK_OK && req->mode != DLOCK_SHARED)
        status = session->place.strategy == MY_ROW ? row_try(conn, req, grant, err)
                                                   : insert_try(conn, req, grant, err);
    slot->tried = status == DLOCK_BUSY;
    if (status == DLOCK_OK && slot->queue != NULL &&
        (req->mode == DLOCK_SHARED || !my_queue_keep(slot->queue)))
        my_lease_pass(req);
    return status;
}

enum dlock_status my_lease_renew_one(struct my_session *session, struct dlock_lease_op *op,
                                     int at_once, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum dlock_status status = DLOCK_INTERNAL;

    my_conn_input(conn, op->req);
    if (op->req->mode == DLOCK_SHARED)
        return my_reader_renew(session, op, at_once, err);
    status = my_conn_execute(conn, at_once ? MY_EXTEND_NOW : MY_EXTEND, err);
    if (status != DLOCK_OK)
        return status;
    return conn->affected > 0 ? DLOCK_OK : DLOCK_LOST;
}

static enum dlock_status release(struct my_conn *conn, struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(conn, MY_RELEASE, err);

    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

static void pass(void *queue)
{
    my_queue_pass(queue);
}

/* The next one is let through while the server executes this, and waits for the row of the name
 * until it has: the way from one to the other and the commit take place at the same time. */
enum dlock_status my_lease_unlock(struct my_session *session, const struct dlock_request *req,
                                  struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    struct my_slot *slot = req->slot;
    struct my_queue *queue = slot->queue;
    enum dlock_status status = my_conn_enter(conn, req->deadline_ns, err);

    slot->queue = NULL;
    conn->meanwhile = queue != NULL ? pass : NULL;
    conn->meanwhile_arg = queue;
    my_conn_input(conn, req);
    if (status == DLOCK_OK && req->mode == DLOCK_SHARED)
        status = my_reader_unlock(session, req, err);
    else if (status == DLOCK_OK)
        status = release(conn, err);
    conn->meanwhile = NULL;
    if (queue != NULL)
        my_queue_rest(queue, req->deadline_ns); /* drops one that was not passed */
    return status;
}
