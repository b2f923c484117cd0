/* SPDX-License-Identifier: MIT */
/*
 * A waiter sleeps in GET_LOCK, in a connection for that alone. The server lets one waiter through
 * at a time, in the order of arrival: the head. A connection sends nothing while it waits. The head
 * has to send something, or the server ends its connection after MY_HEAD_S and the next waiter is
 * the head. A head that gets the lock of the name keeps GET_LOCK, too, and gives both back
 * together: so the next waiter learns of it from the server, at once, and nobody polls in vain
 * until then. If the holder keeps the name for longer than MY_HEAD_S, the next waiter polls. The
 * name of GET_LOCK's lock is SHA2 of ours, because the server cuts names at NUL and at 64
 * characters.
 */
#include "row_queue.h"

#include "connect.h"
#include "lib/text.h"
#include "open.h"
#include "query.h"
#include "row.h"
#include "row_shared.h"

#include <stdlib.h>

/* ---- the queue ---- */

#define FOREVER_S 86400

/* The most time for one exchange. */
#define EXCHANGE_NS (200 * DL_NS_PER_MS)

void my_queue_drop(struct my_queue *queue)
{
    if (queue->kept)
        my_shared_keep_end(queue->shared);
    if (queue->conn != NULL) {
        queue->conn->dead = true; /* a wait may be under way */
        my_connect_close(queue->conn);
    }
    my_shared_unref(queue->shared);
    free(queue->conn);
    free(queue->text);
    free(queue);
}

/* An idle connection that is in order, or NULL. */
static struct my_connection *idle_take(struct my_shared *shared, int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_connection *conn = NULL;

    while ((conn = my_shared_idle_take(shared)) != NULL) {
        conn->answered_ns = 0;
        if (my_connection_enter(conn, deadline_ns, &ignored) == DLOCK_OK)
            break;
        my_connect_close(conn);
        free(conn);
    }
    return conn;
}

static struct my_connection *connection_new(struct my_shared *shared, int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_connection *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->config = &shared->config;
    conn->host = shared->client.host;
    conn->tables = &shared->tables;
    conn->for_queue = true;
    if (my_open(conn, deadline_ns, &ignored) == DLOCK_OK)
        return conn;
    conn->dead = true;
    my_connect_close(conn);
    free(conn);
    return NULL;
}

/* A queue on an idle connection or, with may_connect, on a new one. NULL: there is no connection.
 */
static struct my_queue *queue_take(struct my_shared *shared, bool may_connect, int64_t deadline_ns)
{
    struct my_queue *queue = calloc(1, sizeof *queue);

    if (queue == NULL)
        return NULL;
    queue->shared = shared;
    my_shared_ref(shared);
    queue->conn = idle_take(shared, deadline_ns);
    if (queue->conn == NULL && may_connect)
        queue->conn = connection_new(shared, deadline_ns);
    if (queue->conn != NULL)
        return queue;
    my_queue_drop(queue);
    return NULL;
}

char *my_queue_text(const struct my_config *config, const void *name, uint32_t name_len)
{
    char hex[2 * MY_NAME_MAX + 1];
    char *text = NULL;

    dl_hex_encode(hex, name, name_len);
    if (asprintf(&text, "SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), '.%s', x'%s'), 256), %d)",
                 config->prefix, hex, FOREVER_S) < 0)
        return NULL;
    return text;
}

static enum dlock_status queue_failed(struct my_queue *queue, struct dlock_error *err)
{
    MYSQL *mysql = queue->conn->mysql;

    queue->conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, (int32_t)mysql_errno(mysql),
                      "%s: GET_LOCK: %.150s", queue->conn->config->endpoint, mysql_error(mysql));
}

/* The answer of GET_LOCK: 1, or the lock cannot be had. */
static enum dlock_status queue_answer(struct my_queue *queue, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    struct my_connection *conn = queue->conn;
    struct my_call store = {.kind = MY_STORE};
    MYSQL_ROW row = NULL;

    conn->deadline_ns = my_connection_exchange_until(conn, deadline_ns, EXCHANGE_NS);
    if (queue->call.failed || my_connection_call(conn, &store) != DLOCK_OK || store.result == NULL)
        return queue_failed(queue, err);
    row = mysql_num_fields(store.result) == 1 ? mysql_fetch_row(store.result) : NULL;
    queue->head = row != NULL && row[0] != NULL && row[0][0] == '1';
    mysql_free_result(store.result);
    conn->answered_ns = queue->head_ns = my_connection_now(conn);
    return queue->head ? DLOCK_OK : queue_failed(queue, err);
}

/* BUSY: this waiter is the head since just now. OK: it is the head. TIMEOUT, CANCELED: it keeps its
 * entry. Others: it has none. */
static enum dlock_status queue_await(struct my_queue *queue, struct my_session *session,
                                     const struct dlock_request *req, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    struct my_connection *conn = queue->conn;
    enum dlock_status status = DLOCK_INTERNAL;

    if (queue->head)
        return DLOCK_OK;
    if (queue->text == NULL) {
        queue->text = my_queue_text(&session->config, req->name, req->name_len);
        if (queue->text == NULL)
            return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
        queue->call = (struct my_call){.kind = MY_QUERY, .text = queue->text};
    }
    conn->deadline_ns = req->deadline_ns;
    conn->stop = &slot->stop;
    conn->wake_fd = session->wake_fd - 1;
    status = my_connection_resume(conn, &queue->call);
    conn->stop = NULL;
    if (status == DLOCK_OK)
        status = queue_answer(queue, req->deadline_ns, err);
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* The head's sign of life, when it is due. OK, or it is not the head any more. Waits for nothing: a
 * later call reads the answer. A busy server or client does not cost the head its entry. An end
 * that the server has given it arrives as an answer; where none can arrive, the head gives
 * up. */
static enum dlock_status queue_ping(struct my_queue *queue, struct dlock_error *err)
{
    struct my_connection *conn = queue->conn;
    const int64_t silent_ns = my_connection_now(conn) - conn->answered_ns;
    enum dlock_status status = DLOCK_OK;

    if (silent_ns < MY_HEAD_S * DL_NS_PER_S / 3)
        return DLOCK_OK;
    conn->deadline_ns = 0;
    status = conn->ping_wait != 0 ? my_query_catch_up(conn, err) : my_query_ping(conn, err);
    if (conn->ping_wait == 0)
        return status;
    conn->dead = silent_ns >= 2 * MY_HEAD_S * DL_NS_PER_S;
    return conn->dead ? status : DLOCK_OK;
}

bool my_queue_keep(struct my_queue *queue)
{
    queue->kept = queue->head && my_shared_keep(queue->shared);
    return queue->kept;
}

void my_queue_pass(struct my_queue *queue)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    queue->conn->answered_ns = 0; /* the server may have ended it */
    if (!queue->head || my_connection_enter(queue->conn, 0, &ignored) != DLOCK_OK ||
        my_query_catch_up(queue->conn, &ignored) != DLOCK_OK)
        return;
    queue->call = (struct my_call){.kind = MY_QUERY, .text = "DO RELEASE_ALL_LOCKS()"};
    queue->passed = true;
    (void)my_connection_resume(queue->conn, &queue->call);
}

void my_queue_end(struct my_queue *queue, int64_t deadline_ns)
{
    struct my_connection *conn = queue->conn;

    conn->deadline_ns = my_connection_exchange_until(conn, deadline_ns, EXCHANGE_NS);
    if (queue->passed &&
        (queue->call.pending == 0 || my_connection_resume(conn, &queue->call) == DLOCK_OK) &&
        !queue->call.failed) {
        my_shared_idle_put(queue->shared, conn);
        queue->conn = NULL;
    }
    my_queue_drop(queue);
}

void my_queue_dequeue(const struct dlock_request *req)
{
    struct my_slot *slot = req->attempt;

    if (slot->queue == NULL)
        return;
    my_queue_pass(slot->queue);
    my_queue_end(slot->queue, req->deadline_ns);
    slot->queue = NULL;
}

/*
 * ---- the wait ----
 *
 * Waiting for a row. Only the head of the queue polls it, in short intervals, and has the name
 * reserved: a caller that comes when the name is free does not take it before the waiters. The
 * waiters behind it take nothing, reserved or not (row_lease.c). The queue entry belongs to the
 * attempt and outlives this call. Without a connection for the queue the waiter polls the row
 * alone: an UNAVAILABLE would end the connections of the client (FAI-1), at a server that has no
 * room for more.
 */

/* The name stays reserved for the head for so long after its last reservation; */
#define RESERVE_NS (250 * DL_NS_PER_MS)
/* and for so long after the begin of one that may have waited most of this for the row. */
#define RESERVE_IN_LINE_NS (5 * RESERVE_NS)
#define IN_LINE_LEAST_NS   (40 * DL_NS_PER_MS)
/* The server waits for three quarters of it (open.c), and its answer has this time at least: both
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
    status = my_statements_run(conn, which, err);
    conn->stop = stop;
    conn->deadline_ns = req->deadline_ns;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status; /* it takes nothing */
}

/* What was polled says that the name is free for this request. */
static bool is_free(const struct my_row *row, const struct dlock_request *req)
{
    if (my_row_permit_is(req))
        return row->number[0] < (long long)req->limit;
    return row->number[1] <= 0 && (row->number[2] <= 0 || req->mode == DLOCK_SHARED);
}

/* OK: held still. BUSY: worth a trylock. */
static enum dlock_status poll_once(struct my_connection *conn, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    const enum my_statement which = my_row_permit_is(req) ? MY_PERMIT_POLL : MY_POLL;
    enum dlock_status status = step(conn, req, which, err);
    bool try = false;

    if (status != DLOCK_OK)
        return status;
    try = !my_statements_fetch(conn, which) || is_free(&conn->row, req);
    my_statements_done(conn, which);
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
    text = my_statements_text(conn, MY_RESERVE_IN_LINE);
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
    return my_connection_contended(status, err) == DLOCK_BUSY ||
           (status == DLOCK_UNAVAILABLE && my_connection_is_out_of_time((unsigned)err->code));
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
        status = queue_ping(queue, err);
        if (status == DLOCK_OK) /* before the poll, or newcomers get the name */
            status = reserve(conn, req, &reserved_until_ns, err);
        if (status == DLOCK_OK)
            status = poll_once(conn, req, err);
        if (status == DLOCK_OK)
            status = my_connection_sleep(conn, pause_of(conn, queue));
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
        status = my_connection_sleep(conn, pause_ns);
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
    enum dlock_status status = queue_await(slot->queue, session, req, err);

    if (status == DLOCK_OK)
        status = head_poll(session, req, slot->queue, err);
    if (slot->queue->conn->dead) {
        my_queue_drop(slot->queue);
        slot->queue = NULL;
    }
    return status;
}

/* A watch before this one may have reserved the name: the next waiter would find it BUSY. */
static void unreserve(struct my_connection *conn, const struct dlock_request *req)
{
    const struct my_slot *slot = req->attempt;
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!my_queue_is_head(slot->queue))
        return;
    my_statements_input(conn, req);
    (void)step(conn, req, MY_UNRESERVE, &ignored);
}

static enum dlock_status watch(struct my_session *session, const struct dlock_request *req,
                               struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    struct my_slot *slot = req->attempt;
    /* A login that is cut off by the deadline would do harm at the server. */
    const bool in_time = req->deadline_ns - my_connection_now(conn) >= LOGIN_NS;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (atomic_load(&slot->stop)) { /* or the first place in the queue would be news [INT-2] */
        unreserve(conn, req);
        return dlock_fail(err, MY_ORIGIN, DLOCK_CANCELED, 0, "the wait was interrupted");
    }
    if (slot->queue == NULL)
        slot->queue = queue_take(session->shared, in_time, req->deadline_ns);
    my_statements_input(conn, req);
    conn->stop = &slot->stop;
    if (slot->queue != NULL)
        status = wait_in_queue(session, req, err);
    if (slot->queue == NULL && status != DLOCK_BUSY && status != DLOCK_CANCELED && !conn->dead)
        status = poll_alone(session, req, err);
    conn->stop = NULL;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
}

enum dlock_status my_row_watch(void *self, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, req->deadline_ns, err);

    (void)grant;
    return status == DLOCK_OK ? watch(session, req, err) : status;
}

void my_row_forget(void *self, const struct dlock_request *req)
{
    struct my_slot *slot = req->attempt;

    (void)self;
    if (slot->queue != NULL)
        my_queue_drop(slot->queue);
    slot->queue = NULL;
}
