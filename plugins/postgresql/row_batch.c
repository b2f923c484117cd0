/* SPDX-License-Identifier: MIT */
#include "row_batch.h"

#include "columns.h"
#include "lib/batch_deadline.h"
#include "notify.h"
#include "row_lease.h"
#include "statements.h"
#include "waiter.h"

#define AT_ONCE 64 /* elements of one transaction; others wait for their rows while it lasts */

/* Of the time that a statement would wait for one row. */
#define BEGINS_SHARE   2 /* until then an element may begin */
#define PATIENCE_SHARE 4 /* of an element */

/* Some elements of the call. */
struct batch {
    struct pg_session *session;
    struct dlock_batch_op *const *ops;
    size_t n;
    bool answered[AT_ONCE];
    bool locked[AT_ONCE]; /* was left out */
    int64_t deadline_ns;  /* the last one */
};

/* A statement for some of the elements. */
struct step {
    enum pg_statement statement;
    enum pg_column columns[6];
    int column_count;
    int index; /* the column of the answer that says which element */
    bool (*is_for)(const struct dlock_request *req);
    enum dlock_status (*read)(struct pg_connection *conn, const PGresult *result, int row,
                              struct dlock_batch_op *op);
    bool bounded;  /* takes nothing after its patience */
    bool waits;    /* for rows */
    bool enqueues; /* makes queue entries */
};

/* The elements that a step has, and what it sends. */
struct part {
    size_t n;
    struct dlock_batch_op *ops[AT_ONCE];
    const struct dlock_request *reqs[AT_ONCE];
    bool *answered[AT_ONCE];
    const char *inbox;
    struct pg_columns columns;
    struct pg_params params;
};

/* ---- a step ---- */

static void part_collect(struct part *part, const struct step *step, struct batch *batch)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    for (size_t i = 0; i < batch->n; i++) {
        const struct dlock_request *req = batch->ops[i]->req;

        if (batch->answered[i] || !step->is_for(req))
            continue;
        if (step->enqueues && pg_lease_what(req) != PG_TAKE_TRY &&
            pg_waiter_expect(batch->session->shared, req, &part->inbox, &ignored) != DLOCK_OK)
            continue;
        part->ops[part->n] = batch->ops[i];
        part->reqs[part->n] = req;
        part->answered[part->n++] = &batch->answered[i];
    }
}

/* skips: what another transaction has locked is left out. False: no memory. */
static bool part_params(struct part *part, const struct step *step, bool skips,
                        const struct pg_connection *conn)
{
    const int64_t patience_ms = pg_statements_patience_ms(conn);

    for (int i = 0; i < step->column_count; i++)
        if (!pg_columns_add(&part->columns, &part->params, step->columns[i], part->reqs, part->n))
            return false;
    if (step->bounded)
        pg_params_number(&part->params, patience_ms);
    if (step->waits) {
        pg_params_number(&part->params, patience_ms / BEGINS_SHARE);
        pg_params_number(&part->params, skips);
        pg_params_number(&part->params, patience_ms / PATIENCE_SHARE + 1);
    }
    if (step->enqueues) {
        pg_params_number(&part->params, conn->config->waiter_ttl_ms);
        pg_params_text(&part->params, part->inbox);
    }
    return true;
}

static void part_read(struct part *part, const struct step *step, struct pg_connection *conn,
                      const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        const int64_t index = pg_query_number(result, row, step->index);

        if (index < 1 || index > (int64_t)part->n)
            continue;
        part->ops[index - 1]->status = step->read(conn, result, row, part->ops[index - 1]);
        *part->answered[index - 1] = true;
    }
}

/* The outcome of the statement is that of each element. */
static void part_fail(struct part *part, enum dlock_status status, const struct dlock_error *err)
{
    for (size_t i = 0; i < part->n; i++) {
        part->ops[i]->status =
            dlock_fail(part->ops[i]->err, PG_ORIGIN, status, err->code, "%s", err->message);
        *part->answered[i] = true;
    }
}

/* Elements without an answer afterwards: nothing has happened to them. Returns whether they may
 * have an answer if what is locked is left out. */
static bool step_try(const struct step *step, bool skips, struct batch *batch)
{
    struct pg_connection *conn = &batch->session->conn;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct part part = {.n = 0};
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_NOMEM;

    if (conn->dead || pg_connection_now(conn) >= batch->deadline_ns)
        return false;
    part_collect(&part, step, batch);
    if (part.n < 2)
        return false;
    if (part_params(&part, step, skips, conn))
        status = pg_statements_run(conn, step->statement, &part.params, 0, &result, &err);
    pg_columns_free(&part.columns);
    if (status == DLOCK_OK) {
        part_read(&part, step, conn, result);
        pg_notify_send(conn, result);
    } else if (conn->dead || status == DLOCK_UNKNOWN) {
        part_fail(&part, status, &err);
    }
    PQclear(result);
    return status == DLOCK_UNAVAILABLE && !conn->dead && pg_errmap_contention(err.code);
}

static void step_run(const struct step *step, struct batch *batch)
{
    if (!step_try(step, false, batch) || !step->waits)
        return;
    (void)step_try(step, true, batch);
    for (size_t i = 0; i < batch->n; i++)
        if (step->is_for(batch->ops[i]->req))
            batch->locked[i] = !batch->answered[i];
}

/* ---- trylock ---- */

static bool is_free_lock(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && !pg_lease_is_permit(req) &&
           pg_lease_what(req) != PG_TAKE_REFRESH;
}

static bool is_lock(const struct dlock_request *req)
{
    return !pg_lease_is_permit(req);
}

static enum dlock_status free_read(struct pg_connection *conn, const PGresult *result, int row,
                                   struct dlock_batch_op *op)
{
    op->grant.waiters = 0;
    return pg_lease_granted(conn, op->req, pg_query_number(result, row, 1), &op->grant, op->err);
}

static enum dlock_status take_read(struct pg_connection *conn, const PGresult *result, int row,
                                   struct dlock_batch_op *op)
{
    return pg_lease_take_read(conn, op->req, result, row, &op->grant, op->err);
}

static const struct step try_steps[] = {
    {PG_TAKE_FREE,
     {PG_COLUMN_NAME, PG_COLUMN_TOKEN, PG_COLUMN_TTL, PG_COLUMN_TEXT},
     .column_count = 4,
     .index = 0,
     .is_for = is_free_lock,
     .read = free_read,
     .bounded = true},
    {PG_TAKES,
     {PG_COLUMN_NAME, PG_COLUMN_TOKEN, PG_COLUMN_TTL, PG_COLUMN_WHAT, PG_COLUMN_TEXT,
      PG_COLUMN_SHARED},
     .column_count = 6,
     .index = 7,
     .is_for = is_lock,
     .read = take_read,
     .waits = true,
     .enqueues = true},
    {PG_PERMITS,
     {PG_COLUMN_NAME, PG_COLUMN_TOKEN, PG_COLUMN_TTL, PG_COLUMN_WHAT, PG_COLUMN_TEXT,
      PG_COLUMN_LIMIT},
     .column_count = 6,
     .index = 7,
     .is_for = pg_lease_is_permit,
     .read = take_read,
     .waits = true,
     .enqueues = true},
};

static void try_alone(struct pg_session *session, struct dlock_batch_op *op)
{
    op->status = pg_lease_try(session, op->req, &op->grant, op->err);
}

/* ---- unlock ---- */

static bool is_held_lock(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && !pg_lease_is_permit(req) &&
           dlock_request_keep_ms(req) == 0;
}

static bool is_release(const struct dlock_request *req)
{
    return dlock_request_keep_ms(req) == 0;
}

static bool is_keep(const struct dlock_request *req)
{
    return dlock_request_keep_ms(req) > 0;
}

static enum dlock_status held_read(struct pg_connection *conn, const PGresult *result, int row,
                                   struct dlock_batch_op *op)
{
    (void)conn;
    (void)result;
    (void)row;
    return pg_lease_unlocked(true, op->err);
}

static enum dlock_status unlock_read(struct pg_connection *conn, const PGresult *result, int row,
                                     struct dlock_batch_op *op)
{
    (void)conn;
    return pg_lease_unlocked(pg_query_number(result, row, 0) != 0, op->err);
}

static const struct step unlock_steps[] = {
    {PG_FREE_HELD,
     {PG_COLUMN_NAME, PG_COLUMN_TOKEN},
     .column_count = 2,
     .index = 0,
     .is_for = is_held_lock,
     .read = held_read},
    {PG_RELEASES,
     {PG_COLUMN_NAME, PG_COLUMN_TOKEN},
     .column_count = 2,
     .index = 2,
     .is_for = is_release,
     .read = unlock_read,
     .waits = true},
    {PG_KEEPS,
     {PG_COLUMN_NAME, PG_COLUMN_TOKEN, PG_COLUMN_KEEP},
     .column_count = 3,
     .index = 1,
     .is_for = is_keep,
     .read = unlock_read,
     .waits = true},
};

static void unlock_alone(struct pg_session *session, struct dlock_batch_op *op)
{
    op->status = pg_lease_unlock(session, op->req, op->err);
}

/* ---- the slots ---- */

/* Each in an exchange of its own, while there is a connection and time. */
static void rest_some(struct batch *batch, bool locked,
                      void (*alone)(struct pg_session *session, struct dlock_batch_op *op))
{
    struct pg_connection *conn = &batch->session->conn;

    for (size_t i = 0; i < batch->n; i++) {
        struct dlock_batch_op *op = batch->ops[i];

        if (batch->answered[i] || batch->locked[i] != locked)
            continue;
        if (pg_connection_now(conn) < op->req->deadline_ns)
            alone(batch->session, op);
        else
            op->status =
                dlock_fail(op->err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0,
                           "%s: the time was over before it could be sent", conn->config->endpoint);
    }
}

/* Names that another transaction has locked come last: they may use up the time. */
static void rest_run(struct batch *batch,
                     void (*alone)(struct pg_session *session, struct dlock_batch_op *op))
{
    rest_some(batch, false, alone);
    rest_some(batch, true, alone);
}

#define STEPS (sizeof try_steps / sizeof try_steps[0])
_Static_assert(STEPS == sizeof unlock_steps / sizeof unlock_steps[0],
               "the slots have as many steps");

static void some_run(struct pg_session *session, struct dlock_batch_op *const *ops, size_t n,
                     const struct step steps[STEPS],
                     void (*alone)(struct pg_session *session, struct dlock_batch_op *op))
{
    struct batch batch = {.session = session, .ops = ops, .n = n};

    batch.deadline_ns = dl_batch_deadline_last(ops, n);
    session->conn.deadline_ns = batch.deadline_ns;
    for (size_t i = 0; i < STEPS; i++)
        step_run(&steps[i], &batch);
    rest_run(&batch, alone);
}

static enum dlock_status run(struct pg_session *session, struct dlock_batch_op *const *ops,
                             size_t n, const struct step steps[STEPS],
                             void (*alone)(struct pg_session *session, struct dlock_batch_op *op),
                             struct dlock_error *err)
{
    enum dlock_status status =
        pg_connection_enter(&session->conn, dl_batch_deadline_last(ops, n), err);

    for (size_t i = 0; i < n && status == DLOCK_OK; i += AT_ONCE)
        some_run(session, ops + i, n - i < AT_ONCE ? n - i : AT_ONCE, steps, alone);
    return status;
}

enum dlock_status pg_lease_batch_try(struct pg_session *session, struct dlock_batch_op *const *ops,
                                     size_t n, struct dlock_error *err)
{
    return run(session, ops, n, try_steps, try_alone, err);
}

enum dlock_status pg_lease_batch_unlock(struct pg_session *session,
                                        struct dlock_batch_op *const *ops, size_t n,
                                        struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) /* [UNL-4] */
        pg_waiter_free(ops[i]->req->attempt);
    return run(session, ops, n, unlock_steps, unlock_alone, err);
}
