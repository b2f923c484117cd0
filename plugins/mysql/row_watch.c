/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a row. Only the head of the queue polls it, in short intervals, and has the name
 * reserved: a caller that comes when the name is free does not take it before the waiters. The
 * waiters behind it take nothing, reserved or not (lease.c). The queue entry belongs to the attempt
 * and outlives this call. Without a connection for the queue the waiter polls the row alone: an
 * UNAVAILABLE would end the connections of the client (FAI-1), at a server that has no room for
 * more.
 */
#include "row_watch.h"

#include "execute.h"
#include "query.h"
#include "queue.h"
#include "row_shared.h"
#include "setup.h"

#include <stdlib.h>

/* The name stays reserved for the head for so long after its last reservation; */
#define RESERVE_NS (250 * DL_NS_PER_MS)
/* and for so long after the begin of one that may have waited most of this for the row. */
#define RESERVE_IN_LINE_NS (5 * RESERVE_NS)
#define IN_LINE_LEAST_NS   (40 * DL_NS_PER_MS)
/* The server waits for three quarters of it (setup.c), and its answer has this time at least: both
 * end within 100 ms after the deadline [C8]. */
#define IN_LINE_ANSWER_NS (40 * DL_NS_PER_MS)

#define POLL_LEAST_NS (1 * DL_NS_PER_MS)
#define POLL_MOST_NS  (25 * DL_NS_PER_MS)
#define POLL_SHARE    8 /* of the time that it has waited */

#define ALONE_LEAST_NS (10 * DL_NS_PER_MS)
#define ALONE_MOST_NS  (250 * DL_NS_PER_MS)
#define LOGIN_NS       (100 * DL_NS_PER_MS)

/* Nobody has to take back a reservation that ends with the wait. */
static int64_t reserve_ns(const struct my_connection *conn, const struct dlock_request *req,
                          int64_t most_ns)
{
    const int64_t left_ns = req->deadline_ns - my_connection_now(conn);

    return left_ns < most_ns ? left_ns : most_ns;
}

/* One statement of the head, whose deadline may be later than that of the wait. */
static enum dlock_status step(struct my_connection *conn, const struct dlock_request *req,
                              enum my_statement which, struct dlock_error *err)
{
    const atomic_int *stop = conn->stop;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = my_connection_exchange_until(conn, req->deadline_ns, INT64_MAX / 2);
    conn->stop = NULL;
    conn->input.number = reserve_ns(conn, req, RESERVE_NS) / DL_NS_PER_US;
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

/* Waits in the server's line for the row. Where transactions of readers and permits follow one
 * another, the row is never free for a statement that does not wait. */
static enum dlock_status reserve_in_line(struct my_connection *conn,
                                         const struct dlock_request *req, int64_t ns,
                                         struct dlock_error *err)
{
    const atomic_int *stop = conn->stop;
    const int64_t end_ns = my_connection_now(conn) + ns / 4 * 3 + IN_LINE_ANSWER_NS;
    enum dlock_status status = DLOCK_NOMEM;
    char *text = NULL;

    if (ns < IN_LINE_LEAST_NS || conn->dialect->in_line == NULL)
        return DLOCK_BUSY;
    conn->input.number = ns / DL_NS_PER_US;
    text = my_execute_text(conn, MY_RESERVE_IN_LINE);
    if (text == NULL)
        return dlock_fail(err, MY_ORIGIN, status, 0, "no memory for a statement");
    conn->deadline_ns = end_ns > req->deadline_ns ? end_ns : req->deadline_ns;
    conn->stop = NULL;
    status = my_query(conn, text, err);
    conn->stop = stop;
    conn->deadline_ns = req->deadline_ns;
    free(text);
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
}

static bool is_contended(enum dlock_status status, const struct dlock_error *err)
{
    return my_errmap_contended(status, err) == DLOCK_BUSY ||
           (status == DLOCK_UNAVAILABLE && my_errmap_out_of_time((unsigned)err->code));
}

/* A name that nobody has had but readers has no fence, and no row for a reservation, in strategy
 * insert. BUSY: it has one since just now. */
static enum dlock_status reserve_first(struct my_connection *conn, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    const enum dlock_status status = step(conn, req, MY_RESERVE_FIRST, err);

    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_BUSY : status;
}

/* When it is due. Where another transaction keeps the row, it is due again with the next poll. */
static enum dlock_status reserve(struct my_connection *conn, const struct dlock_request *req,
                                 int64_t *until_ns, struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    int64_t now_ns = my_connection_now(conn), ns = reserve_ns(conn, req, RESERVE_NS);
    enum dlock_status status = DLOCK_OK;

    if (*until_ns >= req->deadline_ns || *until_ns - now_ns > RESERVE_NS / 3 * 2)
        return DLOCK_OK;
    status = step(conn, req, MY_RESERVE, &why);
    if (is_contended(status, &why)) {
        now_ns = my_connection_now(conn);
        ns = reserve_ns(conn, req, RESERVE_IN_LINE_NS);
        status = reserve_in_line(conn, req, ns, &why);
    }
    if (status == DLOCK_OK && conn->affected == 0 && conn->config->strategy == MY_INSERT) {
        now_ns = my_connection_now(conn);
        ns = reserve_ns(conn, req, RESERVE_NS);
        status = reserve_first(conn, req, &why);
    }
    if (status == DLOCK_OK)
        *until_ns = now_ns + ns;
    if (status == DLOCK_OK || is_contended(status, &why))
        return DLOCK_OK;
    return dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
}

static enum dlock_status head_poll(struct my_session *session, const struct dlock_request *req,
                                   struct my_queue *queue, struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    int64_t reserved_until_ns = 0;
    enum dlock_status status = DLOCK_OK;

    while (status == DLOCK_OK) {
        status = my_queue_ping(queue, err);
        if (status == DLOCK_OK) /* before the poll, or newcomers get the name */
            status = reserve(conn, req, &reserved_until_ns, err);
        if (status == DLOCK_OK)
            status = poll_once(conn, req, err);
        if (status == DLOCK_OK)
            status = my_async_sleep(conn, pause_of(conn, queue));
    }
    if (status == DLOCK_CANCELED)
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

    if (atomic_load(&slot->stop)) /* or the first place in the queue would be news [INT-2] */
        return dlock_fail(err, MY_ORIGIN, DLOCK_CANCELED, 0, "the wait was interrupted");
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
