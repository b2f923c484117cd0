/* SPDX-License-Identifier: MIT */
#include "row_lease.h"

#include "lib/request.h"
#include "lib/text.h"
#include "row.h"
#include "row_listener.h"
#include "statements.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages to waiters ---- */

static const char send_all[] =
    "SELECT pg_notify(split_part(w, ' ', 1), substr(w, strpos(w, ' ') + 1)) "
    "FROM unnest(string_to_array($1, E'\\n')) w";

/* Wakes the waiters of this client, and removes their lines. */
static void deliver_here(struct pg_listener *listener, char *lines)
{
    const size_t len = strlen(listener->channel);
    char *to = lines, *next = lines;

    while (next != NULL) {
        char *line = next;

        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (strncmp(line, listener->channel, len) == 0 && line[len] == ' ') {
            pg_listener_deliver(listener, line + len + 1);
            continue;
        }
        if (to != lines)
            *to++ = '\n';
        memmove(to, line, strlen(line) + 1);
        to += strlen(to);
    }
    *to = '\0';
}

static void report(const struct pg_connection *conn, const struct dlock_error *err)
{
    char line[400];

    if (atomic_exchange(&conn->shared->notify_reported, true))
        return;
    (void)snprintf(line, sizeof line, "a waiter was granted a name and has to ask for it: %s",
                   err->message);
    conn->host->log(conn->host->ctx, PG_SHARED_WARNING, line);
}

/* Cuts a single line at its first blank. */
static void send_others(struct pg_connection *conn, char *lines)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct pg_params params = {.count = 0};
    const int64_t deadline_ns = conn->deadline_ns;
    char *blank = strchr(lines, '\n') == NULL ? strchr(lines, ' ') : NULL;
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = pg_connection_extend(conn, deadline_ns);
    pg_params_text(&params, lines);
    if (blank != NULL) {
        *blank = '\0';
        pg_params_text(&params, blank + 1);
        status = pg_statements_run(conn, PG_NOTIFY, &params, 1, &result, &err);
    } else {
        status = pg_query(conn, send_all, &params, &result, &err);
    }
    if (status != DLOCK_OK)
        report(conn, &err);
    PQclear(result);
    conn->deadline_ns = deadline_ns;
}

/* The lines of all rows; NULL: there are none, or there is no memory. */
static char *lines_of(const PGresult *result)
{
    const int column = PQfnumber(result, "wake");
    char *lines = NULL, *at = NULL;
    size_t size = 0;

    for (int row = 0; column >= 0 && row < PQntuples(result); row++)
        size += PQgetisnull(result, row, column) ? 0 : (size_t)PQgetlength(result, row, column) + 1;
    lines = at = size > 0 ? calloc(1, size) : NULL;
    for (int row = 0; lines != NULL && row < PQntuples(result); row++) {
        const size_t len = (size_t)PQgetlength(result, row, column);

        if (PQgetisnull(result, row, column))
            continue;
        if (at != lines)
            at[-1] = '\n';
        memcpy(at, PQgetvalue(result, row, column), len + 1);
        at += len + 1;
    }
    return lines;
}

/* sent: the message is sent, if it is one line. True: some waiter was granted. */
static bool send_lines(struct pg_connection *conn, const PGresult *result, bool sent)
{
    struct pg_listener *listener = atomic_load(&conn->shared->listener);
    char *lines = lines_of(result);
    const bool some = lines != NULL && lines[0] != '\0';

    sent = sent && some && strchr(lines, '\n') == NULL;
    if (listener != NULL)
        pg_listener_tidy(listener);
    if (lines != NULL && listener != NULL)
        deliver_here(listener, lines);
    if (lines != NULL && lines[0] != '\0' && !sent)
        send_others(conn, lines);
    free(lines);
    return some;
}

void pg_row_lease_notify(struct pg_connection *conn, const PGresult *result)
{
    (void)send_lines(conn, result, false);
}

/* Waiters of this client need no message. */
static enum dlock_status pass(struct pg_connection *conn, const struct pg_params *params,
                              PGresult **result, bool *sent, struct dlock_error *err)
{
    const struct pg_listener *listener = atomic_load(&conn->shared->listener);
    struct pg_params tell = {.count = 0};

    pg_params_text(&tell, listener != NULL ? listener->channel : " ");
    return pg_statements_pass(conn, params, &tell, result, sent, err);
}

static enum dlock_status release_and_notify(struct pg_connection *conn,
                                            const struct pg_params *params, PGresult **result,
                                            struct dlock_error *err)
{
    bool sent = false;
    enum dlock_status status = DLOCK_UNSUPPORTED;

    if (conn->passes)
        status = pass(conn, params, result, &sent, err);
    if (status == DLOCK_UNSUPPORTED)
        status = pg_statements_run(conn, PG_RELEASE, params, 1, result, err);
    if (status == DLOCK_OK)
        conn->passes = send_lines(conn, *result, sent);
    return status;
}

/* ---- leases ---- */

bool pg_row_lease_is_permit(const struct dlock_request *req)
{
    return req->limit > 1;
}

enum pg_take pg_row_lease_what(const struct dlock_request *req)
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
    pg_params_number(params,
                     pg_row_lease_is_permit(req) ? (int64_t)req->limit : req->mode == DLOCK_SHARED);
    pg_params_number(params, req->ttl_ms);
    pg_params_number(params, pg_row_lease_what(req));
    pg_params_number(params, conn->config->waiter_ttl_ms);
    pg_params_text(params, inbox);
    pg_params_bytes(params, text, dl_holder_text_make(text, req));
    pg_params_number(params, pg_statements_less_patience_ms(conn));
}

enum dlock_status pg_row_lease_granted(struct pg_connection *conn, const struct dlock_request *req,
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

enum dlock_status pg_row_lease_take_read(struct pg_connection *conn,
                                         const struct dlock_request *req, const PGresult *result,
                                         int row, struct dlock_grant *grant,
                                         struct dlock_error *err)
{
    const int64_t outcome = pg_query_number(result, row, 0),
                  fence = pg_query_number(result, row, 1);
    bool reported = false;

    grant->waiters = (uint32_t)pg_query_number(result, row, 4);
    if (outcome == PG_TAKE_OK) {
        if (pg_row_lease_is_permit(req))
            grant->permit = (uint32_t)pg_query_number(result, row, 6);
        return pg_row_lease_granted(conn, req, fence, grant, err);
    }
    if (outcome == PG_TAKE_OTHER_LIMIT)
        return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, (unsigned)fence,
                          req->limit);
    grant->holder_ms = pg_query_number(result, row, 2);
    grant->queue_position = grant->waiters;
    if (outcome == PG_TAKE_QUEUED) {
        grant->flags |= DLOCK_GRANT_QUEUED;
        grant->queue_position = (uint32_t)pg_query_number(result, row, 3);
        grant->fence = (uint64_t)fence;
        grant->lease_ms = conn->config->waiter_ttl_ms;
        reported = pg_waiter_queued(req->attempt, grant->fence);
    }
    if (req->waiter != 0 && !reported)
        grant->flags |= DLOCK_GRANT_UNREPORTED;
    return DLOCK_BUSY;
}

enum dlock_status pg_row_trylock(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_connection *conn = &session->conn;
    struct pg_params params = {0};
    PGresult *result = NULL;
    const char *inbox = NULL;
    char text[DL_HOLDER_TEXT_MAX];
    enum dlock_status status = pg_connection_enter(conn, req->deadline_ns, err);

    if (status == DLOCK_OK && pg_row_lease_what(req) != PG_TAKE_TRY)
        status = pg_waiter_expect(conn->shared, req, &inbox, err);
    if (status != DLOCK_OK)
        return status;
    take_params(conn, req, inbox, text, &params);
    status = pg_statements_run(conn, pg_row_lease_is_permit(req) ? PG_PERMIT : PG_TAKE, &params, 1,
                               &result, err);
    if (status == DLOCK_UNAVAILABLE && (req->flags & DLOCK_REQ_REFRESH) != 0)
        return status; /* BUSY would end the attempt, and the queue entry may be there */
    if (status == DLOCK_UNAVAILABLE && !conn->dead && pg_connection_is_contention(err->code))
        return err->status = DLOCK_BUSY; /* another transaction has locked the row [TRY-8] */
    if (status != DLOCK_OK)
        return status;
    status = pg_row_lease_take_read(conn, req, result, 0, grant, err);
    pg_row_lease_notify(conn, result);
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
    pg_params_number(&params,
                     req->mode == DLOCK_SHARED || pg_row_lease_is_permit(req) || conn->passes);
    pg_params_number(&params, queued);
    pg_params_number(&params, pg_statements_less_patience_ms(conn));
    status = release_and_notify(conn, &params, &result, err);
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
    pg_params_number(&params, req->keep_ms);
    pg_params_number(&params, pg_statements_less_patience_ms(conn));
    status = pg_statements_run(conn, PG_KEEP, &params, 1, &result, err);
    if (status != DLOCK_OK)
        return status;
    *held = pg_query_number(result, 0, 0) != 0;
    PQclear(result);
    return DLOCK_OK;
}

enum dlock_status pg_row_lease_unlocked(bool held, struct dlock_error *err)
{
    if (held)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
}

enum dlock_status pg_row_unlock(void *self, const struct dlock_request *req,
                                struct dlock_error *err)
{
    struct pg_session *session = self;
    bool held = false;
    enum dlock_status status = DLOCK_INTERNAL;

    pg_waiter_free(req->attempt); /* [UNL-4] */
    status = req->keep_ms > 0 ? keep(&session->conn, req, &held, err)
                              : release(&session->conn, req, false, &held, err);
    return status == DLOCK_OK ? pg_row_lease_unlocked(held, err) : status;
}

enum dlock_status pg_row_dequeue(void *self, const struct dlock_request *req,
                                 struct dlock_error *err)
{
    struct pg_session *session = self;
    bool held = false;

    pg_waiter_free(req->attempt);
    return release(&session->conn, req, true, &held, err);
}

enum dlock_status pg_row_break(void *self, const unsigned char *name, uint32_t name_len,
                               const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct pg_session *session = self;
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
    pg_row_lease_notify(conn, result);
    PQclear(result);
    if (ended == 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return DLOCK_OK;
}
