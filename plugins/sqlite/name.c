/* SPDX-License-Identifier: MIT */
#include "name.h"

#include <string.h>

#define FENCE_MOST ((uint64_t)INT64_MAX - SQ_FENCE_ROOM)

void sqlite_name_init(struct sqlite_name *name, struct sqlite_session *session,
                      const unsigned char *bytes, uint32_t len)
{
    *name = (struct sqlite_name){
        .session = session,
        .bytes = bytes,
        .len = len,
        .now_ns = sqlite_clock_now(&session->clock),
    };
}

static int parameter_bind(const struct sqlite_name *name, sqlite3_stmt *statement, int parameter,
                          const struct sqlite_values *values)
{
    switch ((enum sqlite_parameter)parameter) {
    case SQ_P_NAME:
        return sqlite3_bind_blob(statement, parameter, name->bytes, (int)name->len, SQLITE_STATIC);
    case SQ_P_TOKEN:
        return sqlite3_bind_blob(statement, parameter, values->token, DLOCK_TOKEN_SIZE,
                                 SQLITE_STATIC);
    case SQ_P_BOOT:
        return sqlite3_bind_blob(statement, parameter, name->session->clock.boot, SQ_BOOT_SIZE,
                                 SQLITE_STATIC);
    case SQ_P_NOW:
        return sqlite3_bind_int64(statement, parameter, name->now_ns);
    case SQ_P_UNTIL:
        return sqlite3_bind_int64(statement, parameter, values->until_ns);
    case SQ_P_FENCE:
        return sqlite3_bind_int64(statement, parameter, (int64_t)values->fence);
    case SQ_P_WAITERS_MASK:
        return sqlite3_bind_int64(statement, parameter, values->waiters_mask);
    case SQ_P_LABEL:
        return sqlite3_bind_text(statement, parameter, values->label, -1, SQLITE_STATIC);
    case SQ_P_MODE:
        return sqlite3_bind_int64(statement, parameter, values->mode);
    case SQ_P_LEASE:
        return sqlite3_bind_int64(statement, parameter, values->lease_ns);
    default:
        return SQLITE_MISUSE;
    }
}

int sqlite_name_ask(struct sqlite_name *name, enum sqlite_statement which,
                    const struct sqlite_values *values, sqlite3_stmt **row)
{
    struct sqlite_db *db = &name->session->db;
    sqlite3_stmt *statement = NULL;
    int rc = sqlite_db_statement(db, which, &statement);
    int count = sqlite3_bind_parameter_count(statement);

    *row = statement;
    for (int i = 1; rc == SQLITE_OK && i <= count; i++)
        rc = parameter_bind(name, statement, i, values);
    return rc == SQLITE_OK ? sqlite_db_step(db, which) : rc;
}

int sqlite_name_run(struct sqlite_name *name, enum sqlite_statement which,
                    const struct sqlite_values *values)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite_name_ask(name, which, values, &statement);

    sqlite_db_reset(&name->session->db, which);
    if (rc != SQLITE_DONE)
        return rc;
    name->changes = sqlite3_changes(name->session->db.handle);
    name->writes |= name->changes > 0;
    return SQLITE_OK;
}

/* Values that dlock does not write are refused. */
static int row_read(struct sqlite_name *name, sqlite3_stmt *row)
{
    int64_t fence = sqlite3_column_int64(row, 0);
    int64_t mask = sqlite3_column_int64(row, 1);
    const void *token = sqlite3_column_blob(row, 2);
    const void *boot = sqlite3_column_blob(row, 3);

    if (fence < 0 || (mask & ~(SQ_SHARES | SQ_WAITERS)) != 0 ||
        (token != NULL && sqlite3_column_bytes(row, 2) != DLOCK_TOKEN_SIZE))
        return SQLITE_MISMATCH;
    name->found = true;
    name->fence = name->stored_fence = (uint64_t)fence;
    name->waiters_mask = name->stored_mask = (unsigned)mask;
    name->until_ns = sqlite3_column_int64(row, 4);
    if (token == NULL || boot == NULL || name->until_ns <= name->now_ns ||
        sqlite3_column_bytes(row, 3) != SQ_BOOT_SIZE ||
        memcmp(boot, name->session->clock.boot, SQ_BOOT_SIZE) != 0)
        return SQLITE_OK;
    name->held = true;
    memcpy(name->token, token, sizeof name->token);
    return SQLITE_OK;
}

int sqlite_name_find(struct sqlite_name *name)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_FIND, &(struct sqlite_values){0}, &row);

    if (rc == SQLITE_ROW)
        rc = row_read(name, row);
    else if (rc == SQLITE_DONE)
        rc = SQLITE_OK;
    sqlite_db_reset(&name->session->db, SQ_FIND);
    return rc;
}

bool sqlite_name_is_held_by(const struct sqlite_name *name, const unsigned char *token)
{
    return name->held && memcmp(name->token, token, sizeof name->token) == 0;
}

bool sqlite_name_has_room(const struct sqlite_name *name, uint32_t mode)
{
    if (mode > DLOCK_SHARED)
        return name->readers < mode;
    return name->readers == 0 || (mode == DLOCK_SHARED && name->limit == 0);
}

bool sqlite_name_is_open_to(const struct sqlite_name *name, uint32_t mode)
{
    return !name->held && name->waiters == 0 && sqlite_name_has_room(name, mode);
}

uint32_t sqlite_name_other_limit(const struct sqlite_name *name, uint32_t mode)
{
    uint32_t wanted = mode > DLOCK_SHARED ? mode : 1;
    uint32_t present = name->limit > 1 ? name->limit : 1;

    return (name->held || name->readers > 0) && present != wanted ? present : 0;
}

/* The wall clock keeps the numbers rising when the file was lost or went back in time. */
static uint64_t fence_after(uint64_t fence)
{
    uint64_t wall = (uint64_t)sqlite_clock_wall_us();
    uint64_t next = fence + 1 + SQ_FENCE_ROOM;

    return next < wall ? wall : next;
}

static unsigned mask_now(const struct sqlite_name *name)
{
    unsigned shares = name->limit > 0 ? SQ_PERMITS : SQ_READERS;

    return (name->readers > 0 ? shares : 0u) | (name->waiters > 0 ? SQ_WAITERS : 0u);
}

/* Writes the whole row. */
static int take_exclusive(struct sqlite_name *name, struct sqlite_values *values)
{
    int rc = SQLITE_INTERNAL;

    values->waiters_mask = mask_now(name);
    rc = sqlite_name_run(name, name->found ? SQ_TAKE : SQ_TAKE_FIRST, values);
    if (rc == SQLITE_OK && name->changes == 0) /* the row was there at sqlite_name_find */
        rc = SQLITE_CORRUPT;
    if (rc != SQLITE_OK)
        return rc;
    name->found = name->held = true;
    name->freed = false;
    name->until_ns = values->until_ns;
    name->stored_fence = name->fence;
    name->waiters_mask = name->stored_mask = values->waiters_mask;
    memcpy(name->token, values->token, sizeof name->token);
    return SQLITE_OK;
}

static int take_shared(struct sqlite_name *name, const struct sqlite_values *values)
{
    int rc = sqlite_name_run(name, SQ_READER_TAKE, values);

    if (rc != SQLITE_OK)
        return rc;
    if (name->readers == 0 || name->until_ns < values->until_ns)
        name->until_ns = values->until_ns;
    name->readers++;
    name->waiters_mask |= SQ_READERS;
    return SQLITE_OK;
}

static int take_permit(struct sqlite_name *name, const struct sqlite_values *values)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_PERMIT_TAKE, values, &row);

    if (rc == SQLITE_ROW) {
        name->permit = (uint32_t)sqlite3_column_int64(row, 0);
        name->writes = true;
        if (name->readers == 0 || name->until_ns > values->until_ns)
            name->until_ns = values->until_ns;
        name->readers++;
        name->limit = values->mode;
        name->waiters_mask |= SQ_PERMITS;
    }
    sqlite_db_reset(&name->session->db, SQ_PERMIT_TAKE);
    if (rc == SQLITE_ROW)
        return name->permit < values->mode ? SQLITE_OK : SQLITE_CORRUPT;
    return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

int sqlite_name_take(struct sqlite_name *name, const struct sqlite_values *values)
{
    struct sqlite_values full = *values;

    full.until_ns = name->now_ns + values->lease_ns;
    full.fence = fence_after(name->fence);
    if (full.fence > FENCE_MOST)
        return SQLITE_MISMATCH;
    name->fence = full.fence;
    if (values->mode > DLOCK_SHARED)
        return take_permit(name, &full);
    return values->mode == DLOCK_SHARED ? take_shared(name, &full) : take_exclusive(name, &full);
}

int sqlite_name_count(struct sqlite_name *name, enum sqlite_statement which,
                      struct sqlite_count *count)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, which, &(struct sqlite_values){0}, &row);

    if (rc == SQLITE_ROW) {
        count->all = sqlite3_column_int64(row, 0);
        count->alive = sqlite3_column_int64(row, 1);
        count->until_ns = sqlite3_column_int64(row, 2);
        count->limit = (uint32_t)sqlite3_column_int64(row, 3);
        rc = SQLITE_OK;
    }
    sqlite_db_reset(&name->session->db, which);
    return rc;
}

/* The store keeps the lease for at least grant->lease_ms, which is never more than the ttl. */
static int extend(struct sqlite_name *name, enum sqlite_statement which,
                  const struct dlock_request *req, bool *held, struct dlock_grant *grant)
{
    struct sqlite_values values = {.token = req->token,
                                   .until_ns = name->now_ns + req->ttl_ms * DL_NS_PER_MS};
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, which, &values, &row);

    *held = rc == SQLITE_ROW;
    if (*held) {
        rc = SQLITE_OK;
        grant->fence = (uint64_t)sqlite3_column_int64(row, 0);
        grant->fence_room = SQ_FENCE_ROOM;
        grant->lease_ms = sqlite_clock_min(
            (sqlite3_column_int64(row, 1) - name->now_ns) / DL_NS_PER_MS, req->ttl_ms);
        name->writes = true;
        if (which == SQ_READER_EXTEND)
            grant->permit = (uint32_t)sqlite3_column_int64(row, 2);
        if (which == SQ_EXTEND)
            name->waiters_mask = (unsigned)sqlite3_column_int64(row, 2);
    } else if (rc == SQLITE_DONE) {
        rc = SQLITE_OK;
    }
    sqlite_db_reset(&name->session->db, which);
    return rc;
}

static int grant_count(struct sqlite_name *name, struct dlock_grant *grant)
{
    struct sqlite_count count = {0};
    int rc = sqlite_name_count(name, SQ_WAITERS_COUNT, &count);

    grant->waiters = (uint32_t)count.alive;
    return rc;
}

int sqlite_name_extend(struct sqlite_name *name, const struct dlock_request *req, bool *held,
                       struct dlock_grant *grant)
{
    int rc = extend(name, SQ_EXTEND, req, held, grant);

    if (rc != SQLITE_OK || !*held)
        return rc;
    grant->waiters = 0;
    return (name->waiters_mask & SQ_WAITERS) != 0 ? grant_count(name, grant) : SQLITE_OK;
}

int sqlite_name_extend_shared(struct sqlite_name *name, const struct dlock_request *req, bool *held,
                              struct dlock_grant *grant)
{
    int rc = extend(name, SQ_READER_EXTEND, req, held, grant);

    return rc == SQLITE_OK && *held ? grant_count(name, grant) : rc;
}

int sqlite_name_downgrade(struct sqlite_name *name, const struct dlock_request *req)
{
    int rc = sqlite_name_run(name, SQ_READER_KEEP,
                             &(struct sqlite_values){
                                 .token = req->token,
                                 .until_ns = name->now_ns + req->ttl_ms * DL_NS_PER_MS,
                             });

    name->held = false;
    name->freed = true;
    name->waiters_mask |= SQ_READERS;
    return rc;
}

int sqlite_name_keep(struct sqlite_name *name, const unsigned char *token, int64_t until_ns,
                     bool *ended)
{
    struct sqlite_values values = {.token = token, .until_ns = until_ns};
    bool exclusive = sqlite_name_is_held_by(name, token);
    int rc = sqlite_name_run(name, exclusive ? SQ_LOCK_KEEP : SQ_PERMIT_KEEP, &values);

    *ended = rc == SQLITE_OK && name->changes > 0;
    if (*ended && exclusive) {
        name->held = false;
        name->freed = true;
    }
    if (*ended)
        name->waiters_mask |= SQ_PERMITS;
    return rc;
}

int sqlite_name_end(struct sqlite_name *name, const unsigned char *token, bool *ended)
{
    int rc = SQLITE_OK;

    *ended = name->held && (token == NULL || sqlite_name_is_held_by(name, token));
    if (*ended) {
        name->held = false;
        name->freed = true;
    }
    if ((name->waiters_mask & SQ_SHARES) != 0 && (token == NULL || !*ended)) {
        rc = sqlite_name_run(name, token != NULL ? SQ_READER_RELEASE : SQ_READERS_END,
                             &(struct sqlite_values){.token = token});
        *ended |= rc == SQLITE_OK && name->changes > 0;
    }
    return rc;
}

int sqlite_name_save(struct sqlite_name *name)
{
    struct sqlite_values values = {.fence = name->fence, .waiters_mask = mask_now(name)};

    if (!name->freed && values.waiters_mask == name->stored_mask &&
        values.fence == name->stored_fence)
        return SQLITE_OK;
    return sqlite_name_run(name, name->freed ? SQ_FREE : SQ_MARK, &values);
}
