/* SPDX-License-Identifier: MIT */
#include "row_shared.h"

#include "query.h"
#include "row_queue.h"
#include "schema.h"

/* ---- what holders publish ---- */

#define REAP_EVERY_NS (60 * DL_NS_PER_S)
#define REAP_MOST_NS  (500 * DL_NS_PER_MS)

bool my_row_data_is(const struct my_connection *conn)
{
    return conn->input.data_len > 0;
}

enum dlock_status my_row_data_put(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!my_row_data_is(conn))
        return DLOCK_OK;
    status = my_statements_run(conn, MY_DATA_PUT, err);
    if (status == DLOCK_UNKNOWN) /* of the name nothing was asked */
        return err->status = DLOCK_UNAVAILABLE;
    return status;
}

void my_row_data_remove(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!conn->dead)
        (void)my_statements_run(conn, MY_DATA_REMOVE, &ignored);
}

void my_row_data_reap(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    const int64_t now_ns = my_connection_now(conn);
    const int64_t reaped_ns = atomic_load(&conn->tables->reaped_ns);
    enum dlock_status status = DLOCK_INTERNAL;

    if (!my_row_data_is(conn) || conn->dead ||
        (reaped_ns != 0 && now_ns - reaped_ns < REAP_EVERY_NS))
        return;
    atomic_store(&conn->tables->reaped_ns, now_ns);
    conn->deadline_ns = my_connection_exchange_until(conn, conn->deadline_ns, REAP_MOST_NS);
    status = my_statements_run(conn, MY_DATA_REAP, &ignored);
    if (my_schema_is_hidden(status, &ignored))
        (void)my_statements_run(conn, MY_DATA_REAP_FEW, &ignored);
}

/*
 * ---- the guard ----
 *
 * A change of readers or permits begins with a lock on the row of the name. A contender that comes
 * during the change waits for the row, and then finds what was committed.
 */

/* MY_GUARD or MY_GUARD_NOW. OK: inside a transaction; *found: with the row of the name locked and
 * in conn->row. */
static enum dlock_status guard_begin(struct my_connection *conn, enum my_statement which,
                                     bool *found, struct dlock_error *err)
{
    enum dlock_status status = my_query_begin(conn, err);

    *found = false;
    if (status == DLOCK_OK)
        status = my_statements_row(conn, which, found, err);
    if (status != DLOCK_OK)
        my_query_rollback(conn);
    return status;
}

/* guard_begin for a name that may be new: OK means found. */
static enum dlock_status guard_begin_any(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard_begin(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK || found)
        return status;
    my_query_rollback(conn);
    if (conn->dead)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: the transaction did not end",
                          conn->config->endpoint);
    status = my_statements_run(conn, MY_ENSURE, err);
    if (status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE; /* a free row, or none */
    if (status == DLOCK_OK)
        status = guard_begin(conn, MY_GUARD, &found, err);
    if (status == DLOCK_OK && !found) {
        my_query_rollback(conn);
        status = DLOCK_BUSY; /* removed already by another client */
    }
    return status;
}

/* Ends the change: with `update`, which stores in the row what contenders read there, and a commit
 * if status is OK, else with a rollback. */
static enum dlock_status guard_end(struct my_connection *conn, enum dlock_status status,
                                   enum my_statement update, struct dlock_error *err)
{
    if (status == DLOCK_OK)
        status = my_statements_run(conn, update, err);
    if (status == DLOCK_OK && conn->config->strategy == MY_INSERT)
        status = my_statements_run(conn, MY_SWEEP, err);
    if (status == DLOCK_OK)
        return my_query_commit(conn, err);
    my_query_rollback(conn);
    return status;
}

/*
 * ---- readers ----
 *
 * MY_READERS_UPDATE stores last until when readers hold the name, so that an exclusive contender
 * reads this one row only.
 */

static enum dlock_status readers_end(struct my_connection *conn, enum dlock_status status,
                                     struct dlock_error *err)
{
    return guard_end(conn, status, MY_READERS_UPDATE, err);
}

/* The row of the guard: an exclusive holder, permits, or a waiter for whom it is reserved. */
static enum dlock_status reader_check(struct my_connection *conn, struct dlock_grant *grant,
                                      struct dlock_error *err)
{
    const long long *number = conn->row.number;

    if (number[MY_GUARD_LEFT_US] > 0)
        grant->holder_ms = number[MY_GUARD_LEFT_US] / MY_US_PER_MS + 1;
    if (number[MY_GUARD_HAS_PERMITS] != 0)
        return my_row_permit_refuse(conn, err);
    return number[MY_GUARD_LEFT_US] > 0 || number[MY_GUARD_MAY_TAKE] == 0 ? DLOCK_BUSY : DLOCK_OK;
}

enum dlock_status my_row_reader_try(struct my_connection *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    enum dlock_status status = guard_begin_any(conn, err);
    uint64_t fence = 0;

    if (status != DLOCK_OK)
        return my_connection_contended(status, err);
    fence = (uint64_t)conn->row.number[MY_GUARD_FENCE];
    status = reader_check(conn, grant, err);
    if (status != DLOCK_OK) {
        my_query_rollback(conn);
        return my_connection_contended(status, err);
    }
    grant->fence = fence;
    grant->lease_ms = req->ttl_ms;
    status = my_statements_run(conn, MY_READER_REAP, err); /* of the dead */
    if (status == DLOCK_OK)
        status = my_statements_run(conn, MY_READER_ADD, err);
    if (status == DLOCK_OK)
        status = my_row_data_put(conn, err);
    if (status == DLOCK_OK && my_queue_is_head(slot->queue))
        status = my_statements_run(conn, MY_UNRESERVE, err);
    return my_connection_contended(readers_end(conn, status, err), err);
}

/* By the row of guard: it is held exclusively by us, and the lease has not ended. */
static bool is_ours(const struct my_connection *conn)
{
    return conn->row.number[MY_GUARD_IS_OURS] != 0 && conn->row.number[MY_GUARD_LEFT_US] > 0;
}

/* What was exclusive becomes shared. */
static enum dlock_status step_down(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!is_ours(conn))
        return DLOCK_LOST;
    status = my_statements_run(conn, MY_READER_REAP, err);
    if (status == DLOCK_OK)
        status = my_statements_run(conn, MY_READER_STEP_DOWN, err);
    return status == DLOCK_OK ? my_statements_run(conn, MY_STEP_DOWN, err) : status;
}

static enum dlock_status extend(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = my_statements_run(conn, MY_READER_EXTEND, err);

    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

enum dlock_status my_row_reader_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                      bool at_once, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard_begin(conn, at_once ? MY_GUARD_NOW : MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    status = found ? extend(conn, err) : DLOCK_LOST;
    if (status == DLOCK_LOST && found && (op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        status = step_down(conn, err);
    status = readers_end(conn, status, err);
    if (status == DLOCK_OK)
        my_queue_dequeue(op->req);
    return status;
}

enum dlock_status my_row_reader_unlock(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard_begin(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    status = found ? my_statements_run(conn, MY_READER_REMOVE, err) : DLOCK_LOST;
    if (status == DLOCK_OK && conn->affected == 0) /* a downgrade that never arrived */
        status = is_ours(conn) ? my_statements_run(conn, MY_STEP_DOWN, err) : DLOCK_LOST;
    return readers_end(conn, status, err);
}

enum dlock_status my_row_reader_break(struct my_connection *conn, uint64_t *count,
                                      struct dlock_error *err)
{
    const enum my_statement which = conn->input.number == 0 ? MY_READER_REMOVE : MY_READER_BREAK;
    bool found = false;
    enum dlock_status status = guard_begin(conn, MY_GUARD, &found, err);

    *count = 0;
    if (status != DLOCK_OK)
        return status;
    if (found)
        status = my_statements_run(conn, which, err);
    if (found && status == DLOCK_OK)
        *count = conn->affected;
    return readers_end(conn, status, err);
}

/* ---- permits ---- */

#define PERMITS_MOST 1000 /* DLOCK_LIMIT_MAX of dlock.h */

/* What MY_PERMIT_LIST reads, in conn->row.number. */
enum { IS_OURS, LIMIT, PERMIT, LEFT_US, FENCE };

/* The permits of a name. */
struct permits {
    bool taken[PERMITS_MOST];
    uint32_t count;
    uint32_t other_limit;  /* of a permit that is not of this limit; 0: none */
    int64_t first_left_us; /* of the permit that ends first */
    bool has_own;          /* the token holds one already */
    uint32_t own;
    uint64_t own_fence;
};

static void permit_add(struct permits *permits, const struct my_row *row, uint32_t limit)
{
    const uint32_t permit = (uint32_t)row->number[PERMIT];

    if (row->number[LIMIT] != limit) {
        permits->other_limit = (uint32_t)row->number[LIMIT];
        return;
    }
    if (permit < PERMITS_MOST)
        permits->taken[permit] = true;
    if (permits->count == 0 || row->number[LEFT_US] < permits->first_left_us)
        permits->first_left_us = row->number[LEFT_US];
    permits->count++;
    if (row->number[IS_OURS] != 0) {
        permits->has_own = true;
        permits->own = permit;
        permits->own_fence = (uint64_t)row->number[FENCE];
    }
}

static enum dlock_status permits_read(struct my_connection *conn, struct permits *permits,
                                      uint32_t limit, struct dlock_error *err)
{
    enum dlock_status status = my_statements_run(conn, MY_PERMIT_LIST, err);

    *permits = (struct permits){.count = 0};
    if (status != DLOCK_OK)
        return status;
    while (my_statements_fetch(conn, MY_PERMIT_LIST))
        permit_add(permits, &conn->row, limit);
    my_statements_done(conn, MY_PERMIT_LIST);
    return DLOCK_OK;
}

static enum dlock_status other_limit(uint32_t present, uint32_t limit, struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, present, limit);
}

enum dlock_status my_row_permit_refuse(struct my_connection *conn, struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    bool found = false;
    enum dlock_status status = my_statements_row(conn, MY_LIMIT, &found, &why);

    if (my_schema_is_hidden(status, &why))
        return DLOCK_BUSY;
    if (status != DLOCK_OK)
        return dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
    return found && conn->row.number[0] > 1 ? other_limit((uint32_t)conn->row.number[0], 1, err)
                                            : DLOCK_BUSY;
}

/* The row of the guard: nobody holds the name but permits, and it is reserved for nobody else. */
static enum dlock_status permit_check(const struct my_connection *conn, uint32_t limit,
                                      struct dlock_error *err)
{
    const long long *number = conn->row.number;

    if ((number[MY_GUARD_LEFT_US] > 0 && number[MY_GUARD_HAS_PERMITS] == 0) ||
        number[MY_GUARD_READERS_US] > 0)
        return other_limit(1, limit, err);
    return number[MY_GUARD_MAY_TAKE] != 0 ? DLOCK_OK : DLOCK_BUSY;
}

/* Removes the permits that are over, by the row of the guard. A program that knows no permits ends
 * all of a name by its row alone; their rows must not come back with the next permit. */
static enum my_statement permits_over(const struct my_connection *conn)
{
    return conn->row.number[MY_GUARD_HAS_PERMITS] != 0 ? MY_PERMIT_REAP : MY_PERMIT_CLEAR;
}

/* The lowest permit that is free, with a fence of its own. */
static enum dlock_status permit_take(struct my_connection *conn, const struct permits *permits,
                                     const struct dlock_request *req, struct dlock_grant *grant,
                                     struct dlock_error *err)
{
    uint32_t permit = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    while (permits->taken[permit])
        permit++;
    status = my_statements_run(conn, MY_PERMIT_FENCE, err);
    if (status == DLOCK_OK && conn->affected == 0)
        status = my_statements_run(conn, MY_FENCE_ANEW, err);
    if (status != DLOCK_OK)
        return status;
    grant->fence = conn->insert_id;
    grant->fence_room = MY_FENCE_STEP - 1;
    grant->permit = permit;
    conn->input.number = (long long)req->limit * MY_PERMIT_SCALE + permit;
    return my_statements_run(conn, MY_PERMIT_ADD, err);
}

/* A second time with the same token: an answer was lost [TRY-5]. */
static enum dlock_status permit_again(struct my_connection *conn, const struct permits *permits,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    grant->fence = permits->own_fence;
    grant->fence_room = MY_FENCE_STEP - 1;
    grant->permit = permits->own;
    return my_statements_run(conn, MY_PERMIT_EXTEND, err);
}

static enum dlock_status permit_try(struct my_connection *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    const uint32_t limit = req->limit;
    const enum my_statement reap = permits_over(conn);
    struct permits permits;
    const enum dlock_status checked = permit_check(conn, limit, err);
    enum dlock_status status =
        checked == DLOCK_CONFIG ? checked : my_statements_run(conn, reap, err);

    if (status == DLOCK_OK)
        status = permits_read(conn, &permits, limit, err);
    if (status != DLOCK_OK)
        return status;
    if (permits.other_limit != 0)
        return other_limit(permits.other_limit, limit, err);
    if (permits.has_own) { /* with its data */
        status = permit_again(conn, &permits, grant, err);
        return status == DLOCK_OK && conn->affected == 0 ? DLOCK_BUSY : status; /* just ended */
    }
    if (permits.count >= limit) {
        grant->holder_ms = permits.first_left_us / MY_US_PER_MS + 1;
        return DLOCK_BUSY;
    }
    if (checked != DLOCK_OK)
        return checked;
    status = permit_take(conn, &permits, req, grant, err);
    if (status == DLOCK_OK)
        status = my_row_data_put(conn, err);
    if (status == DLOCK_OK && my_queue_is_head(slot->queue))
        status = my_statements_run(conn, MY_UNRESERVE, err);
    return status;
}

enum dlock_status my_row_permit_try(struct my_connection *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = guard_begin_any(conn, err);

    if (status != DLOCK_OK)
        return my_connection_contended(status, err);
    status = guard_end(conn, permit_try(conn, req, grant, err), MY_PERMITS_MARK, err);
    if (status == DLOCK_OK)
        grant->lease_ms = req->ttl_ms;
    return my_connection_contended(status, err);
}

static enum dlock_status changed(const struct my_connection *conn, enum dlock_status status)
{
    return status == DLOCK_OK && conn->affected == 0 ? DLOCK_LOST : status;
}

/* A change of the permit that the token holds. LOST: it holds none; a name that somebody else took,
 * because a program that knows no permits broke it, has none. */
static enum dlock_status permit_change(struct my_connection *conn, enum my_statement guard,
                                       enum my_statement change, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard_begin(conn, guard, &found, err);

    if (status != DLOCK_OK)
        return status;
    if (!found || conn->row.number[MY_GUARD_HAS_PERMITS] == 0)
        status = DLOCK_LOST;
    else
        status = changed(conn, my_statements_run(conn, change, err));
    return guard_end(conn, status, MY_PERMITS_MARK, err);
}

enum dlock_status my_row_permit_renew(struct my_connection *conn, bool at_once,
                                      struct dlock_error *err)
{
    return permit_change(conn, at_once ? MY_GUARD_NOW : MY_GUARD, MY_PERMIT_EXTEND, err);
}

enum dlock_status my_row_permit_unlock(struct my_connection *conn, struct dlock_error *err)
{
    return permit_change(conn, MY_GUARD, MY_PERMIT_REMOVE, err);
}

static enum dlock_status lock_keep(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = guard_begin(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    if (!found || conn->row.number[MY_GUARD_IS_OURS] == 0 ||
        conn->row.number[MY_GUARD_LEFT_US] <= 0)
        status = DLOCK_LOST;
    if (status == DLOCK_OK) /* of a lock: the name has no permits */
        status = my_statements_run(conn, MY_PERMIT_CLEAR, err);
    if (status == DLOCK_OK)
        status = changed(conn, my_statements_run(conn, MY_KEEP_LOCK, err));
    return guard_end(conn, status, MY_PERMITS_MARK, err);
}

enum dlock_status my_row_permit_keep(struct my_connection *conn, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    conn->input.number = req->keep_ms * MY_US_PER_MS;
    return my_row_permit_is(req) ? permit_change(conn, MY_GUARD, MY_PERMIT_KEEP, err)
                                 : lock_keep(conn, err);
}

enum dlock_status my_row_permit_break(struct my_connection *conn, uint64_t *count,
                                      struct dlock_error *err)
{
    const enum my_statement which = conn->input.number == 0 ? MY_PERMIT_REMOVE : MY_PERMIT_BREAK;
    enum dlock_status status = permit_change(conn, MY_GUARD, which, err);

    *count = status == DLOCK_OK;
    return status == DLOCK_LOST ? DLOCK_OK : status;
}
