/* SPDX-License-Identifier: MIT */
/* Each function here is one transaction, and decides nothing before it is alone in the file. */
#include "name.h"

#include <string.h>

static enum dlock_status failed(struct sqlite_session *session, int rc, struct dlock_error *err)
{
    if (rc == SQLITE_MISMATCH)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, rc,
                          "%.180s: the row of this name was not written by dlock",
                          session->place.path);
    return sqlite_db_fail(err, session->db.handle, &session->place, sqlite_status_of(rc), rc);
}

static void name_of(struct sqlite_name *name, struct sqlite_session *session,
                    const struct dlock_request *req)
{
    sqlite_name_init(name, session, req->name, req->name_len);
}

static void tell_busy(const struct sqlite_name *name, struct dlock_grant *grant)
{
    if (name->held || name->readers > 0)
        grant->holder_ms = (name->until_ns - name->now_ns + DL_NS_PER_MS - 1) / DL_NS_PER_MS;
}

/* BUSY, or OK for "it may be free", without the write lock: a waiter that looks disturbs nobody. */
static enum dlock_status look_first(struct sqlite_session *session, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_name name;
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = SQLITE_OK;

    name_of(&name, session, req);
    rc = sqlite_name_find(&name);
    if (rc != SQLITE_OK)
        return failed(session, rc, err);
    if (!name.held || sqlite_name_held_by(&name, req->token))
        return DLOCK_OK;
    status = sqlite_db_unmoved(&session->db, err);
    if (status != DLOCK_OK)
        return status;
    tell_busy(&name, grant);
    return DLOCK_BUSY;
}

static int take(struct sqlite_name *name, const struct dlock_request *req,
                struct dlock_grant *grant)
{
    int rc = sqlite_name_take(name, &(struct sqlite_values){
                                        .token = req->token,
                                        .mode = req->mode,
                                        .lease_ns = req->ttl_ms * DL_NS_PER_MS,
                                        .label = req->label != NULL ? req->label : "",
                                    });

    grant->fence = name->fence;
    grant->fence_room = SQ_FENCE_ROOM;
    grant->lease_ms = req->ttl_ms;
    grant->waiters = 0;
    return rc;
}

/* What the token holds already, if anything. */
static int take_up(struct sqlite_name *name, const struct dlock_request *req, int *held,
                   struct dlock_grant *grant)
{
    *held = 0;
    if (sqlite_name_held_by(name, req->token))
        return sqlite_name_extend(name, req, held, grant);
    if (name->readers > 0 && req->mode == DLOCK_SHARED)
        return sqlite_name_extend_shared(name, req, held, grant);
    return SQLITE_OK;
}

static int give_busy(struct sqlite_name *name, const struct dlock_request *req,
                     struct dlock_grant *grant)
{
    int queued = 0;

    tell_busy(name, grant);
    grant->waiters = grant->queue_position = (uint32_t)name->waiters;
    return sqlite_name_queue(name, req, &queued, grant);
}

/* In the transaction. *status is OK or BUSY. */
static int try_inside(struct sqlite_name *name, const struct dlock_request *req,
                      struct dlock_grant *grant, enum dlock_status *status)
{
    int held = 0;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK)
        rc = sqlite_name_settle(name);
    if (rc == SQLITE_OK)
        rc = take_up(name, req, &held, grant);
    if (rc != SQLITE_OK)
        return rc;
    *status = DLOCK_OK;
    if (!held && (req->flags & DLOCK_REQ_REFRESH) == 0 && sqlite_name_open_to(name, req->mode)) {
        rc = take(name, req, grant);
    } else if (!held) {
        *status = DLOCK_BUSY;
        rc = give_busy(name, req, grant);
    }
    return rc == SQLITE_OK ? sqlite_name_save(name) : rc;
}

/* OK or BUSY, and as good as done unless the store says something else. */
static enum dlock_status try_alone(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_slot *slot = req->slot;
    struct sqlite_name name;
    enum dlock_status answer = DLOCK_INTERNAL;
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    name_of(&name, session, req);
    rc = try_inside(&name, req, grant, &answer);
    if (rc != SQLITE_OK)
        status = failed(session, rc, err);
    else if (!name.writes)
        status = sqlite_db_unmoved(&session->db, err);
    if (rc == SQLITE_OK && name.writes)
        status = sqlite_db_commit(&session->db, err);
    else
        sqlite_db_rollback(&session->db);
    if (status != DLOCK_OK)
        return status;
    slot->queued = answer == DLOCK_BUSY && (grant->flags & DLOCK_GRANT_QUEUED) != 0;
    slot->queued_fence = name.fence;
    slot->queued_ns = name.now_ns;
    return answer;
}

enum dlock_status sqlite_lease_try(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_slot *slot = req->slot;
    enum dlock_status status = DLOCK_OK;
    int queues = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;

    if (!queues)
        sqlite_gate_note(&session->db.gate, req->name, req->name_len, &slot->watch);
    if (!queues && slot->tried)
        status = look_first(session, req, grant, err);
    slot->tried = 1;
    return status == DLOCK_OK ? try_alone(session, req, grant, err) : status;
}

/* ---- renewing ---- */

static int extend_either(struct sqlite_name *name, const struct dlock_request *req, int *held,
                         struct dlock_grant *grant)
{
    int shared = req->mode == DLOCK_SHARED;
    int rc = shared ? sqlite_name_extend_shared(name, req, held, grant)
                    : sqlite_name_extend(name, req, held, grant);

    if (rc != SQLITE_OK || *held)
        return rc;
    /* It was downgraded in the meantime, or never upgraded. */
    return shared ? sqlite_name_extend(name, req, held, grant)
                  : sqlite_name_extend_shared(name, req, held, grant);
}

static int downgrade(struct sqlite_name *name, const struct dlock_request *req)
{
    int rc = sqlite_name_find(name);

    if (rc != SQLITE_OK || !sqlite_name_held_by(name, req->token))
        return rc;
    rc = sqlite_name_downgrade(name, req);
    return rc == SQLITE_OK ? sqlite_name_pass_on(name) : rc;
}

/* What the failure of one element does to it; the others go on if the transaction does. *torn: it
 * cannot, this element being done by half. */
static enum dlock_status renew_one(struct sqlite_session *session, struct dlock_lease_op *op,
                                   int *torn, struct dlock_error *err)
{
    struct sqlite_name name;
    int held = 0;
    int rc = SQLITE_OK;

    name_of(&name, session, op->req);
    if ((op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        rc = downgrade(&name, op->req);
    if (rc == SQLITE_OK)
        rc = extend_either(&name, op->req, &held, &op->grant);
    *torn = sqlite3_get_autocommit(session->db.handle) || (rc != SQLITE_OK && name.writes);
    if (rc == SQLITE_MISMATCH && !*torn)
        return DLOCK_LOST;
    if (rc != SQLITE_OK)
        return failed(session, rc, err);
    if (*torn)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_INTERNAL, 0,
                          "%.180s: SQLite ended the transaction by itself", session->place.path);
    return held ? DLOCK_OK : DLOCK_LOST;
}

/* Those that would have been renewed were not. */
static void renewals_undo(struct dlock_lease_op *ops, size_t n, enum dlock_status status)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == DLOCK_OK) {
            ops[i].status = status;
            ops[i].grant.lease_ms = 0;
        }
    }
}

enum dlock_status sqlite_lease_renew(struct sqlite_session *session, struct dlock_lease_op *ops,
                                     size_t n, struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    size_t renewed = 0;
    int torn = 0;

    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        ops[i].status = renew_one(session, &ops[i], &torn, err);
        renewed += ops[i].status == DLOCK_OK;
        if (torn) {
            status = ops[i].status;
            renewals_undo(ops, i, status);
            sqlite_db_rollback(&session->db);
            return status;
        }
    }
    if (renewed == 0) {
        sqlite_db_rollback(&session->db);
        return DLOCK_OK;
    }
    status = sqlite_db_commit(&session->db, err);
    if (status != DLOCK_OK) /* CONFIG: the file was moved, and with it went the leases */
        renewals_undo(ops, n, status == DLOCK_CONFIG ? DLOCK_LOST : status);
    return DLOCK_OK;
}

/* ---- ending ---- */

/* Ends what the token has, and passes it on. */
static int release(struct sqlite_name *name, const unsigned char *token, int *held)
{
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK)
        rc = sqlite_name_end(name, token, held);
    return rc == SQLITE_OK && *held ? sqlite_name_pass_on(name) : rc;
}

/* When nobody waits or reads, one statement does. */
static int release_alone(struct sqlite_name *name, const unsigned char *token, int *held)
{
    int rc = sqlite_name_run(name, SQ_RELEASE, &(struct sqlite_values){.token = token});

    *held = rc == SQLITE_OK && name->changes > 0;
    if (*held)
        sqlite_wakes_add(&name->session->db.wakes, name->bytes, name->len);
    return rc;
}

enum dlock_status sqlite_lease_unlock(struct sqlite_session *session,
                                      const struct dlock_request *req, struct dlock_error *err)
{
    const struct sqlite_slot *slot = req->slot;
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    struct sqlite_name name;
    int held = 0;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    name_of(&name, session, req);
    if (req->mode == DLOCK_EXCLUSIVE && !slot->queued) /* who queued was hardly the last to */
        rc = release_alone(&name, req->token, &held);
    if (rc == SQLITE_OK && !held)
        rc = release(&name, req->token, &held);
    if (rc == SQLITE_MISMATCH && !held) /* whatever it is, it is not ours any more */
        rc = SQLITE_OK;
    if (rc != SQLITE_OK)
        status = failed(session, rc, err);
    else if (!held)
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    if (status != DLOCK_OK) {
        sqlite_db_rollback(&session->db);
        return status;
    }
    status = sqlite_db_commit_release(&session->db, err);
    if (status == DLOCK_CONFIG)
        err->status = status = DLOCK_LOST;
    return status;
}

/* In the transaction. */
static int leave_inside(struct sqlite_name *name, const unsigned char *token)
{
    int held = 0;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK && (name->crowd & SQ_WAITERS) != 0)
        rc = sqlite_name_leave(name, token);
    if (rc == SQLITE_OK)
        rc = sqlite_name_end(name, token, &held);
    return rc == SQLITE_OK && (held || name->writes) ? sqlite_name_pass_on(name) : rc;
}

enum dlock_status sqlite_lease_leave(struct sqlite_session *session,
                                     const struct dlock_request *req, struct dlock_error *err)
{
    struct sqlite_slot *slot = req->slot;
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    struct sqlite_name name;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    name_of(&name, session, req);
    rc = leave_inside(&name, req->token);
    if (rc != SQLITE_OK)
        status = failed(session, rc, err);
    if (rc == SQLITE_OK && name.writes)
        status = sqlite_db_commit_release(&session->db, err);
    else
        sqlite_db_rollback(&session->db);
    if (rc == SQLITE_OK)
        slot->queued = 0;
    return status;
}

/* In the transaction. OK: there is something to commit. */
static enum dlock_status break_inside(struct sqlite_name *name, const char *owner,
                                      struct dlock_error *err)
{
    unsigned char token[DLOCK_TOKEN_SIZE];
    int ended = 0;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK && owner == NULL)
        rc = sqlite_name_end_all(name, &ended);
    else if (rc == SQLITE_OK && sqlite_unhex(token, owner))
        rc = sqlite_name_end(name, token, &ended);
    if (rc == SQLITE_OK && !ended)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner == NULL ? "the name is free" : "not held by this owner");
    if (rc == SQLITE_OK)
        rc = sqlite_name_pass_on(name);
    return rc == SQLITE_OK ? DLOCK_OK : failed(name->session, rc, err);
}

enum dlock_status sqlite_lease_break(struct sqlite_session *session, const unsigned char *name,
                                     uint32_t name_len, const char *owner, struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    struct sqlite_name found;

    if (status != DLOCK_OK)
        return status;
    sqlite_name_init(&found, session, name, name_len);
    status = break_inside(&found, owner, err);
    if (status == DLOCK_OK)
        status = sqlite_db_commit(&session->db, err);
    else
        sqlite_db_rollback(&session->db);
    return status;
}
