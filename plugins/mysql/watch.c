/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a row. Only the head of the queue polls it, in short intervals, and has the name
 * reserved: a caller that comes when the name is free does not take it before the waiters. The
 * queue entry belongs to the attempt and outlives this call. Without a connection for the queue the
 * waiter polls the row alone: an UNAVAILABLE would end the connections of the client (FAI-1), at a
 * server that has no room for more.
 */
#include "watch.h"

#include "execute.h"
#include "permit.h"
#include "queue.h"

/* The name stays reserved for the head for so long after its last reservation. */
#define RESERVE_NS (250 * DL_NS_PER_MS)

#define POLL_LEAST_NS (1 * DL_NS_PER_MS)
#define POLL_MOST_NS  (25 * DL_NS_PER_MS)
#define POLL_SHARE    8 /* of the time that it has waited */

#define ALONE_LEAST_NS (10 * DL_NS_PER_MS)
#define ALONE_MOST_NS  (250 * DL_NS_PER_MS)
#define LOGIN_NS       (100 * DL_NS_PER_MS)

/* One statement of the head, whose deadline may be later than that of the wait. */
static enum dlock_status step(struct my_connection *conn, const struct dlock_request *req,
                              enum my_statement which, struct dlock_error *err)
{
    const atomic_int *stop = conn->stop;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = my_connection_exchange_until(conn, req->deadline_ns, INT64_MAX / 2);
    conn->stop = NULL;
    conn->input.number = RESERVE_NS / 1000;
    status = my_execute(conn, which, err);
    conn->stop = stop;
    conn->deadline_ns = req->deadline_ns;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status; /* it takes nothing */
}

/* What was polled says that the name is free for this request. */
static bool is_free(const struct my_row *row, const struct dlock_request *req)
{
    if (my_permit_is(req))
        return row->number[0] < (long long)dlock_request_limit(req);
    return row->number[1] <= 0 && (row->number[2] <= 0 || req->mode == DLOCK_SHARED);
}

/* OK: held still. BUSY: worth a trylock. */
static enum dlock_status poll_once(struct my_connection *conn, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    const enum my_statement which = my_permit_is(req) ? MY_PERMIT_POLL : MY_POLL;
    enum dlock_status status = step(conn, req, which, err);
    bool try = false;

    if (status != DLOCK_OK)
        return status;
    try = !my_execute_fetch(conn, which) || is_free(&conn->row, req);
    my_execute_done(conn, which);
    return try ? DLOCK_BUSY : DLOCK_OK;
}

/* The longer a waiter has waited, the longer it may pause. */
static int64_t pause_of(const struct my_connection *conn, const struct my_queue *queue)
{
    int64_t ns = (my_connection_now(conn) - queue->head_ns) / POLL_SHARE;

    if (ns < POLL_LEAST_NS)
        return POLL_LEAST_NS;
    return ns < POLL_MOST_NS ? ns : POLL_MOST_NS;
}

static enum dlock_status head_poll(struct my_session *session, const struct dlock_request *req,
                                   struct my_queue *queue, struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    int64_t reserved_ns = 0;
    enum dlock_status status = DLOCK_OK;

    while (status == DLOCK_OK) {
        if (my_connection_now(conn) - reserved_ns > RESERVE_NS / 3) {
            reserved_ns = my_connection_now(conn);
            status = step(conn, req, MY_RESERVE, err); /* first, or newcomers get the name */
        }
        if (status == DLOCK_OK)
            status = poll_once(conn, req, err);
        if (status == DLOCK_OK)
            status = my_async_sleep(conn, pause_of(conn, queue));
        if (status == DLOCK_OK)
            status = my_queue_ping(queue, req->deadline_ns, err);
    }
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        (void)step(conn, req, MY_UNRESERVE, err);
    return status;
}

/* A waiter without a queue entry. The first poll is not at once: the name may be free, and reserved
 * for another waiter. */
static enum dlock_status poll_alone(struct my_session *session, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    int64_t pause_ns = ALONE_LEAST_NS;
    enum dlock_status status = DLOCK_OK;

    while (status == DLOCK_OK) {
        status = my_async_sleep(conn, pause_ns);
        if (status == DLOCK_OK)
            status = poll_once(conn, req, err);
        pause_ns = 2 * pause_ns < ALONE_MOST_NS ? 2 * pause_ns : ALONE_MOST_NS;
    }
    return status;
}

/* BUSY, TIMEOUT, CANCELED, or there is no queue entry any more. */
static enum dlock_status wait_in_queue(struct my_session *session, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    struct my_slot *slot = req->attempt;
    enum dlock_status status = my_queue_await(slot->queue, session, req, err);

    if (status == DLOCK_OK)
        status = head_poll(session, req, slot->queue, err);
    if (slot->queue->conn->dead) {
        my_queue_drop(slot->queue);
        slot->queue = NULL;
    }
    return status;
}

enum dlock_status my_watch(struct my_session *session, const struct dlock_request *req,
                           struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    struct my_slot *slot = req->attempt;
    /* A login that is cut off by the deadline would do harm at the server. */
    const bool in_time = req->deadline_ns - my_connection_now(conn) >= LOGIN_NS;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (slot->queue == NULL)
        slot->queue = my_queue_take(session->shared, in_time, req->deadline_ns);
    my_execute_input(conn, req);
    conn->stop = &slot->stop;
    if (slot->queue != NULL)
        status = wait_in_queue(session, req, err);
    if (slot->queue == NULL && status != DLOCK_BUSY && status != DLOCK_CANCELED && !conn->dead)
        status = poll_alone(session, req, err);
    conn->stop = NULL;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
}
