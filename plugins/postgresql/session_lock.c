/* SPDX-License-Identifier: MIT */
#include "session_lock.h"

#include "lib/text.h"
#include "query.h"
#include "statements.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Of session.sql. */
enum result { RESULT_BUSY, RESULT_OK, RESULT_OTHER_NUMBER, RESULT_OTHER_NAME, RESULT_REMOVED };

/* The server ends the wait at the deadline. Its answer has so much time [LCK-2]. */
#define ANSWER_NS (50 * DL_NS_PER_MS)

/* How long to wait until the server has noticed that the client of a waiting statement has gone: it
 * looks each client_connection_check_interval, 100 ms (open.c). */
#define CHECK_NS (150 * DL_NS_PER_MS)

#define STATE_LOCK_TIMEOUT "55P03"

static int64_t lease_ms(const struct pg_session *session, const struct dlock_request *req)
{
    const int64_t grace_ms = session->config.grace_ms;

    return req->ttl_ms < grace_ms ? req->ttl_ms : grace_ms;
}

static bool holds(const struct pg_session *session, const struct dlock_request *req)
{
    const struct pg_session_held *lock = &session->lock;

    return lock->holds && memcmp(lock->token, req->token, sizeof lock->token) == 0;
}

/* ---- renewals ---- */

/* Why a statement of the holder failed. The lock lives in the session: if the server has ended
 * that, it has ended both. A silent server may have done neither. */
static enum dlock_status failed(const struct pg_connection *conn, enum dlock_status status,
                                const struct dlock_error *err)
{
    const bool ended =
        status == DLOCK_UNAVAILABLE || err->code != 0 || PQstatus(conn->pq) != CONNECTION_OK;

    if (!conn->dead)
        return conn->outstanding ? DLOCK_UNKNOWN : DLOCK_UNAVAILABLE;
    return ended ? DLOCK_LOST : DLOCK_UNKNOWN;
}

/* With key=advisory the answer has the number of the name, too, in the same exchange: another
 * statement whose answer is late would end the session, and the lock with it. */
static enum dlock_status ping(struct pg_session *session, const struct dlock_request *req,
                              PGresult **result, struct dlock_error *err)
{
    static const char plain[] =
        "SELECT pg_backend_pid(), set_config('idle_session_timeout', $1::text, false)";
    struct pg_params params = {.count = 0};
    char *keyed = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    pg_params_number(&params, session->lock.lease_ms);
    if (session->config.has_number) {
        keyed = pg_statements_expand(
            &session->config,
            "SELECT pg_backend_pid(), set_config('idle_session_timeout', $1::text, false),"
            " (SELECT number FROM public.dlock_session WHERE name = $2)");
        if (keyed == NULL)
            return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a renewal");
        pg_params_bytes(&params, req->name, req->name_len);
    }
    status = pg_query_ping(&session->conn, keyed != NULL ? keyed : plain, &params, result, err);
    if (status == DLOCK_OK)
        status = pg_query_expect(&session->conn, result, keyed != NULL ? 3 : 2, 1, err);
    free(keyed);
    return status;
}

/* LOST: another session has answered; or the row of the name was removed, and a client without
 * key=advisory made one with another number, whose lock excludes this one no more. */
static enum dlock_status pong(const struct pg_session *session, const PGresult *result,
                              struct dlock_error *err)
{
    if (pg_query_number(result, 0, 0) != session->lock.pid)
        return dlock_fail(err, PG_ORIGIN, DLOCK_LOST, 0, "%s: another session answers",
                          session->config.endpoint);
    if (session->config.has_number && !PQgetisnull(result, 0, 2) &&
        pg_query_number(result, 0, 2) != session->lock.number)
        return dlock_fail(err, PG_ORIGIN, DLOCK_LOST, 0,
                          "%s: the row of the name was removed, and has another number than "
                          "key=advisory:%" PRId64 " now",
                          session->config.endpoint, session->lock.number);
    return DLOCK_OK;
}

/* [REN-3] An idle session is never ended sooner than a ping before has allowed. A ping that is
 * answered late ends nothing: the next call reads that answer first [C14]. */
static enum dlock_status renew(struct pg_session *session, struct dlock_lease_op *op,
                               int64_t deadline_ns, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_session_held *lock = &session->lock;
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if ((op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNSUPPORTED, 0, "strategy=session: no downgrade");
    if (!holds(session, op->req))
        return DLOCK_LOST;
    op->grant.lease_ms = lease_ms(session, op->req);
    if (lock->lease_ms < op->grant.lease_ms)
        lock->lease_ms = op->grant.lease_ms;
    status = pg_connection_enter(conn, deadline_ns, err);
    if (status == DLOCK_OK)
        status = ping(session, op->req, &result, err);
    status = status == DLOCK_OK ? pong(session, result, err) : failed(conn, status, err);
    PQclear(result);
    return status;
}

/* ---- a lock is taken ---- */

/* Token, mode, lease, label. */
static void request_add(struct pg_params *params, const struct pg_session *session,
                        const struct dlock_request *req)
{
    pg_params_bytes(params, req->token, sizeof req->token);
    pg_params_number(params, req->mode == DLOCK_SHARED);
    pg_params_number(params, lease_ms(session, req));
    pg_params_bytes(params, req->label, strlen(req->label));
}

/* An answer that says OK. Its columns: result, fence, pid, number. */
static enum dlock_status granted(struct pg_session *session, const struct dlock_request *req,
                                 const PGresult *result, struct dlock_grant *grant)
{
    struct pg_session_held *lock = &session->lock;

    memcpy(lock->token, req->token, sizeof lock->token);
    lock->holds = true;
    lock->mode = req->mode;
    lock->lease_ms = lease_ms(session, req);
    lock->fence = (uint64_t)pg_query_number(result, 0, 1);
    lock->pid = pg_query_number(result, 0, 2);
    grant->fence = lock->fence;
    grant->fence_room = PG_FENCE_STEP - 1;
    grant->lease_ms = lock->lease_ms;
    return DLOCK_OK;
}

/* What a take or a confirm has answered. */
static enum dlock_status answered(struct pg_session *session, const struct dlock_request *req,
                                  const PGresult *result, struct dlock_grant *grant,
                                  struct dlock_error *err)
{
    const char *endpoint = session->config.endpoint;

    switch ((enum result)pg_query_number(result, 0, 0)) {
    case RESULT_OK:
        return granted(session, req, result, grant);
    case RESULT_BUSY:
        return DLOCK_BUSY;
    case RESULT_OTHER_NUMBER:
        return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: key=advisory:%" PRId64 ": the name has the number %" PRId64
                          " already: use that, or another name or table_prefix",
                          endpoint, session->config.number, session->lock.number);
    case RESULT_OTHER_NAME:
        return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: key=advisory:%" PRId64
                          ": another name has this number: use that name, or another number or"
                          " table_prefix",
                          endpoint, session->config.number);
    case RESULT_REMOVED:
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: the row of the name was removed", endpoint);
    }
    return pg_connection_bad_reply(&session->conn, err);
}

/* An error of the server after the advisory lock was taken leaves it with the session. */
static void release_all(struct pg_session *session)
{
    struct pg_connection *conn = &session->conn;
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    PGresult *result = NULL;

    conn->stop = NULL;
    conn->deadline_ns = pg_connection_extend(conn, conn->deadline_ns);
    if (!conn->dead &&
        pg_query(conn,
                 "SELECT pg_advisory_unlock_all(), set_config('idle_session_timeout', '0', false)",
                 NULL, &result, &ignored) != DLOCK_OK)
        conn->dead = true;
    PQclear(result);
}

/* A take or a confirm. */
static enum dlock_status ask(struct pg_session *session, const struct dlock_request *req,
                             enum pg_statement which, const struct pg_params *params,
                             struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    PGresult *result = NULL;
    enum dlock_status status = pg_statements_run(conn, which, params, 1, &result, err);

    if (status == DLOCK_OK) {
        session->lock.number = pg_query_number(result, 0, 3);
        status = answered(session, req, result, grant, err);
    } else {
        release_all(session);
    }
    PQclear(result);
    return status;
}

/* The lock at once, or BUSY. */
static enum dlock_status take(struct pg_session *session, const struct dlock_request *req,
                              struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_params params = {.count = 0};
    char key[24];

    (void)snprintf(key, sizeof key, "%" PRId64, session->config.number);
    pg_params_bytes(&params, req->name, req->name_len);
    pg_params_literal(&params, session->config.has_number ? key : NULL);
    request_add(&params, session, req);
    return ask(session, req, PG_SESSION_TAKE, &params, grant, err);
}

/* The advisory lock is ours: makes a lock of it, whose lease counts from now. */
static enum dlock_status confirm(struct pg_session *session, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_params params = {.count = 0};

    grant->since_ns = pg_connection_now(&session->conn);
    pg_params_bytes(&params, req->name, req->name_len);
    pg_params_number(&params, session->lock.number);
    request_add(&params, session, req);
    return ask(session, req, PG_SESSION_CONFIRM, &params, grant, err);
}

/* Takes the lock, or renews one that this session holds already. */
static enum dlock_status take_or_renew(struct pg_session *session, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err)
{
    if (session->lock.holds && !holds(session, req))
        return dlock_fail(err, PG_ORIGIN, DLOCK_INTERNAL, 0, "the session holds another lock");
    if (session->lock.holds) { /* an advisory lock that is taken twice is released once */
        struct dlock_lease_op op = {.struct_size = sizeof op, .req = req};
        enum dlock_status status = renew(session, &op, req->deadline_ns, err);

        grant->fence = session->lock.fence;
        grant->fence_room = PG_FENCE_STEP - 1;
        grant->lease_ms = op.grant.lease_ms;
        return status == DLOCK_LOST ? DLOCK_UNKNOWN : status;
    }
    return take(session, req, grant, err);
}

enum dlock_status pg_session_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_session *session = self;
    enum dlock_status status = pg_connection_enter(&session->conn, req->deadline_ns, err);

    return status == DLOCK_OK ? take_or_renew(session, req, grant, err) : status;
}

/* Ends a wait at the server that the server has not ended: its session goes with it. The end of the
 * stream from the server says that the lock is free; it comes when the server has looked. */
static void wait_abandon(struct pg_connection *conn, int64_t until_ns)
{
    const int fd = PQsocket(conn->pq);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char bytes[256];
    ssize_t got = 1;

    conn->dead = true;
    if (fd < 0 || shutdown(fd, SHUT_WR) != 0)
        return;
    while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) {
        const int64_t left_ns = until_ns - pg_connection_now(conn);

        if (left_ns <= 0 || poll(&poll_fd, 1, (int)(left_ns / DL_NS_PER_MS) + 1) == 0)
            break;
        got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    (void)shutdown(fd, SHUT_RDWR);
}

/* TIMEOUT is definite [LCK-1]. */
static enum dlock_status wait_ended(struct pg_connection *conn, const struct dlock_request *req,
                                    enum dlock_status status, struct dlock_error *err)
{
    const int64_t now_ns = pg_connection_now(conn);

    if (now_ns < req->deadline_ns)
        return status;
    if (err->code == pg_connection_error_code(STATE_LOCK_TIMEOUT))
        return dlock_fail(err, PG_ORIGIN, DLOCK_TIMEOUT, err->code, "held by another owner");
    if (status != DLOCK_UNKNOWN || err->code != 0)
        return status;
    wait_abandon(conn, now_ns); /* the server is silent */
    return dlock_fail(err, PG_ORIGIN, DLOCK_TIMEOUT, 0, "held by another owner");
}

/* One statement that waits in the server's queue, until the deadline. */
static enum dlock_status wait_once(struct pg_session *session, const struct dlock_request *req,
                                   int64_t left_ns, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    pg_params_number(&params, session->lock.number);
    pg_params_number(&params, req->mode == DLOCK_SHARED);
    pg_params_number(&params, lease_ms(session, req));
    pg_params_number(&params, left_ns / DL_NS_PER_MS + 1);
    conn->deadline_ns = req->deadline_ns + ANSWER_NS;
    conn->long_wait = true;
    status = pg_statements_run(conn, PG_SESSION_WAIT, &params, 1, &result, err);
    conn->long_wait = false;
    PQclear(result);
    return status;
}

/* OK: the advisory lock is ours. A server whose clock has jumped ends the wait too soon. */
static enum dlock_status wait_for(struct pg_session *session, const struct dlock_request *req,
                                  struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    int64_t left_ns = req->deadline_ns - pg_connection_now(conn);
    enum dlock_status status = DLOCK_TIMEOUT;

    if (left_ns <= 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_TIMEOUT, 0, "held by another owner");
    while (left_ns > 0) {
        status = wait_once(session, req, left_ns, err);
        if (status == DLOCK_OK)
            return status;
        if (conn->dead || err->code != pg_connection_error_code(STATE_LOCK_TIMEOUT))
            break;
        left_ns = req->deadline_ns - pg_connection_now(conn);
    }
    return wait_ended(conn, req, status, err);
}

/* [LCK-2] */
static int64_t exchange_until(const struct pg_connection *conn, const struct dlock_request *req)
{
    const int64_t most_ns = pg_connection_now(conn) + req->op_timeout_ms * DL_NS_PER_MS;
    const int64_t until_ns = pg_connection_extend(conn, req->deadline_ns);

    return until_ns < most_ns ? until_ns : most_ns;
}

/* The first request does not wait. It takes one exchange, makes the row of the name, and finds a
 * dead connection, which a request that waits would find at the end of the wait only. */
static enum dlock_status take_or_wait(struct pg_session *session, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = exchange_until(conn, req);
    status = take_or_renew(session, req, grant, err);
    if (status != DLOCK_BUSY)
        return status;
    status = wait_for(session, req, err);
    if (status != DLOCK_OK)
        return status;
    conn->deadline_ns = exchange_until(conn, req);
    return confirm(session, req, grant, err);
}

enum dlock_status pg_session_lock(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_connection *conn = &session->conn;
    const struct pg_slot *slot = req->attempt;
    const int64_t last_ns = req->deadline_ns + ANSWER_NS;
    enum dlock_status status = pg_connection_enter(conn, req->deadline_ns, err);
    int64_t until_ns = 0;

    if (status != DLOCK_OK)
        return status;
    conn->stop = &slot->stop;
    status = take_or_wait(session, req, grant, err);
    conn->stop = NULL;
    if (status == DLOCK_OK || atomic_load(&slot->stop) == 0)
        return status;
    until_ns = pg_connection_now(conn) + CHECK_NS;
    wait_abandon(conn, until_ns < last_ns ? until_ns : last_ns);
    return dlock_fail(err, PG_ORIGIN, DLOCK_CANCELED, 0, "the wait was cancelled");
}

enum dlock_status pg_session_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    (void)n; /* 1: a lock is a connection */
    ops[0]->status = renew(self, ops[0], deadline_ns, err);
    return DLOCK_OK;
}

enum dlock_status pg_session_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_connection *conn = &session->conn;
    struct pg_session_held *lock = &session->lock;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!holds(session, req))
        return DLOCK_LOST;
    pg_params_bytes(&params, req->name, req->name_len);
    pg_params_number(&params, lock->number);
    pg_params_bytes(&params, req->token, sizeof req->token);
    pg_params_number(&params, lock->mode == DLOCK_SHARED);
    status = pg_connection_enter(conn, req->deadline_ns, err);
    if (status == DLOCK_OK)
        status = pg_query_catch_up(conn, err);
    if (conn->outstanding && !conn->dead)
        return DLOCK_UNAVAILABLE; /* nothing was sent */
    if (status != DLOCK_OK)
        return failed(conn, status, err);
    status = pg_statements_run(conn, PG_SESSION_RELEASE, &params, 1, &result, err);
    if (status !=
        DLOCK_OK) /* a stream that ended without a word may have taken the request along */
        return err->code == 0 ? status : failed(conn, status, err);
    status = pg_query_number(result, 0, 0) == 1 ? DLOCK_OK : DLOCK_LOST;
    PQclear(result);
    lock->holds = false;
    return status;
}

enum dlock_status pg_session_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    (void)self;
    (void)name;
    (void)name_len;
    (void)owner;
    (void)deadline_ns;
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNSUPPORTED, 0,
                      "strategy=session has no break: end the holder's session with "
                      "pg_terminate_backend, as plugins/postgresql/README.md shows");
}

/* ---- inspect and list ---- */

enum { NAME, IS_SHARED, FENCE, LEASE_MS, HELD_MS, TOKEN, LABEL, WAITERS, PID };

static bool report(const PGresult *result, int row, dlock_holder_fn *fn, void *arg)
{
    char owner[2 * DLOCK_TOKEN_SIZE + 1], process[64];
    size_t name_len = 0, token_len = 0, label_len = 0;
    const unsigned char *name = pg_query_bytes(result, row, NAME, &name_len);
    const unsigned char *token = pg_query_bytes(result, row, TOKEN, &token_len);
    const unsigned char *label = pg_query_bytes(result, row, LABEL, &label_len);
    struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = name,
        .name_len = (uint32_t)name_len,
        .mode = pg_query_number(result, row, IS_SHARED) != 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = (uint32_t)pg_query_number(result, row, WAITERS),
        .fence = (uint64_t)pg_query_number(result, row, FENCE),
        .fence_last = (uint64_t)pg_query_number(result, row, FENCE) + PG_FENCE_STEP - 1,
        .remaining_ms = pg_query_number(result, row, LEASE_MS),
        .held_ms = pg_query_number(result, row, HELD_MS),
        .owner = owner,
        .label = label != NULL ? (const char *)label : process,
    };

    (void)snprintf(process, sizeof process, "another program, process %d of the server",
                   (int)pg_query_number(result, row, PID));
    dl_hex_encode(owner, token, token_len <= DLOCK_TOKEN_SIZE ? token_len : 0);
    return fn(arg, &info);
}

static enum dlock_status inspect(struct pg_session *session, const unsigned char *name,
                                 uint32_t name_len, bool whole, int64_t deadline_ns,
                                 dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status = pg_connection_enter(conn, deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    pg_params_bytes(&params, name_len > 0 ? name : (const unsigned char *)"", name_len);
    pg_params_number(&params, whole);
    pg_params_number(&params, conn->config->has_number);
    status = pg_statements_run(conn, PG_SESSION_HOLDERS, &params, 0, &result, err);
    for (int row = 0; status == DLOCK_OK && row < PQntuples(result); row++) {
        if (report(result, row, fn, arg))
            break;
    }
    PQclear(result);
    return status;
}

enum dlock_status pg_session_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    return inspect(self, name, name_len, true, deadline_ns, fn, arg, err);
}

enum dlock_status pg_session_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    return inspect(self, prefix, prefix_len, false, deadline_ns, fn, arg, err);
}
