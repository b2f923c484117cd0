/* SPDX-License-Identifier: MIT */
/*
 * Strategy session. The lock is InnoDB's lock on the row of the name, taken by a transaction that
 * lasts as long as the lock does and does nothing else: autocommit is off, and the statement that
 * locks the row begins it. It is handed out in three steps, each
 * needed: the row lock; a fence committed by the side connection; and a ping in the locking session
 * that is sent after that commit. Without the ping, a session that was killed before the commit
 * would get a greater fence than the holder that came after it.
 */
#include "my.h"

#include <string.h>

/* What an exchange at the deadline has past it, within the 100 ms of C8. */
#define GRACE_NS (40 * DL_NS_PER_MS)

/* Time that the end of a wait at the server may take. */
#define KILL_NS (50 * DL_NS_PER_MS)

static int64_t now_ns(const struct my_conn *conn)
{
    return conn->host->now_ns(conn->host->ctx);
}

/* ---- the side connection's part ---- */

static void side_input(struct my_conn *side, const struct my_session *session,
                       const struct dlock_request *req)
{
    my_conn_input(side, req);
    side->input.number = (long long)session->conn.id;
}

static enum dlock_status fence_exclusive(struct my_conn *side, struct dlock_error *err)
{
    enum dlock_status status = my_conn_execute(side, MY_FENCE, err);

    if (status != DLOCK_OK || side->affected > 0)
        return status;
    return my_conn_execute(side, MY_FENCE_FIRST, err);
}

static enum dlock_status fence_shared(struct my_conn *side, struct dlock_error *err)
{
    int found = 0;
    enum dlock_status status = my_conn_execute(side, MY_READER_REAP, err);

    if (status == DLOCK_OK)
        status = my_conn_execute(side, MY_READER_ADD, err);
    if (status == DLOCK_OK)
        status = my_conn_row(side, MY_FENCE_READ, &found, err);
    side->insert_id = found ? (uint64_t)side->row.number[0] : 0;
    return status;
}

/* A number above all before, committed, and who has it. */
static enum dlock_status fence(struct my_session *session, const struct dlock_request *req,
                               int64_t deadline_ns, struct dlock_grant *grant,
                               struct dlock_error *err)
{
    struct my_conn *side = NULL;
    enum dlock_status status = my_side_begin(session->side, deadline_ns, &side, err);

    if (status != DLOCK_OK)
        return status;
    side_input(side, session, req);
    status = req->mode == DLOCK_SHARED ? fence_shared(side, err) : fence_exclusive(side, err);
    grant->fence = side->insert_id;
    grant->fence_room = MY_FENCE_STEP - 1;
    my_side_end(session->side);
    return status;
}

/* Makes the row of a name that nobody asked for yet. Whoever did meanwhile may hold it already, and
 * is not waited for. */
static enum dlock_status ensure(struct my_session *session, const struct dlock_request *req,
                                int64_t deadline_ns, struct dlock_error *err)
{
    struct my_conn *side = NULL;
    enum dlock_status status = my_side_begin(session->side, deadline_ns, &side, err);

    if (status != DLOCK_OK)
        return status;
    side_input(side, session, req);
    status = my_conn_execute(side, MY_ENSURE, err);
    my_side_end(session->side);
    if (status != DLOCK_OK && my_contention((unsigned)err->backend_code))
        return DLOCK_OK;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status; /* a free row, or none */
}

/* The wait of this session at the server ends with the session; if this fails, with the row. A side
 * connection that is younger may be one to the server after a restart, where the number is a
 * stranger's. */
static void wait_kill(struct my_session *session)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_conn *side = NULL;
    char text[48];

    (void)snprintf(text, sizeof text, "KILL CONNECTION %lu", session->conn.id);
    if (my_side_begin(session->side, now_ns(&session->conn) + KILL_NS, &side, &ignored) != DLOCK_OK)
        return;
    if (side->opened_ns <= session->conn.answered_ns)
        (void)my_conn_query(side, text, &ignored);
    my_side_end(session->side);
}

/* So that it is there for wait_kill, and this session has been heard of since. */
static enum dlock_status side_ready(struct my_session *session, int64_t deadline_ns,
                                    struct dlock_error *err)
{
    struct my_conn *conn = &session->conn, *side = NULL;
    int64_t opened_ns = 0;
    enum dlock_status status = my_side_begin(session->side, deadline_ns, &side, err);

    if (status != DLOCK_OK)
        return status;
    opened_ns = side->opened_ns;
    my_side_end(session->side);
    return opened_ns <= conn->answered_ns ? DLOCK_OK : my_conn_query(conn, "DO 0", err);
}

static void reader_remove(struct my_session *session, const struct dlock_request *req,
                          int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_conn *side = NULL;

    if (my_side_begin(session->side, deadline_ns, &side, &ignored) != DLOCK_OK)
        return;
    side_input(side, session, req);
    (void)my_conn_execute(side, MY_READER_REMOVE, &ignored);
    my_side_end(session->side);
}

/* ---- the locking session's part ---- */

static int64_t lease_ms(const struct my_session *session, const struct dlock_request *req)
{
    return req->ttl_ms < session->place.grace_ms ? req->ttl_ms : session->place.grace_ms;
}

/* Does the transaction last that the row lock lives in? */
static enum dlock_status lasts(struct my_conn *conn, struct dlock_error *err)
{
    if (my_conn_in_transaction(conn))
        return DLOCK_OK;
    conn->dead = 1;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "%s: the server ended the transaction of the row lock",
                      conn->place->endpoint);
}

/* The row is ours: makes a lock of it. */
static enum dlock_status confirm(struct my_session *session, const struct dlock_request *req,
                                 int64_t deadline_ns, struct dlock_grant *grant,
                                 struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum dlock_status status = fence(session, req, deadline_ns, grant, err);

    if (status != DLOCK_OK)
        return status;
    conn->deadline_ns = deadline_ns;
    grant->since_ns = now_ns(conn);
    grant->lease_ms = lease_ms(session, req);
    status = my_conn_query(conn, "DO 0", err);
    if (status == DLOCK_OK)
        status = lasts(conn, err);
    if (status != DLOCK_OK)
        return status;
    memcpy(session->token, req->token, sizeof session->token);
    session->holds = 1;
    return DLOCK_OK;
}

/* It begins the transaction. */
static enum dlock_status row_ask(struct my_conn *conn, enum my_statement which, int *found,
                                 struct dlock_error *err)
{
    conn->transaction = 1;
    return my_conn_row(conn, which, found, err);
}

/* Not ours, and nothing of it stays: a connection that cannot say so is dead. */
static enum dlock_status give_up(struct my_session *session, enum dlock_status status)
{
    my_conn_rollback(&session->conn);
    return status;
}

/* The row at once, or BUSY. A name that is new gets one. */
static enum dlock_status row_now(struct my_session *session, const struct dlock_request *req,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum my_statement which = req->mode == DLOCK_SHARED ? MY_SHARE_NOWAIT : MY_ROW_NOWAIT;
    int found = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    status = row_ask(conn, which, &found, err);
    if (status == DLOCK_OK && !found) {
        my_conn_rollback(conn);
        status = ensure(session, req, deadline_ns, err);
        if (status == DLOCK_OK)
            status = row_ask(conn, which, &found, err);
        if (status == DLOCK_OK && !found)
            status = DLOCK_BUSY; /* removed by hand, just now */
    }
    return my_lease_contended(status, err);
}

enum dlock_status my_pinned_try(struct my_session *session, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    my_conn_input(&session->conn, req);
    status = row_now(session, req, req->deadline_ns, err);
    if (status == DLOCK_OK)
        status = confirm(session, req, req->deadline_ns, grant, err);
    if (status != DLOCK_OK)
        return give_up(session, my_lease_contended(status, err));
    return DLOCK_OK;
}

/* [LCK-2] */
static int64_t exchange_until(const struct my_conn *conn, const struct dlock_request *req)
{
    const int64_t begin_ns = now_ns(conn);
    const int64_t least_ns = begin_ns + GRACE_NS;
    const int64_t most_ns = begin_ns + req->op_timeout_ms * DL_NS_PER_MS;
    const int64_t until_ns = req->deadline_ns > least_ns ? req->deadline_ns : least_ns;

    return until_ns < most_ns ? until_ns : most_ns;
}

/* The server queues us. OK: the row is ours. */
static enum dlock_status row_wait(struct my_session *session, const struct dlock_request *req,
                                  struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    enum my_statement which = req->mode == DLOCK_SHARED ? MY_SHARE_WAIT : MY_ROW_WAIT;
    int found = 0;
    enum dlock_status status = side_ready(session, exchange_until(conn, req), err);

    if (status != DLOCK_OK)
        return status;
    conn->deadline_ns = req->deadline_ns;
    conn->waits = 1;
    do /* 1205 comes once a minute; innodb_rollback_on_timeout: and ends the transaction */
        status = row_ask(conn, which, &found, err);
    while (status == DLOCK_UNAVAILABLE && err->backend_code == 1205 &&
           now_ns(conn) < req->deadline_ns);
    conn->waits = 0;
    if (status == DLOCK_OK && !found)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "%s: the row of the name was removed", session->place.endpoint);
    return status;
}

/* TIMEOUT and CANCELED are definite: the server is told to end the wait. held: it has said so. */
static enum dlock_status wait_ended(struct my_session *session, const struct dlock_request *req,
                                    int held, enum dlock_status status, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    const struct my_slot *slot = req->slot;

    conn->stop = NULL;
    if (status == DLOCK_OK || !conn->dead || my_fatal((unsigned)err->backend_code))
        return status;
    if (!held && atomic_load(&slot->stop) == 0)
        return status;
    wait_kill(session);
    if (atomic_load(&slot->stop) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CANCELED, 0, "the wait was cancelled");
    if (now_ns(conn) >= req->deadline_ns)
        return dlock_fail(err, MY_ORIGIN, DLOCK_TIMEOUT, 0, "held by another owner");
    return status;
}

/* The row is asked for without waiting first: that takes as long as an answer does, and who waits
 * on a link that is dead would learn it at the end of the wait only. */
enum dlock_status my_pinned_lock(struct my_session *session, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_conn *conn = &session->conn;
    const struct my_slot *slot = req->slot;
    enum dlock_status status = DLOCK_INTERNAL;
    int held = 0;

    my_conn_input(conn, req);
    conn->stop = &slot->stop;
    status = row_now(session, req, exchange_until(conn, req), err);
    held = status == DLOCK_BUSY;
    if (held)
        status = row_wait(session, req, err);
    status = wait_ended(session, req, held, status, err);
    if (status == DLOCK_OK)
        status = confirm(session, req, exchange_until(conn, req), grant, err);
    if (status == DLOCK_UNAVAILABLE && my_contention((unsigned)err->backend_code) &&
        now_ns(conn) >= req->deadline_ns)
        status = DLOCK_TIMEOUT;
    return status == DLOCK_OK ? status : give_up(session, status);
}

static int holds(const struct my_session *session, const struct dlock_request *req)
{
    return session->holds && memcmp(session->token, req->token, sizeof session->token) == 0;
}

/* The lock lives in the session: when the server ended that, it ended both. */
static enum dlock_status failed(const struct my_session *session, const struct dlock_error *err)
{
    return session->conn.dead && my_fatal((unsigned)err->backend_code) ? DLOCK_LOST : DLOCK_UNKNOWN;
}

enum dlock_status my_pinned_renew(struct my_session *session, struct dlock_lease_op *op,
                                  int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if ((op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNSUPPORTED, 0,
                          "strategy=session: a row lock cannot be weakened");
    if (!holds(session, op->req))
        return DLOCK_LOST;
    op->grant.lease_ms = lease_ms(session, op->req);
    status = my_conn_enter(&session->conn, deadline_ns, err);
    if (status == DLOCK_OK)
        status = my_conn_query(&session->conn, "DO 0", err);
    if (status != DLOCK_OK)
        return failed(session, err);
    return lasts(&session->conn, err) == DLOCK_OK ? DLOCK_OK : DLOCK_LOST;
}

enum dlock_status my_pinned_unlock(struct my_session *session, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (!holds(session, req))
        return DLOCK_LOST;
    status = my_conn_enter(&session->conn, req->deadline_ns, err);
    if (status != DLOCK_OK)
        return failed(session, err);
    status = my_conn_commit(&session->conn, err);
    if (status != DLOCK_OK) /* 2013: sent, and no answer */
        return err->backend_code == 2013 ? DLOCK_UNKNOWN : failed(session, err);
    session->holds = 0;
    if (req->mode == DLOCK_SHARED)
        reader_remove(session, req, req->deadline_ns);
    return DLOCK_OK;
}
