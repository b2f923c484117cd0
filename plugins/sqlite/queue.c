/* SPDX-License-Identifier: MIT */
#include "name.h"

#include <string.h>

/* The first waiter. What a statement shows is gone when it is reset. */
struct head {
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint32_t mode;
    int64_t lease_ns;
    char label[SQ_LABEL_SIZE];
};

struct counts {
    int64_t all, alive, until_ns;
};

static int count(struct sqlite_name *name, enum sqlite_statement which, struct counts *counts)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, which, &(struct sqlite_values){0}, &row);

    if (rc == SQLITE_ROW) {
        counts->all = sqlite3_column_int64(row, 0);
        counts->alive = sqlite3_column_int64(row, 1);
        counts->until_ns = sqlite3_column_int64(row, 2);
        rc = SQLITE_OK;
    }
    sqlite_db_reset(&name->session->db, which);
    return rc;
}

/* Counts, and leaves the living only. */
static int reap(struct sqlite_name *name, enum sqlite_statement how_many,
                enum sqlite_statement remove, struct counts *counts)
{
    int rc = count(name, how_many, counts);

    if (rc == SQLITE_OK && counts->alive < counts->all)
        rc = sqlite_name_run(name, remove, &(struct sqlite_values){0});
    return rc;
}

static int reap_readers(struct sqlite_name *name)
{
    struct counts counts = {0};
    int rc = SQLITE_OK;

    if ((name->crowd & SQ_READERS) != 0)
        rc = reap(name, SQ_READERS_COUNT, SQ_READERS_REAP, &counts);
    name->readers = counts.alive;
    if (!name->held && counts.alive > 0)
        name->until_ns = counts.until_ns;
    return rc;
}

static int reap_waiters(struct sqlite_name *name)
{
    struct counts counts = {0};
    int rc = SQLITE_OK;

    if ((name->crowd & SQ_WAITERS) != 0)
        rc = reap(name, SQ_WAITERS_COUNT, SQ_WAITERS_REAP, &counts);
    name->waiters = counts.alive;
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
        head->mode = sqlite3_column_int64(row, 1) == DLOCK_SHARED ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        head->lease_ns = sqlite3_column_int64(row, 2);
        label = (const char *)sqlite3_column_text(row, 3);
        (void)snprintf(head->label, sizeof head->label, "%s", label != NULL ? label : "");
        rc = SQLITE_OK;
    } else if (rc == SQLITE_ROW || rc == SQLITE_DONE) { /* they were counted just now */
        rc = SQLITE_MISMATCH;
    }
    sqlite_db_reset(&name->session->db, SQ_WAITERS_HEAD);
    return rc;
}

static int grant(struct sqlite_name *name, const struct head *head)
{
    int rc = sqlite_name_leave(name, head->token);

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
        sqlite_wakes_add(&name->session->db.wakes, head->token, sizeof head->token);
    return rc;
}

int sqlite_name_settle(struct sqlite_name *name)
{
    struct head head = {0};
    int rc = reap_readers(name);

    if (rc == SQLITE_OK)
        rc = reap_waiters(name);
    while (rc == SQLITE_OK && name->waiters > 0 && !name->held) {
        rc = head_read(name, &head);
        if (rc == SQLITE_OK && head.mode == DLOCK_EXCLUSIVE && name->readers > 0)
            break;
        if (rc == SQLITE_OK)
            rc = grant(name, &head);
    }
    return rc;
}

int sqlite_name_count(struct sqlite_name *name, struct dlock_grant *grant)
{
    struct counts counts = {0};
    int rc = count(name, SQ_WAITERS_COUNT, &counts);

    grant->waiters = (uint32_t)counts.alive;
    return rc;
}

static int place_keep(struct sqlite_name *name, const struct sqlite_values *values, int *queued)
{
    int rc = sqlite_name_run(name, SQ_WAITER_STAY, values);

    *queued = rc == SQLITE_OK && name->changes > 0;
    return rc;
}

static int place_join(struct sqlite_name *name, const struct sqlite_values *values, int *queued)
{
    int rc = sqlite_name_run(name, SQ_WAITER_JOIN, values);

    *queued = rc == SQLITE_OK;
    name->waiters += *queued;
    return rc;
}

static int place_tell(struct sqlite_name *name, const struct sqlite_values *values,
                      struct dlock_grant *grant)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_WAITER_AHEAD, values, &row);

    if (rc == SQLITE_ROW) {
        grant->flags = DLOCK_GRANT_QUEUED;
        grant->queue_position = (uint32_t)sqlite3_column_int64(row, 0);
        grant->waiters = (uint32_t)(name->waiters - 1);
        grant->fence = name->fence;
        grant->lease_ms = name->session->waiter_lease_ms;
        rc = SQLITE_OK;
    }
    sqlite_db_reset(&name->session->db, SQ_WAITER_AHEAD);
    return rc;
}

int sqlite_name_queue(struct sqlite_name *name, const struct dlock_request *req, int *queued,
                      struct dlock_grant *grant)
{
    int64_t place_ms = name->session->waiter_lease_ms;
    struct sqlite_values values = {
        .token = req->token,
        .mode = req->mode,
        .until_ns = name->now_ns + place_ms * DL_NS_PER_MS,
        .lease_ns = sqlite_lesser(place_ms, req->ttl_ms) * DL_NS_PER_MS,
        .label = req->label != NULL ? req->label : "",
    };
    int may_keep = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;
    int may_join = may_keep && (req->flags & DLOCK_REQ_REFRESH) == 0;
    int rc = SQLITE_OK;

    *queued = 0;
    if (may_keep && name->waiters > 0)
        rc = place_keep(name, &values, queued);
    if (rc == SQLITE_OK && !*queued && may_join)
        rc = place_join(name, &values, queued);
    return rc == SQLITE_OK && *queued ? place_tell(name, &values, grant) : rc;
}

int sqlite_name_leave(struct sqlite_name *name, const unsigned char *token)
{
    return sqlite_name_run(name, SQ_WAITER_LEAVE, &(struct sqlite_values){.token = token});
}

int sqlite_name_pass_on(struct sqlite_name *name)
{
    int rc = sqlite_name_settle(name);

    if (rc == SQLITE_OK)
        rc = sqlite_name_save(name);
    if (!name->held && name->waiters == 0) /* who is not queued may try, too */
        sqlite_wakes_add(&name->session->db.wakes, name->bytes, name->len);
    return rc;
}
