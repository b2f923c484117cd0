/* SPDX-License-Identifier: MIT */
#include "row_lease.h"

#include "lib/hex.h"
#include "lib/holder_text.h"
#include "notify.h"
#include "statements.h"
#include "waiter.h"

#include <string.h>

bool pg_lease_is_permit(const struct dlock_request *req)
{
    return dlock_request_limit(req) > 1;
}

enum pg_take pg_lease_what(const struct dlock_request *req)
{
    if ((req->flags & DLOCK_REQ_REFRESH) != 0)
        return PG_TAKE_REFRESH;
    return (req->flags & DLOCK_REQ_ENQUEUE) != 0 ? PG_TAKE_ENQUEUE : PG_TAKE_TRY;
}

/* inbox: where to tell of a grant to the queue entry. text: room for label and data, which
 * *params borrows. */
static void take_params(const struct pg_connection *conn, const struct dlock_request *req,
                        const char *inbox, char text[DL_HOLDER_TEXT_MAX], struct pg_params *params)
{
    pg_params_bytes(params, req->name, req->name_len);
    pg_params_bytes(params, req->token, sizeof req->token);
    pg_params_number(params, pg_lease_is_permit(req) ? (int64_t)dlock_request_limit(req)
                                                     : req->mode == DLOCK_SHARED);
    pg_params_number(params, req->ttl_ms);
    pg_params_number(params, pg_lease_what(req));
    pg_params_number(params, conn->config->waiter_ttl_ms);
    pg_params_text(params, inbox);
    pg_params_bytes(params, text, dl_holder_text_make(text, req));
    pg_params_number(params, pg_statements_less_patience_ms(conn));
}

enum dlock_status pg_lease_granted(struct pg_connection *conn, const struct dlock_request *req,
                                   int64_t fence, struct dlock_grant *grant,
                                   struct dlock_error *err)
{
    if (fence <= 0)
        return pg_connection_bad_reply(conn, err);
    grant->fence = (uint64_t)fence;
    grant->fence_room = PG_FENCE_STEP - 1;
    grant->lease_ms = req->ttl_ms;
    pg_waiter_free(req->attempt);
    return DLOCK_OK;
}

enum dlock_status pg_lease_take_read(struct pg_connection *conn, const struct dlock_request *req,
                                     const PGresult *result, int row, struct dlock_grant *grant,
                                     struct dlock_error *err)
{
    const int64_t outcome = pg_query_number(result, row, 0),
                  fence = pg_query_number(result, row, 1);
    bool reported = false;

    grant->waiters = (uint32_t)pg_query_number(result, row, 4);
    if (outcome == PG_TAKE_OK) {
        if (pg_lease_is_permit(req) && DLOCK_HAS(grant, permit))
            grant->permit = (uint32_t)pg_query_number(result, row, 6);
        return pg_lease_granted(conn, req, fence, grant, err);
    }
    if (outcome == PG_TAKE_OTHER_LIMIT)
        return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, (unsigned)fence,
                          dlock_request_limit(req));
    grant->holder_ms = pg_query_number(result, row, 2);
    grant->queue_position = grant->waiters;
    if (outcome == PG_TAKE_QUEUED) {
        grant->flags |= DLOCK_GRANT_QUEUED;
        grant->queue_position = (uint32_t)pg_query_number(result, row, 3);
        grant->fence = (uint64_t)fence;
        grant->lease_ms = conn->config->waiter_ttl_ms;
        reported = pg_waiter_queued(req->attempt, grant->fence);
    }
    if (dlock_request_waiter(req) != 0 && !reported)
        grant->flags |= DLOCK_GRANT_UNREPORTED;
    return DLOCK_BUSY;
}

enum dlock_status pg_lease_try(struct pg_session *session, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_params params = {0};
    PGresult *result = NULL;
    const char *inbox = NULL;
    char text[DL_HOLDER_TEXT_MAX];
    enum dlock_status status = pg_connection_enter(conn, req->deadline_ns, err);

    if (status == DLOCK_OK && pg_lease_what(req) != PG_TAKE_TRY)
        status = pg_waiter_expect(conn->shared, req, &inbox, err);
    if (status != DLOCK_OK)
        return status;
    take_params(conn, req, inbox, text, &params);
    status = pg_statements_run(conn, pg_lease_is_permit(req) ? PG_PERMIT : PG_TAKE, &params, 1,
                               &result, err);
    if (status == DLOCK_UNAVAILABLE && (req->flags & DLOCK_REQ_REFRESH) != 0)
        return status; /* BUSY would end the attempt, and the queue entry may be there */
    if (status == DLOCK_UNAVAILABLE && !conn->dead && pg_errmap_contention(err->code))
        return err->status = DLOCK_BUSY; /* another transaction has locked the row [TRY-8] */
    if (status != DLOCK_OK)
        return status;
    status = pg_lease_take_read(conn, req, result, 0, grant, err);
    pg_notify_send(conn, result);
    PQclear(result);
    return status;
}

static enum dlock_status release(struct pg_connection *conn, const struct dlock_request *req,
                                 bool queued, bool *held, struct dlock_error *err)
{
    struct pg_params params = {0};
    PGresult *result = NULL;
    enum dlock_status status = pg_connection_enter(conn, req->deadline_ns, err);

    *held = false;
    if (status != DLOCK_OK)
        return status;
    pg_params_bytes(&params, req->name, req->name_len);
    pg_params_bytes(&params, req->token, sizeof req->token);
    /* 1 also where the shortcut for a lock that nobody waits for would be in vain. */
    pg_params_number(&params, req->mode == DLOCK_SHARED || pg_lease_is_permit(req) || conn->passes);
    pg_params_number(&params, queued);
    pg_params_number(&params, pg_statements_less_patience_ms(conn));
    status = pg_notify_release(conn, &params, &result, err);
    if (status != DLOCK_OK)
        return status;
    *held = pg_query_number(result, 0, 0) != 0;
    PQclear(result);
    return DLOCK_OK;
}

static enum dlock_status keep(struct pg_connection *conn, const struct dlock_request *req,
                              bool *held, struct dlock_error *err)
{
    struct pg_params params = {0};
    PGresult *result = NULL;
    enum dlock_status status = pg_connection_enter(conn, req->deadline_ns, err);

    *held = false;
    if (status != DLOCK_OK)
        return status;
    pg_params_bytes(&params, req->name, req->name_len);
    pg_params_bytes(&params, req->token, sizeof req->token);
    pg_params_number(&params, dlock_request_keep_ms(req));
    pg_params_number(&params, pg_statements_less_patience_ms(conn));
    status = pg_statements_run(conn, PG_KEEP, &params, 1, &result, err);
    if (status != DLOCK_OK)
        return status;
    *held = pg_query_number(result, 0, 0) != 0;
    PQclear(result);
    return DLOCK_OK;
}

enum dlock_status pg_lease_unlocked(bool held, struct dlock_error *err)
{
    if (held)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
}

enum dlock_status pg_lease_unlock(struct pg_session *session, const struct dlock_request *req,
                                  struct dlock_error *err)
{
    bool held = false;
    enum dlock_status status = DLOCK_INTERNAL;

    pg_waiter_free(req->attempt); /* [UNL-4] */
    status = dlock_request_keep_ms(req) > 0 ? keep(&session->conn, req, &held, err)
                                            : release(&session->conn, req, false, &held, err);
    return status == DLOCK_OK ? pg_lease_unlocked(held, err) : status;
}

enum dlock_status pg_lease_dequeue(struct pg_session *session, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    bool held = false;

    pg_waiter_free(req->attempt);
    return release(&session->conn, req, true, &held, err);
}

enum dlock_status pg_lease_break(struct pg_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *owner, int64_t deadline_ns,
                                 struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    unsigned char token[DLOCK_TOKEN_SIZE];
    struct pg_params params = {0};
    PGresult *result = NULL;
    int64_t ended = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    if (owner != NULL && !dl_hex_decode(token, sizeof token, owner))
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOT_HELD, 0, "no holder has this token");
    status = pg_connection_enter(conn, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    pg_params_bytes(&params, name, name_len);
    pg_params_bytes(&params, owner != NULL ? token : NULL, sizeof token);
    pg_params_number(&params, pg_statements_patience_ms(conn));
    status = pg_statements_run(conn, PG_BREAK, &params, 1, &result, err);
    if (status != DLOCK_OK)
        return status;
    ended = pg_query_number(result, 0, 0);
    pg_notify_send(conn, result);
    PQclear(result);
    if (ended == 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return DLOCK_OK;
}
