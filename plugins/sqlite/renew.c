/* SPDX-License-Identifier: MIT */
#include "os_error.h"
#include "queue.h"

static int extend_either(struct sqlite_name *name, const struct dlock_request *req, bool *held,
                         struct dlock_grant *grant)
{
    bool shared = sqlite_name_mode(req) != DLOCK_EXCLUSIVE; /* in the table of readers */
    int rc = shared ? sqlite_name_extend_shared(name, req, held, grant)
                    : sqlite_name_extend(name, req, held, grant);

    if (rc != SQLITE_OK || *held)
        return rc;
    /* The lease has the other mode: it was downgraded in the meantime, or the downgrade failed. */
    return shared ? sqlite_name_extend(name, req, held, grant)
                  : sqlite_name_extend_shared(name, req, held, grant);
}

static int downgrade(struct sqlite_name *name, const struct dlock_request *req)
{
    int rc = sqlite_name_find(name);

    if (rc != SQLITE_OK || !sqlite_name_is_held_by(name, req->token))
        return rc;
    rc = sqlite_name_downgrade(name, req);
    return rc == SQLITE_OK ? sqlite_queue_pass_on(name) : rc;
}

/* An attempt that adopted the lease does not hold the lock of life.h: the lease ends with its time.
 */
static int unmark(struct sqlite_name *name, const struct dlock_request *req)
{
    struct sqlite_attempt *attempt = req->attempt;
    struct sqlite_values values = {.token = req->token};
    int rc = SQLITE_OK;

    if (attempt->life != NULL || attempt->unmarked)
        return SQLITE_OK;
    rc = sqlite_name_run(name, SQ_LIVES_NOT, &values);
    if (rc == SQLITE_OK)
        rc = sqlite_name_run(name, SQ_LIVES_NOT_READER, &values);
    return rc;
}

/* A failure of one element ends that element only. *torn: it is half done, so that the transaction
 * cannot go on. */
static enum dlock_status renew_one(struct sqlite_session *session, struct dlock_lease_op *op,
                                   bool *torn, struct dlock_error *err)
{
    struct sqlite_name name;
    bool held = false;
    int rc = SQLITE_OK;

    sqlite_name_init(&name, session, op->req->name, op->req->name_len);
    if ((op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        rc = downgrade(&name, op->req);
    if (rc == SQLITE_OK)
        rc = unmark(&name, op->req);
    if (rc == SQLITE_OK)
        rc = extend_either(&name, op->req, &held, &op->grant);
    if (rc == SQLITE_OK && held && op->grant.waiters > 0)
        rc = sqlite_queue_wake_first(&name);
    *torn = sqlite3_get_autocommit(session->db.handle) || (rc != SQLITE_OK && name.writes);
    if (rc == SQLITE_MISMATCH && !*torn)
        return DLOCK_LOST;
    if (rc != SQLITE_OK)
        return sqlite_db_fail(&session->db, rc, err);
    if (*torn)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_INTERNAL, 0,
                          "%.180s: SQLite ended the transaction by itself", session->config.path);
    return held ? DLOCK_OK : DLOCK_LOST;
}

/* The elements that would have been renewed were not. */
static void renewals_undo(struct dlock_lease_op *const *ops, size_t n, enum dlock_status status)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status == DLOCK_OK) {
            ops[i]->status = status;
            ops[i]->grant.lease_ms = 0;
        }
    }
}

static void unmarked_note(struct dlock_lease_op *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sqlite_attempt *attempt = ops[i]->req->attempt;

        attempt->unmarked = ops[i]->status == DLOCK_OK;
    }
}

enum dlock_status sqlite_renew_leases(struct sqlite_session *session,
                                      struct dlock_lease_op *const *ops, size_t n,
                                      struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    size_t renewed = 0;
    bool torn = false;

    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = renew_one(session, ops[i], &torn, err);
        renewed += ops[i]->status == DLOCK_OK;
        if (torn) {
            status = ops[i]->status;
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
    if (status == DLOCK_OK)
        unmarked_note(ops, n);
    if (status != DLOCK_OK) /* CONFIG: the leases are in the file that was moved */
        renewals_undo(ops, n, status == DLOCK_CONFIG ? DLOCK_LOST : status);
    return DLOCK_OK;
}
