/* SPDX-License-Identifier: MIT */
/*
 * Strategy session. The lock is InnoDB's lock on the row of the name, taken by a transaction that
 * lasts as long as the lock and does nothing else: autocommit is off, and the statement that locks
 * the row begins it. The lock is handed out in three steps, and each is needed: the row lock; a
 * fence, committed by a control connection; and a ping in the locking session, sent after that
 * commit. Without the ping, a session that was killed before the commit would get a greater fence
 * than the holder that came after it.
 */
#include "session_lock.h"

#include "query.h"

#include <string.h>

/* Time that the end of a wait at the server may take. */
#define KILL_NS (50 * DL_NS_PER_MS)

/* ---- by a control connection ---- */

static void control_input(struct my_connection *control, const struct my_session *session,
                          const struct dlock_request *req)
{
    my_statements_input(control, req);
    control->input.number = (long long)session->conn.id;
}

static enum dlock_status fence_exclusive(struct my_connection *control, struct dlock_error *err)
{
    enum dlock_status status = my_statements_run(control, MY_FENCE, err);

    if (status != DLOCK_OK || control->affected > 0)
        return status;
    return my_statements_run(control, MY_FENCE_FIRST, err);
}

static enum dlock_status fence_shared(struct my_connection *control, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = my_statements_run(control, MY_READER_REAP, err);

    if (status == DLOCK_OK)
        status = my_statements_run(control, MY_READER_ADD, err);
    if (status == DLOCK_OK)
        status = my_statements_row(control, MY_FENCE_READ, &found, err);
    control->insert_id = found ? (uint64_t)control->row.number[0] : 0;
    return status;
}

/* A number above all before, committed, with its owner. */
static enum dlock_status fence(struct my_session *session, const struct dlock_request *req,
                               int64_t deadline_ns, struct dlock_grant *grant,
                               struct dlock_error *err)
{
    struct my_connection *control = NULL;
    enum dlock_status status =
        my_control_begin(&session->shared->control, deadline_ns, &control, err);

    if (status != DLOCK_OK)
        return status;
    control_input(control, session, req);
    status = req->mode == DLOCK_SHARED ? fence_shared(control, err) : fence_exclusive(control, err);
    grant->fence = control->insert_id;
    grant->fence_room = MY_FENCE_STEP - 1;
    my_control_end(&session->shared->control, control);
    return status;
}

static enum dlock_status control_execute(struct my_session *session,
                                         const struct dlock_request *req, int64_t deadline_ns,
                                         enum my_statement which, struct dlock_error *err)
{
    struct my_connection *control = NULL;
    enum dlock_status status =
        my_control_begin(&session->shared->control, deadline_ns, &control, err);

    if (status != DLOCK_OK)
        return status;
    control_input(control, session, req);
    status = my_statements_run(control, which, err);
    my_control_end(&session->shared->control, control);
    return status;
}

/* Makes the row of a new name. If another client makes it at the same moment, that client may hold
 * it already: this does not wait for the row. */
static enum dlock_status ensure(struct my_session *session, const struct dlock_request *req,
                                int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = control_execute(session, req, deadline_ns, MY_ENSURE, err);

    if (my_connection_contended(status, err) == DLOCK_BUSY)
        return DLOCK_OK;
    return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status; /* a free row, or none */
}

/* Ends the session, and so its wait at the server; if this fails, the wait ends with the row. A
 * younger control connection may be one to the server after a restart, where the number belongs to
 * another session. */
static void wait_kill(struct my_session *session)
{
    struct my_control *all = &session->shared->control;
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_connection *control = my_control_begin_old(
        all, session->conn.answered_ns, my_connection_now(&session->conn) + KILL_NS);
    char text[48];

    if (control == NULL)
        return;
    (void)snprintf(text, sizeof text, "KILL CONNECTION %lu", session->conn.id);
    (void)my_query(control, text, &ignored);
    my_control_end(all, control);
}

/* A control connection has to be there for wait_kill, and older than this session's last answer. */
static enum dlock_status control_ready(struct my_session *session, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    struct my_connection *conn = &session->conn, *control = NULL;
    int64_t opened_ns = 0;
    enum dlock_status status =
        my_control_begin(&session->shared->control, deadline_ns, &control, err);

    if (status != DLOCK_OK)
        return status;
    opened_ns = control->opened_ns;
    my_control_end(&session->shared->control, control);
    return opened_ns <= conn->answered_ns ? DLOCK_OK : my_query(conn, "DO 0", err);
}

/* ---- by the locking session ---- */

static int64_t lease_ms(const struct my_session *session, const struct dlock_request *req)
{
    return req->ttl_ms < session->config.grace_ms ? req->ttl_ms : session->config.grace_ms;
}

/* Whether the transaction of the row lock is still open. */
static enum dlock_status transaction_check(struct my_connection *conn, struct dlock_error *err)
{
    if (my_query_is_in_transaction(conn))
        return DLOCK_OK;
    conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "%s: the server ended the transaction of the row lock",
                      conn->config->endpoint);
}

/* The row is ours: makes a lock of it. */
static enum dlock_status confirm(struct my_session *session, const struct dlock_request *req,
                                 int64_t deadline_ns, struct dlock_grant *grant,
                                 struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    enum dlock_status status = fence(session, req, deadline_ns, grant, err);

    if (status != DLOCK_OK)
        return status;
    conn->deadline_ns = deadline_ns;
    grant->since_ns = my_connection_now(conn);
    grant->lease_ms = lease_ms(session, req);
    status = my_query(conn, "DO 0", err);
    if (status == DLOCK_OK)
        status = transaction_check(conn, err);
    if (status != DLOCK_OK)
        return status;
    memcpy(session->token, req->token, sizeof session->token);
    session->holds = true;
    return DLOCK_OK;
}

/* It begins the transaction. */
static enum dlock_status row_request(struct my_connection *conn, enum my_statement which,
                                     bool *found, struct dlock_error *err)
{
    conn->in_transaction = true;
    return my_statements_row(conn, which, found, err);
}

/* Not ours, and nothing of it stays: a connection that does not confirm it is dead. */
static enum dlock_status give_up(struct my_session *session, enum dlock_status status)
{
    my_query_rollback(&session->conn);
    return status;
}

/* The row at once, or BUSY. A name that is new gets one. */
static enum dlock_status row_now(struct my_session *session, const struct dlock_request *req,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    enum my_statement which = req->mode == DLOCK_SHARED ? MY_SHARE_NOWAIT : MY_ROW_NOWAIT;
    bool found = false;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    status = my_query_catch_up(conn, err);
    conn->dead |= status != DLOCK_OK;
    if (status == DLOCK_OK)
        status = row_request(conn, which, &found, err);
    if (status == DLOCK_OK && !found) {
        my_query_rollback(conn);
        status = ensure(session, req, deadline_ns, err);
        if (status == DLOCK_OK)
            status = row_request(conn, which, &found, err);
        if (status == DLOCK_OK && !found)
            status = DLOCK_BUSY; /* removed by hand, just now */
    }
    return my_connection_contended(status, err);
}

enum dlock_status my_session_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, req->deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    my_statements_input(&session->conn, req);
    status = row_now(session, req, req->deadline_ns, err);
    if (status == DLOCK_OK)
        status = confirm(session, req, req->deadline_ns, grant, err);
    if (status != DLOCK_OK)
        return give_up(session, my_connection_contended(status, err));
    return DLOCK_OK;
}

/* [LCK-2] */
static int64_t exchange_until(const struct my_connection *conn, const struct dlock_request *req)
{
    return my_connection_exchange_until(conn, req->deadline_ns, req->op_timeout_ms * DL_NS_PER_MS);
}

/* Waits in the server's queue. OK: the row is ours. */
static enum dlock_status row_wait(struct my_session *session, const struct dlock_request *req,
                                  struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    enum my_statement which = req->mode == DLOCK_SHARED ? MY_SHARE_WAIT : MY_ROW_WAIT;
    bool found = false;
    enum dlock_status status = control_ready(session, exchange_until(conn, req), err);

    if (status != DLOCK_OK)
        return status;
    conn->deadline_ns = req->deadline_ns;
    conn->long_wait = true;
    do /* 1205 comes once a minute; innodb_rollback_on_timeout: and ends the transaction */
        status = row_request(conn, which, &found, err);
    while (status == DLOCK_UNAVAILABLE && err->code == 1205 &&
           my_connection_now(conn) < req->deadline_ns);
    conn->long_wait = false;
    if (status == DLOCK_OK && !found)
        status = dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "%s: the row of the name was removed", session->config.endpoint);
    return status;
}

/* TIMEOUT and CANCELED are definite: the server has to end the wait. held: the row was held. */
static enum dlock_status wait_ended(struct my_session *session, const struct dlock_request *req,
                                    bool held, enum dlock_status status, struct dlock_error *err)
{
    struct my_connection *conn = &session->conn;
    const struct my_slot *slot = req->attempt;

    conn->stop = NULL;
    if (status == DLOCK_OK || !conn->dead || my_connection_is_fatal((unsigned)err->code))
        return status;
    if (!held && atomic_load(&slot->stop) == 0)
        return status;
    wait_kill(session);
    if (atomic_load(&slot->stop) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_CANCELED, 0, "the wait was cancelled");
    if (my_connection_now(conn) >= req->deadline_ns)
        return dlock_fail(err, MY_ORIGIN, DLOCK_TIMEOUT, 0, "held by another owner");
    return status;
}

/* The first request does not wait for the row. It takes one exchange, and finds a dead connection,
 * which a request that waits would find at the end of the wait only. */
enum dlock_status my_session_lock(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err)
{
    struct my_session *session = self;
    struct my_connection *conn = &session->conn;
    const struct my_slot *slot = req->attempt;
    enum dlock_status status = my_connection_enter(conn, req->deadline_ns, err);
    bool held = false;

    if (status != DLOCK_OK)
        return status;
    my_statements_input(conn, req);
    conn->stop = &slot->stop;
    status = row_now(session, req, exchange_until(conn, req), err);
    held = status == DLOCK_BUSY;
    if (held)
        status = row_wait(session, req, err);
    status = wait_ended(session, req, held, status, err);
    if (status == DLOCK_OK)
        status = confirm(session, req, exchange_until(conn, req), grant, err);
    if (status == DLOCK_UNAVAILABLE && my_connection_is_contention((unsigned)err->code) &&
        my_connection_now(conn) >= req->deadline_ns)
        status = DLOCK_TIMEOUT;
    return status == DLOCK_OK ? status : give_up(session, status);
}

static bool holds(const struct my_session *session, const struct dlock_request *req)
{
    return session->holds && memcmp(session->token, req->token, sizeof session->token) == 0;
}

/* The lock lives in the session: when the server ended that, it ended both. */
static enum dlock_status failed(const struct my_session *session, const struct dlock_error *err)
{
    return session->conn.dead && my_connection_is_fatal((unsigned)err->code) ? DLOCK_LOST
                                                                             : DLOCK_UNKNOWN;
}

/* A ping that is answered late ends nothing: the next call reads that answer first [C14]. */
static enum dlock_status renew(struct my_session *session, struct dlock_lease_op *op,
                               int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if ((op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNSUPPORTED, 0,
                          "strategy=session: a row lock cannot be weakened");
    if (!holds(session, op->req))
        return DLOCK_LOST;
    op->grant.lease_ms = lease_ms(session, op->req);
    status = my_connection_enter(&session->conn, deadline_ns, err);
    if (status == DLOCK_OK)
        status = my_query_ping(&session->conn, err);
    if (status != DLOCK_OK)
        return failed(session, err);
    return transaction_check(&session->conn, err) == DLOCK_OK ? DLOCK_OK : DLOCK_LOST;
}

enum dlock_status my_session_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    (void)n; /* 1: a lock is a connection */
    ops[0]->status = renew(self, ops[0], deadline_ns, err);
    return DLOCK_OK;
}

enum dlock_status my_session_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct my_session *session = self;
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!holds(session, req))
        return DLOCK_LOST;
    status = my_connection_enter(&session->conn, req->deadline_ns, err);
    if (status == DLOCK_OK)
        status = my_query_catch_up(&session->conn, err);
    if (session->conn.ping_wait != 0)
        return DLOCK_UNAVAILABLE; /* nothing was sent */
    if (status != DLOCK_OK)
        return failed(session, err);
    status = my_query_commit(&session->conn, err);
    if (status != DLOCK_OK) /* 2013: sent, and no answer */
        return err->code == 2013 ? DLOCK_UNKNOWN : failed(session, err);
    session->holds = false;
    if (req->mode == DLOCK_SHARED)
        (void)control_execute(session, req, req->deadline_ns, MY_READER_REMOVE, &ignored);
    return DLOCK_OK;
}

enum dlock_status my_session_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    (void)self;
    (void)name;
    (void)name_len;
    (void)owner;
    (void)deadline_ns;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNSUPPORTED, 0,
                      "strategy=session has no break: KILL the holder's connection, as "
                      "plugins/mysql/README.md shows");
}
