/* SPDX-License-Identifier: MIT */
#include "queue.h"
#include "life.h"

#include <string.h>

#define BATCH 32

struct batch {
    int count, most;
    unsigned char tokens[BATCH][DLOCK_TOKEN_SIZE];
};

/* Copies: the rows change while the leases are ended. */
static int batch_read(struct sqlite_name *name, struct batch *batch)
{
    const struct sqlite_wake_file *file = &name->session->db.wake_file;
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_LIVES, &(struct sqlite_values){0}, &row);

    while (rc == SQLITE_ROW && batch->count < batch->most) {
        const void *token = sqlite3_column_blob(row, 0);

        if (token != NULL &&
            sqlite_life_is_over(file, (const char *)sqlite3_column_text(row, 1), token))
            memcpy(batch->tokens[batch->count++], token, DLOCK_TOKEN_SIZE);
        rc = sqlite_db_step(&name->session->db, SQ_LIVES);
    }
    sqlite_db_reset(&name->session->db, SQ_LIVES);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_queue_find_orphan(struct sqlite_name *name, bool *found)
{
    struct batch batch = {.most = 1};
    int rc = batch_read(name, &batch);

    *found = batch.count > 0;
    return rc;
}

int sqlite_queue_end_orphans(struct sqlite_name *name, bool *ended)
{
    struct batch batch;
    int rc = SQLITE_OK;

    *ended = false;
    if (!name->held && (name->waiters_mask & SQ_SHARES) == 0)
        return SQLITE_OK;
    do {
        bool one = false;

        batch.count = 0;
        batch.most = BATCH;
        rc = batch_read(name, &batch);
        for (int i = 0; rc == SQLITE_OK && i < batch.count; i++)
            rc = sqlite_name_end(name, batch.tokens[i], &one);
        *ended |= batch.count > 0;
        if (*ended) /* waiters without a queue entry */
            sqlite_wake_file_add(&name->session->db.wake_set, name->bytes, name->len);
    } while (rc == SQLITE_OK && batch.count == BATCH);
    return rc;
}

/* The first waiter: a copy, because the row is gone when the statement is reset. */
struct head {
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint32_t mode;
    int64_t lease_ns;
    char label[SQ_LABEL_SIZE];
};

/* Counts, and removes the dead. */
static int reap(struct sqlite_name *name, enum sqlite_statement how_many,
                enum sqlite_statement remove, struct sqlite_count *count)
{
    int rc = sqlite_name_count(name, how_many, count);

    if (rc == SQLITE_OK && count->alive < count->all)
        rc = sqlite_name_run(name, remove, &(struct sqlite_values){0});
    return rc;
}

static int reap_both(struct sqlite_name *name)
{
    struct sqlite_count readers = {0}, waiters = {0};
    int rc = SQLITE_OK;

    if ((name->waiters_mask & SQ_SHARES) != 0)
        rc = reap(name, SQ_READERS_COUNT, SQ_READERS_REAP, &readers);
    if (rc == SQLITE_OK && (name->waiters_mask & SQ_WAITERS) != 0)
        rc = reap(name, SQ_WAITERS_COUNT, SQ_WAITERS_REAP, &waiters);
    name->readers = readers.alive;
    name->limit = readers.limit;
    name->waiters = waiters.alive;
    if (!name->held && readers.alive > 0)
        name->until_ns = readers.until_ns;
    return rc;
}

static int head_read(struct sqlite_name *name, struct head *head)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_WAITERS_HEAD, &(struct sqlite_values){0}, &row);
    const void *token = rc == SQLITE_ROW ? sqlite3_column_blob(row, 0) : NULL;
    const char *label = NULL;

    if (token != NULL && sqlite3_column_bytes(row, 0) == DLOCK_TOKEN_SIZE) {
        memcpy(head->token, token, sizeof head->token);
        head->mode = (uint32_t)sqlite3_column_int64(row, 1);
        head->lease_ns = sqlite3_column_int64(row, 2);
        label = (const char *)sqlite3_column_text(row, 3);
        (void)snprintf(head->label, sizeof head->label, "%s", label != NULL ? label : "");
        rc = SQLITE_OK;
    } else if (rc == SQLITE_ROW || rc == SQLITE_DONE) { /* it was counted just now */
        rc = SQLITE_MISMATCH;
    }
    sqlite_db_reset(&name->session->db, SQ_WAITERS_HEAD);
    return rc;
}

static int grant(struct sqlite_name *name, const struct head *head)
{
    int rc = sqlite_queue_remove(name, head->token);

    if (rc == SQLITE_OK) {
        name->waiters--;
        rc = sqlite_name_take(name, &(struct sqlite_values){
                                        .token = head->token,
                                        .mode = head->mode,
                                        .lease_ns = head->lease_ns,
                                        .label = head->label,
                                    });
    }
    if (rc == SQLITE_OK)
        sqlite_wake_file_add(&name->session->db.wake_set, head->token, sizeof head->token);
    return rc;
}

int sqlite_queue_advance(struct sqlite_name *name)
{
    int rc = reap_both(name);

    while (rc == SQLITE_OK && name->waiters > 0 && !name->held) {
        struct head head = {0};

        rc = head_read(name, &head);
        if (rc == SQLITE_OK &&
            sqlite_life_is_over(&name->session->db.wake_file, head.label, head.token)) {
            rc = sqlite_queue_remove(name, head.token);
            name->waiters--;
            continue;
        }
        if (rc == SQLITE_OK && !sqlite_name_has_room(name, head.mode))
            break;
        if (rc == SQLITE_OK)
            rc = grant(name, &head);
    }
    return rc;
}

static int entry_describe(struct sqlite_name *name, const struct sqlite_values *values,
                          struct dlock_grant *grant)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_WAITER_AHEAD, values, &row);

    if (rc == SQLITE_ROW) {
        grant->flags = DLOCK_GRANT_QUEUED;
        grant->queue_position = (uint32_t)sqlite3_column_int64(row, 0);
        grant->waiters = (uint32_t)(name->waiters - 1);
        grant->fence = name->fence;
        grant->lease_ms = name->session->config.waiter_ttl_ms;
        rc = SQLITE_OK;
    }
    sqlite_db_reset(&name->session->db, SQ_WAITER_AHEAD);
    return rc;
}

bool sqlite_queue_is_marked(struct sqlite_name *name, const struct dlock_request *req)
{
    struct sqlite_session *session = name->session;
    struct sqlite_attempt *attempt = req->attempt;

    if (attempt->life == NULL) {
        attempt->life =
            sqlite_life_begin(&session->db.wake_file, &session->config, req, &session->life);
        memcpy(attempt->life_token, req->token, sizeof attempt->life_token);
    }
    return attempt->life != NULL &&
           memcmp(attempt->life_token, req->token, sizeof attempt->life_token) == 0;
}

void sqlite_queue_label(struct sqlite_name *name, const struct dlock_request *req,
                        char label[SQ_LABEL_SIZE])
{
    const struct sqlite_attempt *attempt = req->attempt;

    sqlite_life_label(label, req, sqlite_queue_is_marked(name, req) ? attempt->life : NULL);
}

int sqlite_queue_wake_first(struct sqlite_name *name)
{
    struct head head = {0};
    int rc = head_read(name, &head);

    if (rc == SQLITE_OK)
        sqlite_wake_file_add(&name->session->db.wake_set, head.token, sizeof head.token);
    return rc == SQLITE_MISMATCH ? SQLITE_OK : rc;
}

static int join(struct sqlite_name *name, const struct dlock_request *req,
                struct sqlite_values *values)
{
    char label[SQ_LABEL_SIZE];
    int rc = SQLITE_INTERNAL;

    sqlite_queue_label(name, req, label);
    values->label = label;
    rc = sqlite_name_run(name, SQ_WAITER_JOIN, values);
    values->label = NULL;
    return rc;
}

int sqlite_queue_enter(struct sqlite_name *name, const struct dlock_request *req, bool *queued,
                       struct dlock_grant *grant)
{
    int64_t entry_ms = name->session->config.waiter_ttl_ms;
    struct sqlite_values values = {
        .token = req->token,
        .mode = sqlite_name_mode(req),
        .until_ns = name->now_ns + entry_ms * DL_NS_PER_MS,
        .lease_ns = sqlite_clock_min(entry_ms, req->ttl_ms) * DL_NS_PER_MS,
    };
    bool may_keep = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;
    bool may_join = may_keep && (req->flags & DLOCK_REQ_REFRESH) == 0;
    int rc = SQLITE_OK;

    *queued = false;
    if (may_keep && name->waiters > 0) {
        rc = sqlite_name_run(name, SQ_WAITER_STAY, &values);
        *queued = rc == SQLITE_OK && name->changes > 0;
    }
    if (rc == SQLITE_OK && !*queued && may_join) {
        rc = join(name, req, &values);
        *queued = rc == SQLITE_OK;
        name->waiters += *queued;
    }
    return rc == SQLITE_OK && *queued ? entry_describe(name, &values, grant) : rc;
}

int sqlite_queue_remove(struct sqlite_name *name, const unsigned char *token)
{
    return sqlite_name_run(name, SQ_WAITER_LEAVE, &(struct sqlite_values){.token = token});
}

int sqlite_queue_pass_on(struct sqlite_name *name)
{
    int rc = sqlite_queue_advance(name);

    if (rc == SQLITE_OK)
        rc = sqlite_name_save(name);
    if (!name->held && name->waiters == 0) /* waiters without a queue entry */
        sqlite_wake_file_add(&name->session->db.wake_set, name->bytes, name->len);
    return rc;
}
