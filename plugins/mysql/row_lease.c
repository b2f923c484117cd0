/* SPDX-License-Identifier: MIT */
#include "row_lease.h"

#include "data.h"
#include "execute.h"
#include "guard.h"
#include "lib/hex.h"
#include "queue.h"
#include "reader.h"
#include "row_shared.h"
#include "setup.h"

int64_t my_lease_left_ms(int64_t exclusive_us, int64_t readers_us)
{
    int64_t us = exclusive_us > readers_us ? exclusive_us : readers_us;

    return us > 0 ? (us + MY_US_PER_MS - 1) / MY_US_PER_MS : 0;
}

/* Whether another owner holds it. This locks no row: many contenders would lock it in turn. */
static enum dlock_status poll_row(struct my_connection *conn, struct dlock_grant *grant,
                                  bool *there, struct dlock_error *err)
{
    enum dlock_status status = my_execute_row(conn, MY_POLL, there, err);
    int64_t left_ms = 0;

    if (status != DLOCK_OK || !*there)
        return status;
    left_ms = my_lease_left_ms(conn->row.number[1], conn->row.number[2]);
    if (left_ms > 0) /* 0: it is free, and may be reserved for a waiter */
        grant->holder_ms = left_ms;
    if (conn->row.number[3] != 0) /* the name has permits */
        return my_permit_refuse(conn, err);
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
    enum dlock_status status = my_execute(conn, slot->queue != NULL ? MY_TAKE_AGAIN : MY_TAKE, err);

    if (status != DLOCK_OK || conn->affected > 0)
        return status;
    status = poll_row(conn, grant, &there, err);
    if (status != DLOCK_OK)
        return status;
    if (!there)
        return my_execute(conn, MY_CREATE, err);
    if (conn->row.number[0] == 0 || conn->row.number[1] <= 0)
        return DLOCK_BUSY;
    status = my_execute(conn, MY_TAKE_AGAIN, err); /* it is ours: an answer was lost */
    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_BUSY : status;
}

/* The row is ours; the number follows, and without it the row is given back. The numbers of one
 * name rise all the same: another owner can take the row only after our lease has ended. */
static enum dlock_status insert_fence(struct my_connection *conn, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = my_execute(conn, MY_FENCE, err);

    if (status == DLOCK_OK && conn->affected == 0)
        status = my_execute(conn, MY_FENCE_FIRST, err);
    if (status == DLOCK_OK) /* none: broken, or too late, and not ours any more */
        return conn->affected > 0 ? DLOCK_OK : DLOCK_BUSY;
    if (conn->dead || my_execute(conn, MY_UNLOCK, &ignored) != DLOCK_OK)
        return DLOCK_UNKNOWN;
    return status;
}

/* There is a row: another owner's, one that nobody holds any more, or ours. */
static enum dlock_status insert_again(struct my_connection *conn, struct dlock_grant *grant,
                                      struct dlock_error *err)
{
    enum dlock_status status = my_execute(conn, MY_EXTEND, err);

    if (status == DLOCK_OK && conn->affected == 0) {
        status = my_execute(conn, MY_SWEEP, err);
        if (status == DLOCK_OK && conn->affected > 0)
            status = my_execute(conn, MY_TAKE, err);
        if (status == DLOCK_OK && conn->affected == 0)
            status = held(conn, grant, err);
    }
    return status;
}

static enum dlock_status insert_try(struct my_connection *conn, struct dlock_grant *grant,
                                    struct dlock_error *err)
{
    enum dlock_status status = my_execute(conn, MY_TAKE, err);

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
    enum dlock_status status = my_data_put(conn, err);

    if (status != DLOCK_OK)
        return status;
    conn->input.number = my_queue_is_head(slot->queue);
    status = conn->config->strategy == MY_ROW ? row_try(conn, slot, grant, err)
                                              : insert_try(conn, grant, err);
    status = my_errmap_contended(status, err);
    if (status == DLOCK_BUSY && my_data_is(conn))
        my_data_remove(conn);
    return status;
}

static enum dlock_status exclusive_try(struct my_connection *conn, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    bool there = false;
    enum dlock_status status = DLOCK_OK;

    if ((slot->tried && slot->queue == NULL) || my_data_is(conn))
        status = poll_row(conn, grant, &there, err);
    if (status == DLOCK_OK)
        status = exclusive_take(conn, slot, grant, err);
    if (status != DLOCK_OK)
        return my_errmap_contended(status, err);
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
    status = my_execute_row(conn, MY_QUEUE_SILENT, &there, err);
    return status == DLOCK_OK && there && conn->row.number[0] == 0 ? DLOCK_BUSY : status;
}

void my_lease_tried(struct my_slot *slot, enum dlock_status status)
{
    slot->tried = status == DLOCK_BUSY;
    slot->doubtful |= status != DLOCK_OK && status != DLOCK_BUSY && status != DLOCK_UNAVAILABLE;
}

enum dlock_status my_lease_try(struct my_connection *conn, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err)
{
    const bool alone = req->mode == DLOCK_EXCLUSIVE && !my_permit_is(req);
    struct my_slot *slot = req->attempt;
    enum dlock_status status = DLOCK_INTERNAL;

    my_execute_input(conn, req);
    slot->asked = true;
    status = order_check(conn, slot, err);
    if (status != DLOCK_OK) {
        my_lease_tried(slot, status);
        return status;
    }
    if (alone)
        status = exclusive_try(conn, req, grant, err);
    else if (my_permit_is(req))
        status = my_permit_try(conn, req, grant, err);
    else
        status = my_reader_try(conn, req, grant, err);
    my_lease_tried(slot, status);
    if (status == DLOCK_OK && slot->queue != NULL && (!alone || !my_queue_keep(slot->queue)))
        my_queue_dequeue(req);
    if (status == DLOCK_OK)
        my_data_reap(conn);
    return status;
}

enum dlock_status my_lease_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                 struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    my_execute_input(conn, op->req);
    if (op->req->mode == DLOCK_SHARED)
        return my_reader_renew(conn, op, false, err);
    if (my_permit_is(op->req))
        return my_permit_renew(conn, false, err);
    status = my_execute(conn, MY_EXTEND, err);
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

    if (dlock_request_keep_ms(req) > 0)
        return my_permit_keep(conn, req, err);
    if (req->mode == DLOCK_SHARED)
        return my_reader_unlock(conn, err);
    if (my_permit_is(req))
        return my_permit_unlock(conn, err);
    status = my_execute(conn, MY_UNLOCK, err);
    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

/* An adopted lease may have data, and its request has none. */
static bool may_have_data(const struct my_connection *conn, const struct my_slot *slot)
{
    return my_data_is(conn) || (!slot->asked && atomic_load(&conn->tables->has_data));
}

/* The next waiter is let through while the server executes this, and waits for the row of the name:
 * its way to the server and the commit take place at the same time. */
enum dlock_status my_lease_unlock(struct my_connection *conn, const struct dlock_request *req,
                                  struct dlock_error *err)
{
    struct my_slot *slot = req->attempt;
    struct my_queue *queue = slot->queue;
    enum dlock_status status = my_connection_enter(conn, req->deadline_ns, err);

    slot->queue = NULL;
    conn->on_sent = queue != NULL ? pass : NULL;
    conn->on_sent_arg = queue;
    my_execute_input(conn, req);
    if (status == DLOCK_OK)
        status = lease_end(conn, req, err);
    conn->on_sent = NULL;
    if ((status == DLOCK_OK || status == DLOCK_LOST) && may_have_data(conn, slot))
        my_data_remove(conn);
    if (queue != NULL)
        my_queue_end(queue, req->deadline_ns);
    return status;
}

enum dlock_status my_lease_break(struct my_connection *conn, const char *owner,
                                 struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    uint64_t count = 0;

    conn->input.number = owner == NULL;
    conn->input.token_len = owner == NULL ? 0 : DLOCK_TOKEN_SIZE;
    if (owner != NULL && !dl_hex_decode(conn->input.token, DLOCK_TOKEN_SIZE, owner))
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOT_HELD, 0, "no holder has this token");
    status = my_execute(conn, MY_BREAK, err);
    if (status != DLOCK_OK || conn->affected > 0)
        return status;
    status = my_reader_break(conn, &count, err);
    if (status == DLOCK_OK && count == 0 && conn->row.number[MY_GUARD_HAS_PERMITS] != 0)
        status = my_permit_break(conn, &count, err);
    if (status == DLOCK_OK && count == 0)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_NOT_HELD, 0, "there is no holder");
    return status;
}
