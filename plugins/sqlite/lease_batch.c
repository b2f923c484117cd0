/* SPDX-License-Identifier: MIT */
#include "lease_batch.h"
#include "errmap.h"
#include "lease.h"
#include "os_error.h"

#define AT_ONCE 64 /* elements of one transaction; others wait while it lasts */

static void grant_empty(struct dlock_grant *grant)
{
    *grant = (struct dlock_grant){
        .struct_size = grant->struct_size, .waiters = UINT32_MAX, .holder_ms = -1};
}

/* SQLite has ended the transaction by itself. */
static bool is_torn(const struct sqlite_session *session, int rc)
{
    return rc != SQLITE_OK || sqlite3_get_autocommit(session->db.handle);
}

/* What the transaction came to is that of each element. */
static void all_fail(struct dlock_batch_op *const *ops, size_t n, enum dlock_status status,
                     const struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++)
        ops[i]->status = dlock_fail(ops[i]->err, SQ_ORIGIN, status, err->code, "%s", err->message);
}

/* Commits what was written, or checks that what was read is in the file. */
static enum dlock_status finish(struct sqlite_session *session, bool writes,
                                struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (writes)
        return sqlite_db_commit(&session->db, err);
    status = sqlite_db_check_unmoved(&session->db, err);
    sqlite_db_rollback(&session->db);
    return status;
}

/* false: the transaction was undone. */
static bool try_inside_all(struct sqlite_session *session, struct sqlite_name *names,
                           enum dlock_status *answers, struct dlock_batch_op *const *ops, size_t n,
                           bool *writes)
{
    *writes = false;
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i]->req;
        int rc = SQLITE_OK;

        sqlite_name_init(&names[i], session, req->name, req->name_len);
        answers[i] = DLOCK_INTERNAL;
        rc = sqlite_lease_try_inside(&names[i], req, &ops[i]->grant, &answers[i], ops[i]->err);
        *writes = *writes || names[i].writes;
        if (!is_torn(session, rc))
            continue;
        sqlite_db_rollback(&session->db);
        return false;
    }
    return true;
}

static void try_each(struct sqlite_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum dlock_status status;

        grant_empty(&ops[i]->grant);
        status = sqlite_lease_try(session, ops[i]->req, &ops[i]->grant, ops[i]->err);
        ops[i]->status = sqlite_errmap_limit(session->db.handle, status, ops[i]->err);
    }
}

/* In one transaction. */
static void decide(struct sqlite_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct sqlite_name names[AT_ONCE];
    enum dlock_status answers[AT_ONCE], status = DLOCK_OK;
    bool writes = false;

    status = sqlite_db_begin(&session->db, &err);
    if (status == DLOCK_OK && !try_inside_all(session, names, answers, ops, n, &writes)) {
        try_each(session, ops, n);
        return;
    }
    if (status == DLOCK_OK)
        status = finish(session, writes, &err);
    if (status != DLOCK_OK) {
        all_fail(ops, n, sqlite_errmap_limit(session->db.handle, status, &err), &err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = answers[i];
        sqlite_lease_tried(&names[i], ops[i]->req, &ops[i]->grant, answers[i]);
        if (answers[i] == DLOCK_BUSY)
            sqlite_lease_list_waiter(session, ops[i]->req, &ops[i]->grant);
    }
}

/* Only the elements that a poll leaves undecided are in the transaction. */
static void try_some(struct sqlite_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    struct dlock_batch_op *rest[AT_ONCE];
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        struct dlock_batch_op *op = ops[i];
        enum dlock_status status = sqlite_lease_try_begin(session, op->req, &op->grant, op->err);

        if (status == DLOCK_OK) {
            rest[left++] = op;
            continue;
        }
        op->status = sqlite_errmap_limit(session->db.handle, status, op->err);
        if (status == DLOCK_BUSY)
            sqlite_lease_list_waiter(session, op->req, &op->grant);
    }
    if (left > 0)
        decide(session, rest, left);
}

/* false: the transaction was undone. */
static bool unlock_inside_all(struct sqlite_session *session, bool *held,
                              struct dlock_batch_op *const *ops, size_t n, bool *any)
{
    *any = false;
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i]->req;
        struct sqlite_name name;
        int rc = SQLITE_OK;

        sqlite_name_init(&name, session, req->name, req->name_len);
        rc = sqlite_lease_unlock_inside(&name, req, &held[i]);
        *any = *any || held[i];
        if (!is_torn(session, rc))
            continue;
        sqlite_db_rollback(&session->db);
        return false;
    }
    return true;
}

static void unlock_each(struct sqlite_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ops[i]->status = sqlite_lease_unlock(session, ops[i]->req, ops[i]->err);
}

static void unlock_some(struct sqlite_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    bool held[AT_ONCE], any = false;
    enum dlock_status status = sqlite_db_begin(&session->db, &err);

    if (status == DLOCK_OK && !unlock_inside_all(session, held, ops, n, &any)) {
        unlock_each(session, ops, n);
        return;
    }
    if (status == DLOCK_OK && any) {
        status = sqlite_db_commit_end(&session->db, &err);
        if (status == DLOCK_CONFIG) /* the leases are in the file that was moved */
            status = DLOCK_LOST;
    } else if (status == DLOCK_OK) {
        sqlite_db_rollback(&session->db);
    }
    if (status != DLOCK_OK)
        all_fail(ops, n, status, &err);
    for (size_t i = 0; i < n; i++) {
        if (status == DLOCK_OK)
            ops[i]->status = held[i] ? DLOCK_OK
                                     : dlock_fail(ops[i]->err, SQ_ORIGIN, DLOCK_LOST, 0,
                                                  "the name is not held by this token");
        sqlite_lease_unlocked(ops[i]->req, ops[i]->status);
    }
}

static size_t some_of(size_t n, size_t done)
{
    return n - done < AT_ONCE ? n - done : AT_ONCE;
}

enum dlock_status sqlite_lease_batch_try(struct sqlite_session *session,
                                         struct dlock_batch_op *const *ops, size_t n,
                                         struct dlock_error *err)
{
    (void)err;
    for (size_t done = 0; done < n; done += AT_ONCE)
        try_some(session, ops + done, some_of(n, done));
    return DLOCK_OK;
}

enum dlock_status sqlite_lease_batch_unlock(struct sqlite_session *session,
                                            struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err)
{
    (void)err;
    for (size_t done = 0; done < n; done += AT_ONCE)
        unlock_some(session, ops + done, some_of(n, done));
    return DLOCK_OK;
}
