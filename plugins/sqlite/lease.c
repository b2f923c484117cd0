/* SPDX-License-Identifier: MIT */
#include "errmap.h"
#include "lib/text.h"
#include "os_error.h"
#include "queue.h"
#include "watch.h"

/* Each function here is one transaction, and decides nothing before it is alone in the file. */

static void busy_describe(const struct sqlite_name *name, struct dlock_grant *grant)
{
    if ((name->held || name->readers > 0) && !sqlite_name_is_endless(name->until_ns - name->now_ns))
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
    rc = sqlite_queue_find_orphan(&name, &is_orphan);
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

/* In the transaction. *status is OK, BUSY or, with err, CONFIG. Returns the code of SQLite; after
 * another one than SQLITE_OK the transaction has to be undone. */
static int try_inside(struct sqlite_name *name, const struct dlock_request *req,
                      struct dlock_grant *grant, enum dlock_status *status, struct dlock_error *err)
{
    uint32_t mode = sqlite_name_mode(req), other = 0;
    bool held = false, had_orphans = false;
    int rc = sqlite_name_find(name);

    if (rc == SQLITE_OK && !sqlite_name_is_held_by(name, req->token))
        rc = sqlite_queue_end_orphans(name, &had_orphans);
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
        *status =
            dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, other, req->limit);
    } else if (!held && req->ttl_ms == DLOCK_TTL_NONE && !sqlite_queue_is_marked(name, req)) {
        *status = dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                             "ttl=none: the file beside %.150s cannot show whether this process "
                             "lives (is it writable, are there fewer than %d locks?); use a ttl",
                             name->session->config.path, SQ_LIVES_MOST);
    } else if (!held && (req->flags & DLOCK_REQ_REFRESH) == 0 &&
               sqlite_name_is_open_to(name, mode)) {
        rc = take(name, req, grant);
    } else if (!held) {
        *status = DLOCK_BUSY;
        rc = refuse(name, req, grant);
    }
    return rc == SQLITE_OK ? sqlite_name_save(name) : rc;
}

/* After the transaction, if answer is the answer. */
static void after_try(const struct sqlite_name *name, const struct dlock_request *req,
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
    rc = try_inside(&name, req, grant, &answer, err);
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
    after_try(&name, req, grant, answer);
    return answer;
}

/* After BUSY. */
static void list_waiter(struct sqlite_session *session, const struct dlock_request *req,
                        struct dlock_grant *grant)
{
    struct sqlite_attempt *attempt = req->attempt;
    uint32_t number = req->waiter;

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
    else if (req->waiter != 0)
        sqlite_wake_file_note(&session->db.wake_file, req->token, DLOCK_TOKEN_SIZE,
                              &attempt->waiter);
}

/* Before the transaction: what happens from now on is told. BUSY: nothing can be taken, which
 * needed no write lock. OK: a transaction has to decide. Or a failure. */
static enum dlock_status try_begin(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_attempt *attempt = req->attempt;
    bool queues = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;
    bool polls = !queues && attempt->tried && req->limit == 1;

    note(session, req, queues);
    attempt->tried = true;
    return polls ? poll(session, req, grant, err) : DLOCK_OK;
}

enum dlock_status sqlite_lease_try(struct sqlite_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = try_begin(session, req, grant, err);

    if (status == DLOCK_OK)
        status = try_in_transaction(session, req, grant, err);
    if (status == DLOCK_BUSY)
        list_waiter(session, req, grant);
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

/* *held: the token held it, and does no longer. */
static int unlock_inside(struct sqlite_name *name, const struct dlock_request *req, bool *held)
{
    const struct sqlite_attempt *attempt = req->attempt;
    int64_t keep_ms = req->keep_ms;
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
    rc = unlock_inside(&name, req, &held);
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

/* A lease that is still to be kept does not end with this call [UNL-4]. */
static void after_unlock(const struct dlock_request *req, enum dlock_status status)
{
    if (req->keep_ms == 0 || status == DLOCK_OK || status == DLOCK_LOST)
        sqlite_lease_forget(req);
}

enum dlock_status sqlite_lease_unlock(struct sqlite_session *session,
                                      const struct dlock_request *req, struct dlock_error *err)
{
    enum dlock_status status = unlock(session, req, err);

    after_unlock(req, status);
    return status;
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

enum dlock_status sqlite_lease_renew(struct sqlite_session *session,
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
        rc = try_inside(&names[i], req, &ops[i]->grant, &answers[i], ops[i]->err);
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
        after_try(&names[i], ops[i]->req, &ops[i]->grant, answers[i]);
        if (answers[i] == DLOCK_BUSY)
            list_waiter(session, ops[i]->req, &ops[i]->grant);
    }
}

/* Only the elements that a poll leaves undecided are in the transaction. */
static void try_some(struct sqlite_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    struct dlock_batch_op *rest[AT_ONCE];
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        struct dlock_batch_op *op = ops[i];
        enum dlock_status status = try_begin(session, op->req, &op->grant, op->err);

        if (status == DLOCK_OK) {
            rest[left++] = op;
            continue;
        }
        op->status = sqlite_errmap_limit(session->db.handle, status, op->err);
        if (status == DLOCK_BUSY)
            list_waiter(session, op->req, &op->grant);
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
        rc = unlock_inside(&name, req, &held[i]);
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
        after_unlock(ops[i]->req, ops[i]->status);
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
