/* SPDX-License-Identifier: MIT */
/* Each function here is one transaction, and decides nothing before it is alone in the file. */
#include "sqlite.h"

#include <string.h>

struct row {
    int found, live;
    uint64_t fence;
    unsigned char token[DLOCK_TOKEN_SIZE]; /* of the holder, while live */
    int64_t until_ns;
};

enum parameter { P_NAME = 1, P_TOKEN, P_BOOT, P_NOW, P_UNTIL, P_FENCE, P_LABEL };

static enum dlock_status failed(struct sqlite_session *session, int rc, struct dlock_error *err)
{
    if (rc == SQLITE_MISMATCH)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, rc,
                          "%.180s: the row of this name was not written by dlock",
                          session->place.path);
    return sqlite_db_fail(err, session->db.handle, &session->place, sqlite_status_of(rc), rc);
}

/* Binds as many of the parameters as the statement has; returns the first failure. */
static int bind_key(struct sqlite_session *session, enum sqlite_statement which,
                    const struct dlock_request *req, int64_t now_ns)
{
    sqlite3_stmt *statement = session->db.statements[which];
    int rc = sqlite3_bind_blob(statement, P_NAME, req->name, (int)req->name_len, SQLITE_STATIC);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(statement, P_TOKEN, req->token, sizeof req->token, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(statement, P_BOOT, session->clock.boot, SQ_BOOT_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, P_NOW, now_ns);
    return rc;
}

/* Foreign values are refused, not interpreted: SQLITE_MISMATCH. */
static int row_read(const struct sqlite_session *session, sqlite3_stmt *statement, int64_t now_ns,
                    struct row *row)
{
    int64_t fence = sqlite3_column_int64(statement, 1);
    const void *token = sqlite3_column_blob(statement, 2);
    const void *boot = sqlite3_column_blob(statement, 3);

    if (fence < 0 || (token != NULL && sqlite3_column_bytes(statement, 2) != DLOCK_TOKEN_SIZE))
        return SQLITE_MISMATCH;
    row->found = 1;
    row->fence = (uint64_t)fence;
    row->until_ns = sqlite3_column_int64(statement, 5);
    if (token == NULL || boot == NULL || row->until_ns <= now_ns ||
        sqlite3_column_bytes(statement, 3) != SQ_BOOT_SIZE ||
        memcmp(boot, session->clock.boot, SQ_BOOT_SIZE) != 0)
        return SQLITE_OK;
    row->live = 1;
    memcpy(row->token, token, sizeof row->token);
    return SQLITE_OK;
}

static int row_find(struct sqlite_session *session, const unsigned char *name, uint32_t name_len,
                    int64_t now_ns, struct row *row)
{
    sqlite3_stmt *statement = session->db.statements[SQ_FIND];
    int rc = sqlite3_bind_blob(statement, P_NAME, name, (int)name_len, SQLITE_STATIC);

    *row = (struct row){0};
    if (rc == SQLITE_OK) {
        rc = sqlite_db_step(&session->db, SQ_FIND);
        if (rc == SQLITE_ROW)
            rc = row_read(session, statement, now_ns, row);
        else if (rc == SQLITE_DONE)
            rc = SQLITE_OK;
    }
    sqlite_db_reset(&session->db, SQ_FIND);
    return rc;
}

static int held_by(const struct row *row, const unsigned char *token)
{
    return row->live && memcmp(row->token, token, sizeof row->token) == 0;
}

static void grant_busy(struct dlock_grant *grant, const struct row *row, int64_t now_ns)
{
    grant->holder_ms = (row->until_ns - now_ns + SQ_NS_PER_MS - 1) / SQ_NS_PER_MS;
}

/* Rounded down: the store keeps the lease for at least what it says. */
static void grant_held(struct dlock_grant *grant, uint64_t fence, int64_t until_ns, int64_t now_ns)
{
    grant->fence = fence;
    grant->lease_ms = (until_ns - now_ns) / SQ_NS_PER_MS;
}

static int64_t lease_end(const struct dlock_request *req, int64_t now_ns)
{
    return now_ns + req->ttl_ms * SQ_NS_PER_MS;
}

/* The wall clock keeps the numbers rising when the file was lost or went back in time. */
static uint64_t fence_after(uint64_t fence)
{
    uint64_t wall = (uint64_t)sqlite_clock_wall_us();

    return fence < wall ? wall : fence + 1;
}

static int row_take(struct sqlite_session *session, const struct dlock_request *req,
                    const struct row *row, int64_t now_ns, struct dlock_grant *grant)
{
    sqlite3_stmt *statement = session->db.statements[SQ_TAKE];
    uint64_t fence = fence_after(row->fence);
    int rc = SQLITE_MISMATCH;

    if (fence <= INT64_MAX)
        rc = bind_key(session, SQ_TAKE, req, now_ns);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, P_UNTIL, lease_end(req, now_ns));
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, P_FENCE, (int64_t)fence);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(statement, P_LABEL, req->label != NULL ? req->label : "", -1,
                               SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite_db_step(&session->db, SQ_TAKE);
    sqlite_db_reset(&session->db, SQ_TAKE);
    grant_held(grant, fence, lease_end(req, now_ns), now_ns);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* SQLITE_OK and *held: whether the token holds the name. */
static int row_extend(struct sqlite_session *session, const struct dlock_request *req,
                      int64_t now_ns, int *held, struct dlock_grant *grant)
{
    sqlite3_stmt *statement = session->db.statements[SQ_EXTEND];
    struct row row = {0};
    int rc = bind_key(session, SQ_EXTEND, req, now_ns);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, P_UNTIL, lease_end(req, now_ns));
    if (rc == SQLITE_OK)
        rc = sqlite_db_step(&session->db, SQ_EXTEND);
    *held = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW)
        rc = row_read(session, statement, now_ns, &row);
    else if (rc == SQLITE_DONE)
        rc = SQLITE_OK;
    sqlite_db_reset(&session->db, SQ_EXTEND);
    if (rc == SQLITE_OK && *held)
        grant_held(grant, row.fence, row.until_ns, now_ns);
    return rc;
}

static int row_release(struct sqlite_session *session, const struct dlock_request *req,
                       int64_t now_ns, int *held)
{
    int rc = bind_key(session, SQ_RELEASE, req, now_ns);

    if (rc == SQLITE_OK)
        rc = sqlite_db_step(&session->db, SQ_RELEASE);
    sqlite_db_reset(&session->db, SQ_RELEASE);
    *held = rc == SQLITE_DONE && sqlite3_changes(session->db.handle) > 0;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* BUSY, or OK for "it may be free", without the write lock: a waiter that looks disturbs nobody. */
static enum dlock_status look_first(struct sqlite_session *session, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    int64_t now_ns = sqlite_clock_now(&session->clock);
    struct row row;
    int rc = row_find(session, req->name, req->name_len, now_ns, &row);
    enum dlock_status status = DLOCK_INTERNAL;

    if (rc != SQLITE_OK)
        return failed(session, rc, err);
    if (!row.live || held_by(&row, req->token))
        return DLOCK_OK;
    status = sqlite_db_unmoved(&session->db, err);
    if (status != DLOCK_OK)
        return status;
    grant_busy(grant, &row, now_ns);
    return DLOCK_BUSY;
}

/* In the transaction. OK: there is something to commit. */
static enum dlock_status try_inside(struct sqlite_session *session, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    int64_t now_ns = sqlite_clock_now(&session->clock);
    enum dlock_status status = DLOCK_INTERNAL;
    struct row row;
    int held = 0;
    int rc = row_find(session, req->name, req->name_len, now_ns, &row);

    if (rc == SQLITE_OK && row.live && !held_by(&row, req->token)) {
        status = sqlite_db_unmoved(&session->db, err);
        if (status != DLOCK_OK)
            return status;
        grant_busy(grant, &row, now_ns);
        return DLOCK_BUSY;
    }
    if (rc == SQLITE_OK && row.live)
        rc = row_extend(session, req, now_ns, &held, grant);
    else if (rc == SQLITE_OK)
        rc = row_take(session, req, &row, now_ns, grant);
    return rc == SQLITE_OK ? DLOCK_OK : failed(session, rc, err);
}

enum dlock_status sqlite_lease_try(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_slot *slot = req->slot;
    enum dlock_status status = DLOCK_OK;

    sqlite_gate_note(&session->db.gate, req->name, req->name_len, &slot->watch);
    if (slot->tried)
        status = look_first(session, req, grant, err);
    slot->tried = 1;
    if (status == DLOCK_OK)
        status = sqlite_db_begin(&session->db, err);
    else
        return status;
    if (status != DLOCK_OK)
        return status;
    status = try_inside(session, req, grant, err);
    if (status == DLOCK_OK)
        return sqlite_db_commit(&session->db, err);
    sqlite_db_rollback(&session->db);
    return status;
}

/* What the failure of one element does to it; the others go on if the transaction does. */
static enum dlock_status renew_one(struct sqlite_session *session, struct dlock_lease_op *op,
                                   struct dlock_error *err)
{
    int held = 0;
    int rc = row_extend(session, op->req, sqlite_clock_now(&session->clock), &held, &op->grant);

    if (rc == SQLITE_MISMATCH)
        return DLOCK_LOST;
    if (rc != SQLITE_OK)
        return failed(session, rc, err);
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

    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        ops[i].status = renew_one(session, &ops[i], err);
        renewed += ops[i].status == DLOCK_OK;
        if (sqlite3_get_autocommit(session->db.handle)) { /* SQLite gave the transaction up */
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

enum dlock_status sqlite_lease_unlock(struct sqlite_session *session,
                                      const struct dlock_request *req, struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    int held = 0;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    rc = row_release(session, req, sqlite_clock_now(&session->clock), &held);
    if (rc != SQLITE_OK)
        status = failed(session, rc, err);
    else if (!held)
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    if (status != DLOCK_OK) {
        sqlite_db_rollback(&session->db);
        return status;
    }
    status = sqlite_db_commit(&session->db, err);
    if (status == DLOCK_CONFIG)
        err->status = status = DLOCK_LOST;
    sqlite_gate_wake(&session->db.gate, req->name, req->name_len);
    return status;
}

/* In the transaction. OK: there is something to commit. */
static enum dlock_status break_inside(struct sqlite_session *session, struct dlock_request *req,
                                      const char *owner, struct dlock_error *err)
{
    int64_t now_ns = sqlite_clock_now(&session->clock);
    char holder[SQ_HEX_SIZE];
    struct row row;
    int held = 0;
    int rc = row_find(session, req->name, req->name_len, now_ns, &row);

    if (rc == SQLITE_OK && !row.live)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOT_HELD, 0, "the name is free");
    sqlite_hex(holder, row.token);
    if (rc == SQLITE_OK && owner != NULL && strcmp(owner, holder) != 0)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOT_HELD, 0, "held by another owner");
    memcpy(req->token, row.token, sizeof req->token);
    if (rc == SQLITE_OK)
        rc = row_release(session, req, now_ns, &held);
    return rc == SQLITE_OK ? DLOCK_OK : failed(session, rc, err);
}

enum dlock_status sqlite_lease_break(struct sqlite_session *session, const unsigned char *name,
                                     uint32_t name_len, const char *owner, struct dlock_error *err)
{
    struct dlock_request req = {.name = name, .name_len = name_len};
    enum dlock_status status = sqlite_db_begin(&session->db, err);

    if (status != DLOCK_OK)
        return status;
    status = break_inside(session, &req, owner, err);
    if (status == DLOCK_OK) {
        status = sqlite_db_commit(&session->db, err);
        sqlite_gate_wake(&session->db.gate, name, name_len);
    } else {
        sqlite_db_rollback(&session->db);
    }
    return status;
}
