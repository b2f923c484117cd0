/* SPDX-License-Identifier: MIT */
#include "row_shared.h"

#include "added_table.h"
#include "data.h"
#include "execute.h"
#include "guard.h"
#include "queue.h"

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
    enum dlock_status status = my_execute(conn, MY_PERMIT_LIST, err);

    *permits = (struct permits){.count = 0};
    if (status != DLOCK_OK)
        return status;
    while (my_execute_fetch(conn, MY_PERMIT_LIST))
        permit_add(permits, &conn->row, limit);
    my_execute_done(conn, MY_PERMIT_LIST);
    return DLOCK_OK;
}

static enum dlock_status other_limit(uint32_t present, uint32_t limit, struct dlock_error *err)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, present, limit);
}

enum dlock_status my_permit_refuse(struct my_connection *conn, struct dlock_error *err)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    bool found = false;
    enum dlock_status status = my_execute_row(conn, MY_LIMIT, &found, &why);

    if (my_added_table_is_hidden(status, &why))
        return DLOCK_BUSY;
    if (status != DLOCK_OK)
        return dlock_fail(err, MY_ORIGIN, status, why.code, "%s", why.message);
    return found && conn->row.number[0] > 1 ? other_limit((uint32_t)conn->row.number[0], 1, err)
                                            : DLOCK_BUSY;
}

/* The row of the guard: nobody holds the name but permits, and it is reserved for nobody else. */
static enum dlock_status name_check(const struct my_connection *conn, uint32_t limit,
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
    status = my_execute(conn, MY_PERMIT_FENCE, err);
    if (status == DLOCK_OK && conn->affected == 0)
        status = my_execute(conn, MY_FENCE_ANEW, err);
    if (status != DLOCK_OK)
        return status;
    grant->fence = conn->insert_id;
    grant->fence_room = MY_FENCE_STEP - 1;
    grant->permit = permit;
    conn->input.number = (long long)dlock_request_limit(req) * MY_PERMIT_SCALE + permit;
    return my_execute(conn, MY_PERMIT_ADD, err);
}

/* A second time with the same token: an answer was lost [TRY-5]. */
static enum dlock_status permit_again(struct my_connection *conn, const struct permits *permits,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    grant->fence = permits->own_fence;
    grant->fence_room = MY_FENCE_STEP - 1;
    grant->permit = permits->own;
    return my_execute(conn, MY_PERMIT_EXTEND, err);
}

static enum dlock_status permit_try(struct my_connection *conn, const struct dlock_request *req,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    const uint32_t limit = dlock_request_limit(req);
    const enum my_statement reap = permits_over(conn);
    struct permits permits;
    const enum dlock_status checked = name_check(conn, limit, err);
    enum dlock_status status = checked == DLOCK_CONFIG ? checked : my_execute(conn, reap, err);

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
        status = my_data_put(conn, err);
    if (status == DLOCK_OK && my_queue_is_head(slot->queue))
        status = my_execute(conn, MY_UNRESERVE, err);
    return status;
}

enum dlock_status my_permit_try(struct my_connection *conn, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = my_guard_begin_any(conn, err);

    if (status != DLOCK_OK)
        return my_errmap_contended(status, err);
    status = my_guard_end(conn, permit_try(conn, req, grant, err), MY_PERMITS_MARK, err);
    if (status == DLOCK_OK)
        grant->lease_ms = req->ttl_ms;
    return my_errmap_contended(status, err);
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
    enum dlock_status status = my_guard_begin(conn, guard, &found, err);

    if (status != DLOCK_OK)
        return status;
    if (!found || conn->row.number[MY_GUARD_HAS_PERMITS] == 0)
        status = DLOCK_LOST;
    else
        status = changed(conn, my_execute(conn, change, err));
    return my_guard_end(conn, status, MY_PERMITS_MARK, err);
}

enum dlock_status my_permit_renew(struct my_connection *conn, bool at_once, struct dlock_error *err)
{
    return permit_change(conn, at_once ? MY_GUARD_NOW : MY_GUARD, MY_PERMIT_EXTEND, err);
}

enum dlock_status my_permit_unlock(struct my_connection *conn, struct dlock_error *err)
{
    return permit_change(conn, MY_GUARD, MY_PERMIT_REMOVE, err);
}

static enum dlock_status lock_keep(struct my_connection *conn, struct dlock_error *err)
{
    bool found = false;
    enum dlock_status status = my_guard_begin(conn, MY_GUARD, &found, err);

    if (status != DLOCK_OK)
        return status;
    if (!found || conn->row.number[MY_GUARD_IS_OURS] == 0 ||
        conn->row.number[MY_GUARD_LEFT_US] <= 0)
        status = DLOCK_LOST;
    if (status == DLOCK_OK) /* of a lock: the name has no permits */
        status = my_execute(conn, MY_PERMIT_CLEAR, err);
    if (status == DLOCK_OK)
        status = changed(conn, my_execute(conn, MY_KEEP_LOCK, err));
    return my_guard_end(conn, status, MY_PERMITS_MARK, err);
}

enum dlock_status my_permit_keep(struct my_connection *conn, const struct dlock_request *req,
                                 struct dlock_error *err)
{
    conn->input.number = dlock_request_keep_ms(req) * MY_US_PER_MS;
    return my_permit_is(req) ? permit_change(conn, MY_GUARD, MY_PERMIT_KEEP, err)
                             : lock_keep(conn, err);
}

enum dlock_status my_permit_break(struct my_connection *conn, uint64_t *count,
                                  struct dlock_error *err)
{
    const enum my_statement which = conn->input.number == 0 ? MY_PERMIT_REMOVE : MY_PERMIT_BREAK;
    enum dlock_status status = permit_change(conn, MY_GUARD, which, err);

    *count = status == DLOCK_OK;
    return status == DLOCK_LOST ? DLOCK_OK : status;
}
