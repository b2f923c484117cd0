/* SPDX-License-Identifier: MIT */
/* Each function here is one transaction, and decides nothing before it is alone in the file. */
#include "lease.h"
#include "lib/hex.h"
#include "orphan.h"
#include "os_error.h"
#include "queue.h"
#include "wait_list.h"

static void busy_describe(const struct sqlite_name *name, struct dlock_grant *grant)
{
    if (name->held || name->readers > 0)
        grant->holder_ms = (name->until_ns - name->now_ns + DL_NS_PER_MS - 1) / DL_NS_PER_MS;
}

/* BUSY, or OK for "it may be free". It takes no write lock, so that polling disturbs nobody. */
static enum dlock_status poll(struct sqlite_session *session, const struct dlock_request *req,
                              struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_name name;
    enum dlock_status status = DLOCK_INTERNAL;
    bool is_orphan = false;
    int rc = SQLITE_OK;

    sqlite_name_init(&name, session, req->name, req->name_len);
    rc = sqlite_name_find(&name);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(&session->db, rc, err);
    if (!name.held || sqlite_name_is_held_by(&name, req->token))
        return DLOCK_OK;
    rc = sqlite_orphan_find(&name, &is_orphan);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(&session->db, rc, err);
    if (is_orphan)
        return DLOCK_OK;
    status = sqlite_db_check_unmoved(&session->db, err);
    if (status != DLOCK_OK)
        return status;
    busy_describe(&name, grant);
    return DLOCK_BUSY;
}

static int take(struct sqlite_name *name, const struct dlock_request *req,
                struct dlock_grant *grant)
{
    char label[SQ_LABEL_SIZE];
    int rc = SQLITE_INTERNAL;

    sqlite_queue_label(name, req, label);
    rc = sqlite_name_take(name, &(struct sqlite_values){
                                    .token = req->token,
                                    .mode = sqlite_name_mode(req),
                                    .lease_ns = req->ttl_ms * DL_NS_PER_MS,
                                    .label = label,
                                });

    grant->fence = name->fence;
    grant->fence_room = SQ_FENCE_ROOM;
    grant->lease_ms = req->ttl_ms;
    grant->waiters = 0;
    if (DLOCK_HAS(grant, permit))
        grant->permit = name->permit;
    return rc;
}

/* Extends what the token holds already, if anything. */
static int extend_own(struct sqlite_name *name, const struct dlock_request *req, bool *held,
                      struct dlock_grant *grant)
{
    *held = false;
    if (sqlite_name_is_held_by(name, req->token))
        return sqlite_name_extend(name, req, held, grant);
    if (name->readers > 0 && sqlite_name_mode(req) != DLOCK_EXCLUSIVE)
        return sqlite_name_extend_shared(name, req, held, grant);
    return SQLITE_OK;
}

static int refuse(struct sqlite_name *name, const struct dlock_request *req,
                  struct dlock_grant *grant)
{
    bool queued = false;

    busy_describe(name, grant);
    grant->waiters = grant->queue_position = (uint32_t)name->waiters;
    return sqlite_queue_enter(name, req, &queued, grant);
}

int sqlite_lease_try_inside(struct sqlite_name *name, const struct dlock_request *req,
                            struct dlock_grant *grant, enum dlock_status *status,
                            struct dlock_error *err)
{
    uint32_t mode = sqlite_name_mode(req), other = 0;
    bool held = false, had_orphans = false;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK && !sqlite_name_is_held_by(name, req->token))
        rc = sqlite_orphan_end(name, &had_orphans);
    if (rc == SQLITE_OK)
        rc = sqlite_queue_advance(name);
    if (rc == SQLITE_OK)
        rc = extend_own(name, req, &held, grant);
    if (rc != SQLITE_OK)
        return rc;
    if (had_orphans && name->waiters > 0)
        rc = sqlite_queue_wake_first(name);
    if (rc != SQLITE_OK)
        return rc;
    *status = DLOCK_OK;
    other = held ? 0 : sqlite_name_other_limit(name, mode);
    if (other != 0) {
        *status = dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, other,
                             dlock_request_limit(req));
    } else if (!held && (req->flags & DLOCK_REQ_REFRESH) == 0 &&
               sqlite_name_is_open_to(name, mode)) {
        rc = take(name, req, grant);
    } else if (!held) {
        *status = DLOCK_BUSY;
        rc = refuse(name, req, grant);
    }
    return rc == SQLITE_OK ? sqlite_name_save(name) : rc;
}

void sqlite_lease_tried(const struct sqlite_name *name, const struct dlock_request *req,
                        const struct dlock_grant *grant, enum dlock_status answer)
{
    struct sqlite_attempt *attempt = req->attempt;

    attempt->queued = answer == DLOCK_BUSY && (grant->flags & DLOCK_GRANT_QUEUED) != 0;
    attempt->first = attempt->queued && grant->queue_position == 0;
    attempt->queued_fence = name->fence;
    attempt->queued_ns = name->now_ns;
}

static enum dlock_status try_in_transaction(struct sqlite_session *session,
                                            const struct dlock_request *req,
                                            struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_name name;
    enum dlock_status answer = DLOCK_INTERNAL;
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    sqlite_name_init(&name, session, req->name, req->name_len);
    rc = sqlite_lease_try_inside(&name, req, grant, &answer, err);
    if (rc != SQLITE_OK)
        status = sqlite_db_fail(&session->db, rc, err);
    else if (!name.writes)
        status = sqlite_db_check_unmoved(&session->db, err);
    if (rc == SQLITE_OK && name.writes)
        status = sqlite_db_commit(&session->db, err);
    else
        sqlite_db_rollback(&session->db);
    if (status != DLOCK_OK)
        return status;
    sqlite_lease_tried(&name, req, grant, answer);
    return answer;
}

void sqlite_lease_list_waiter(struct sqlite_session *session, const struct dlock_request *req,
                              struct dlock_grant *grant)
{
    struct sqlite_attempt *attempt = req->attempt;
    uint32_t number = dlock_request_waiter(req);

    if (number == 0)
        return;
    if (atomic_load(&attempt->waiter.noted))
        sqlite_wait_list_add(session->wait_list, &attempt->waiter, number);
    else
        grant->flags |= DLOCK_GRANT_UNREPORTED;
}

/* What happens from now on is told. */
static void note(struct sqlite_session *session, const struct dlock_request *req, bool queues)
{
    struct sqlite_attempt *attempt = req->attempt;

    sqlite_wait_list_remove(&attempt->waiter); /* [ANY-2] */
    if (!queues)
        sqlite_wake_file_note(&session->db.wake_file, req->name, req->name_len, &attempt->waiter);
    else if (dlock_request_waiter(req) != 0)
        sqlite_wake_file_note(&session->db.wake_file, req->token, DLOCK_TOKEN_SIZE,
                              &attempt->waiter);
}

enum dlock_status sqlite_lease_try_begin(struct sqlite_session *session,
                                         const struct dlock_request *req, struct dlock_grant *grant,
                                         struct dlock_error *err)
{
    struct sqlite_attempt *attempt = req->attempt;
    bool queues = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;
    bool polls = !queues && attempt->tried && dlock_request_limit(req) == 1;

    note(session, req, queues);
    attempt->tried = true;
    return polls ? poll(session, req, grant, err) : DLOCK_OK;
}

enum dlock_status sqlite_lease_try(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = sqlite_lease_try_begin(session, req, grant, err);

    if (status == DLOCK_OK)
        status = try_in_transaction(session, req, grant, err);
    if (status == DLOCK_BUSY)
        sqlite_lease_list_waiter(session, req, grant);
    return status;
}

/* Ends the token's lease, and passes the name on; with keep_ms, keeps it before. */
static int release(struct sqlite_name *name, const unsigned char *token, int64_t keep_ms,
                   bool *held)
{
    int64_t until_ns = name->now_ns + keep_ms * DL_NS_PER_MS;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK)
        rc = keep_ms > 0 ? sqlite_name_keep(name, token, until_ns, held)
                         : sqlite_name_end(name, token, held);
    return rc == SQLITE_OK && *held ? sqlite_queue_pass_on(name) : rc;
}

/* One statement is enough if nobody waits or reads. */
static int release_alone(struct sqlite_name *name, const unsigned char *token, bool *held)
{
    int rc = sqlite_name_run(name, SQ_RELEASE, &(struct sqlite_values){.token = token});

    *held = rc == SQLITE_OK && name->changes > 0;
    if (*held)
        sqlite_wake_file_add(&name->session->db.wake_set, name->bytes, name->len);
    return rc;
}

int sqlite_lease_unlock_inside(struct sqlite_name *name, const struct dlock_request *req,
                               bool *held)
{
    const struct sqlite_attempt *attempt = req->attempt;
    int64_t keep_ms = dlock_request_keep_ms(req);
    int rc = SQLITE_OK;

    *held = false;
    if (sqlite_name_mode(req) == DLOCK_EXCLUSIVE && keep_ms == 0 &&
        !attempt->queued) /* a name that had a queue probably has one */
        rc = release_alone(name, req->token, held);
    if (rc == SQLITE_OK && !*held)
        rc = release(name, req->token, keep_ms, held);
    /* The lease is gone in any case. */
    return rc == SQLITE_MISMATCH && !*held ? SQLITE_OK : rc;
}

static enum dlock_status unlock(struct sqlite_session *session, const struct dlock_request *req,
                                struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    struct sqlite_name name;
    bool held = false;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    sqlite_name_init(&name, session, req->name, req->name_len);
    rc = sqlite_lease_unlock_inside(&name, req, &held);
    if (rc != SQLITE_OK)
        status = sqlite_db_fail(&session->db, rc, err);
    else if (!held)
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    if (status != DLOCK_OK) {
        sqlite_db_rollback(&session->db);
        return status;
    }
    status = sqlite_db_commit_end(&session->db, err);
    if (status == DLOCK_CONFIG)
        err->status = status = DLOCK_LOST;
    return status;
}

enum dlock_status sqlite_lease_unlock(struct sqlite_session *session,
                                      const struct dlock_request *req, struct dlock_error *err)
{
    enum dlock_status status = unlock(session, req, err);

    sqlite_lease_unlocked(req, status);
    return status;
}

/* A lease that is still to be kept does not end with this call [UNL-4]. */
void sqlite_lease_unlocked(const struct dlock_request *req, enum dlock_status status)
{
    if (dlock_request_keep_ms(req) == 0 || status == DLOCK_OK || status == DLOCK_LOST)
        sqlite_lease_forget(req);
}

void sqlite_lease_forget(const struct dlock_request *req)
{
    struct sqlite_attempt *attempt = req->attempt;

    sqlite_wait_list_remove(&attempt->waiter);
    sqlite_life_end(attempt->life, attempt->life_token);
    attempt->life = NULL;
}

/* In the transaction. */
static int dequeue_inside(struct sqlite_name *name, const unsigned char *token)
{
    bool held = false;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK && (name->waiters_mask & SQ_WAITERS) != 0)
        rc = sqlite_queue_remove(name, token);
    if (rc == SQLITE_OK)
        rc = sqlite_name_end(name, token, &held);
    return rc == SQLITE_OK && (held || name->writes) ? sqlite_queue_pass_on(name) : rc;
}

enum dlock_status sqlite_lease_dequeue(struct sqlite_session *session,
                                       const struct dlock_request *req, struct dlock_error *err)
{
    struct sqlite_attempt *attempt = req->attempt;
    enum dlock_status status = sqlite_db_begin(&session->db, err);
    struct sqlite_name name;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    sqlite_name_init(&name, session, req->name, req->name_len);
    rc = dequeue_inside(&name, req->token);
    if (rc != SQLITE_OK)
        status = sqlite_db_fail(&session->db, rc, err);
    if (rc == SQLITE_OK && name.writes)
        status = sqlite_db_commit_end(&session->db, err);
    else
        sqlite_db_rollback(&session->db);
    if (rc == SQLITE_OK)
        attempt->queued = false;
    return status;
}

/* In the transaction. OK: there is something to commit. */
static enum dlock_status break_inside(struct sqlite_name *name, const char *owner,
                                      struct dlock_error *err)
{
    unsigned char token[DLOCK_TOKEN_SIZE];
    bool ended = false;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK && (owner == NULL || dl_hex_decode(token, DLOCK_TOKEN_SIZE, owner)))
        rc = sqlite_name_end(name, owner != NULL ? token : NULL, &ended);
    if (rc == SQLITE_OK && !ended)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner == NULL ? "the name is free" : "not held by this owner");
    if (rc == SQLITE_OK)
        rc = sqlite_queue_pass_on(name);
    return rc == SQLITE_OK ? DLOCK_OK : sqlite_db_fail(&name->session->db, rc, err);
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
