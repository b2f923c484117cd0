/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a row. Only the head of those who wait looks at it, in short intervals, and has it
 * reserved meanwhile: whoever comes by when it is free does not take it from under the nose of
 * those who wait. The place among them belongs to the attempt and outlives this call. Without a
 * connection for a place the waiter polls the row on its own: to say UNAVAILABLE would end the
 * connections that the client has (FAI-1), at a server that has no room for more.
 */
#include "queue.h"

#include <string.h>

#define POLL_LEAST_NS (1 * DL_NS_PER_MS)
#define POLL_MOST_NS  (25 * DL_NS_PER_MS)
#define POLL_SHARE    8 /* of the time that it has waited */

#define ALONE_LEAST_NS (10 * DL_NS_PER_MS)
#define ALONE_MOST_NS  (250 * DL_NS_PER_MS)
#define LOGIN_NS       (100 * DL_NS_PER_MS)

/* A look near the deadline gets this much time, so that it ends; within the 100 ms of C8. */
#define GRACE_NS (40 * DL_NS_PER_MS)

static int64_t now_ns(const struct my_conn *conn)
{
    return conn->host->now_ns(conn->host->ctx);
}

/* One statement of the head, whatever the deadline of the wait. */
static enum dlock_status step(struct my_conn *conn, const struct dlock_request *req,
                              enum my_statement which, struct dlock_error *err)
{
    int64_t least_ns = now_ns(conn) + GRACE_NS;
    const atomic_int *stop = conn->stop;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = req->deadline_ns > least_ns ? req->deadline_ns : least_ns;
    conn->stop = NULL;
    conn->input.number = MY_RESERVE_US;
    status = my_conn_execute(conn, which, err);
    conn->stop = stop;
    conn->deadline_ns = req->deadline_ns;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status; /* it binds nobody */
}

/* OK: held still. BUSY: worth a trylock. */
static enum dlock_status look(struct my_conn *conn, const struct dlock_request *req,
                              struct dlock_error *err)
{
    enum dlock_status status = step(conn, req, MY_LOOK, err);
    int is_free = 0;

    if (status != DLOCK_OK)
        return status;
    is_free = !my_conn_fetch(conn, MY_LOOK) ||
              (conn->row.number[1] <= 0 && (conn->row.number[2] <= 0 || req->mode == DLOCK_SHARED));
    my_conn_done(conn, MY_LOOK);
    return is_free ? DLOCK_BUSY : DLOCK_OK;
}

/* Who has waited for long may as well wait a little longer. */
static int64_t pause_of(const struct my_conn *conn, const struct my_queue *queue)
{
    int64_t ns = (now_ns(conn) - queue->head_ns) / POLL_SHARE;

    if (ns < POLL_LEAST_NS)
        return POLL_LEAST_NS;
    return ns < POLL_MOST_NS ? ns : POLL_MOST_NS;
}

static enum dlock_status head_poll(struct my_session *session, const struct dlock_request *req,
                                   struct my_queue *queue, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    int64_t reserved_ns = 0;
    enum dlock_status status = DLOCK_OK;

    while (status == DLOCK_OK) {
        if (now_ns(conn) - reserved_ns > MY_RESERVE_US * 1000 / 3) {
            reserved_ns = now_ns(conn);
            status = step(conn, req, MY_RESERVE, err); /* first, or newcomers get it each time */
        }
        if (status == DLOCK_OK)
            status = look(conn, req, err);
        if (status == DLOCK_OK)
            status = my_pause(conn, pause_of(conn, queue));
        if (status == DLOCK_OK)
            status = my_queue_ping(queue, req->deadline_ns, err);
    }
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        (void)step(conn, req, MY_UNRESERVE, err);
    return status;
}

/* A waiter that has no place, because there is no connection for it, looks now and then. The first
 * look is not at once: the name may be free, and reserved for another. */
static enum dlock_status poll_alone(struct my_session *session, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    int64_t pause_ns = ALONE_LEAST_NS;
    enum dlock_status status = DLOCK_OK;

    while (status == DLOCK_OK) {
        status = my_pause(conn, pause_ns);
        if (status == DLOCK_OK)
            status = look(conn, req, err);
        pause_ns = 2 * pause_ns < ALONE_MOST_NS ? 2 * pause_ns : ALONE_MOST_NS;
    }
    return status;
}

/* A login that is cut off by the end of a short wait would do harm at the server. */
static struct my_queue *queue_find(struct my_session *session, const struct dlock_request *req)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    const int in_time = req->deadline_ns - now_ns(&session->conn) >= LOGIN_NS;

    return my_queue_take(session->side, in_time, req->deadline_ns, &ignored);
}

/* BUSY, TIMEOUT, CANCELED, or there is no place any more. */
static enum dlock_status wait_in_place(struct my_session *session, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    struct my_slot *slot = req->slot;
    enum dlock_status status = my_queue_await(slot->queue, session, req, err);

    if (status == DLOCK_OK)
        status = head_poll(session, req, slot->queue, err);
    if (slot->queue->conn.dead) {
        my_queue_drop(slot->queue);
        slot->queue = NULL;
    }
    return status;
}

enum dlock_status my_watch(struct my_session *session, const struct dlock_request *req,
                           struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    struct my_slot *slot = req->slot;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (slot->queue == NULL)
        slot->queue = queue_find(session, req);
    my_conn_input(conn, req);
    conn->stop = &slot->stop;
    if (slot->queue != NULL)
        status = wait_in_place(session, req, err);
    if (slot->queue == NULL && status != DLOCK_BUSY && status != DLOCK_CANCELED && !conn->dead)
        status = poll_alone(session, req, err);
    conn->stop = NULL;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
}
