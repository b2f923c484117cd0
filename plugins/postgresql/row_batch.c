/* SPDX-License-Identifier: MIT */
/* Many names in one exchange: taken, given back, renewed. */
#include "row.h"

#include "lib/request.h"
#include "row_lease.h"
#include "row_listener.h"
#include "statements.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* ---- a column: one value of each request as an array of the server, binary ---- */

/* The value, and the type of the array. */
enum column {
    COLUMN_NAME,      /* bytea[] */
    COLUMN_TOKEN,     /* bytea[] */
    COLUMN_TTL,       /* bigint[] */
    COLUMN_SHARED,    /* boolean[] */
    COLUMN_LIMIT,     /* bigint[], of a semaphore */
    COLUMN_WHAT,      /* bigint[], enum pg_take */
    COLUMN_TEXT,      /* bytea[], label and data */
    COLUMN_KEEP,      /* bigint[], how long the name stays taken, in ms */
    COLUMN_DOWNGRADE, /* boolean[] */
};

#define COLUMNS_MAX 8

/* Zeroed at first. */
struct columns {
    unsigned char *arrays[COLUMNS_MAX];
    int count;
};

#define NAME_MAX_LEN 255

/* Types of the server, fixed for ever. */
enum {
    TYPE_BOOLEAN = 16,
    TYPE_BYTEA = 17,
    TYPE_BIGINT = 20,
    TYPE_BOOLEANS = 1000,
    TYPE_BYTEAS = 1001,
    TYPE_BIGINTS = 1016
};

static size_t number_write(unsigned char *out, int64_t number)
{
    const uint64_t bytes = htobe64((uint64_t)number);

    memcpy(out, &bytes, sizeof bytes);
    return sizeof bytes;
}

static size_t boolean_write(unsigned char *out, bool yes)
{
    out[0] = yes;
    return 1;
}

static size_t name_write(unsigned char *out, const struct dlock_request *req)
{
    const size_t len = req->name_len < NAME_MAX_LEN ? req->name_len : NAME_MAX_LEN;

    memcpy(out, req->name, len);
    return len;
}

static size_t token_write(unsigned char *out, const struct dlock_request *req)
{
    memcpy(out, req->token, sizeof req->token);
    return sizeof req->token;
}

static size_t ttl_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, req->ttl_ms);
}

static size_t shared_write(unsigned char *out, const struct dlock_request *req)
{
    return boolean_write(out, req->mode == DLOCK_SHARED);
}

static size_t limit_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, req->limit);
}

static size_t what_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, pg_row_lease_what(req));
}

static size_t text_write(unsigned char *out, const struct dlock_request *req)
{
    return dl_holder_text_make((char *)out, req);
}

static size_t keep_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, req->keep_ms);
}

static size_t downgrade_write(unsigned char *out, const struct dlock_request *req)
{
    return boolean_write(out, (req->flags & DLOCK_REQ_DOWNGRADE) != 0);
}

/* out has room for `most` bytes. */
static const struct column_type {
    size_t (*write)(unsigned char *out, const struct dlock_request *req);
    size_t most;
    uint32_t type, of;
} column_types[] = {
    [COLUMN_NAME] = {name_write, NAME_MAX_LEN, TYPE_BYTEAS, TYPE_BYTEA},
    [COLUMN_TOKEN] = {token_write, DLOCK_TOKEN_SIZE, TYPE_BYTEAS, TYPE_BYTEA},
    [COLUMN_TTL] = {ttl_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [COLUMN_SHARED] = {shared_write, 1, TYPE_BOOLEANS, TYPE_BOOLEAN},
    [COLUMN_LIMIT] = {limit_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [COLUMN_WHAT] = {what_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [COLUMN_TEXT] = {text_write, DL_HOLDER_TEXT_MAX, TYPE_BYTEAS, TYPE_BYTEA},
    [COLUMN_KEEP] = {keep_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [COLUMN_DOWNGRADE] = {downgrade_write, 1, TYPE_BOOLEANS, TYPE_BOOLEAN},
};

static size_t word_write(unsigned char *out, size_t word)
{
    const uint32_t bytes = htobe32((uint32_t)word);

    memcpy(out, &bytes, sizeof bytes);
    return sizeof bytes;
}

/* Dimensions, nulls, type; length and first index of the one dimension. */
static size_t head_write(unsigned char *out, uint32_t of, size_t n)
{
    size_t len = word_write(out, 1);

    len += word_write(out + len, 0);
    len += word_write(out + len, of);
    len += word_write(out + len, n);
    return len + word_write(out + len, 1);
}

#define WORD sizeof(uint32_t)
#define HEAD (5 * WORD)

/* Appends a parameter, which borrows from *columns. n: at least 1. False: no memory. */
static bool columns_add(struct columns *columns, struct pg_params *params, enum column which,
                        const struct dlock_request *const *reqs, size_t n)
{
    const struct column_type *column = &column_types[which];
    unsigned char *array = malloc(HEAD + n * (WORD + column->most));
    size_t len = 0;

    if (array == NULL)
        return false;
    columns->arrays[columns->count++] = array;
    len = head_write(array, column->of, n);
    for (size_t i = 0; i < n; i++) {
        const size_t size = column->write(array + len + WORD, reqs[i]);

        len += word_write(array + len, size) + size;
    }
    pg_params_add(params, column->type, true, array, len);
    return true;
}

static void columns_free(struct columns *columns)
{
    for (int i = 0; i < columns->count; i++)
        free(columns->arrays[i]);
    columns->count = 0;
}

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
    enum column columns[6];
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
    struct columns columns;
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
        if (step->enqueues && pg_row_lease_what(req) != PG_TAKE_TRY &&
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
        if (!columns_add(&part->columns, &part->params, step->columns[i], part->reqs, part->n))
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
    columns_free(&part.columns);
    if (status == DLOCK_OK) {
        part_read(&part, step, conn, result);
        pg_row_lease_notify(conn, result);
    } else if (conn->dead || status == DLOCK_UNKNOWN) {
        part_fail(&part, status, &err);
    }
    PQclear(result);
    return status == DLOCK_UNAVAILABLE && !conn->dead && pg_connection_is_contention(err.code);
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
    return req->mode == DLOCK_EXCLUSIVE && !pg_row_lease_is_permit(req) &&
           pg_row_lease_what(req) != PG_TAKE_REFRESH;
}

static bool is_lock(const struct dlock_request *req)
{
    return !pg_row_lease_is_permit(req);
}

static enum dlock_status free_read(struct pg_connection *conn, const PGresult *result, int row,
                                   struct dlock_batch_op *op)
{
    op->grant.waiters = 0;
    return pg_row_lease_granted(conn, op->req, pg_query_number(result, row, 1), &op->grant,
                                op->err);
}

static enum dlock_status take_read(struct pg_connection *conn, const PGresult *result, int row,
                                   struct dlock_batch_op *op)
{
    return pg_row_lease_take_read(conn, op->req, result, row, &op->grant, op->err);
}

static const struct step try_steps[] = {
    {PG_TAKE_FREE,
     {COLUMN_NAME, COLUMN_TOKEN, COLUMN_TTL, COLUMN_TEXT},
     .column_count = 4,
     .index = 0,
     .is_for = is_free_lock,
     .read = free_read,
     .bounded = true},
    {PG_TAKES,
     {COLUMN_NAME, COLUMN_TOKEN, COLUMN_TTL, COLUMN_WHAT, COLUMN_TEXT, COLUMN_SHARED},
     .column_count = 6,
     .index = 7,
     .is_for = is_lock,
     .read = take_read,
     .waits = true,
     .enqueues = true},
    {PG_PERMITS,
     {COLUMN_NAME, COLUMN_TOKEN, COLUMN_TTL, COLUMN_WHAT, COLUMN_TEXT, COLUMN_LIMIT},
     .column_count = 6,
     .index = 7,
     .is_for = pg_row_lease_is_permit,
     .read = take_read,
     .waits = true,
     .enqueues = true},
};

static void try_alone(struct pg_session *session, struct dlock_batch_op *op)
{
    op->status = pg_row_trylock(session, op->req, &op->grant, op->err);
}

/* ---- unlock ---- */

static bool is_held_lock(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && !pg_row_lease_is_permit(req) && req->keep_ms == 0;
}

static bool is_release(const struct dlock_request *req)
{
    return req->keep_ms == 0;
}

static bool is_keep(const struct dlock_request *req)
{
    return req->keep_ms > 0;
}

static enum dlock_status held_read(struct pg_connection *conn, const PGresult *result, int row,
                                   struct dlock_batch_op *op)
{
    (void)conn;
    (void)result;
    (void)row;
    return pg_row_lease_unlocked(true, op->err);
}

static enum dlock_status unlock_read(struct pg_connection *conn, const PGresult *result, int row,
                                     struct dlock_batch_op *op)
{
    (void)conn;
    return pg_row_lease_unlocked(pg_query_number(result, row, 0) != 0, op->err);
}

static const struct step unlock_steps[] = {
    {PG_FREE_HELD,
     {COLUMN_NAME, COLUMN_TOKEN},
     .column_count = 2,
     .index = 0,
     .is_for = is_held_lock,
     .read = held_read},
    {PG_RELEASES,
     {COLUMN_NAME, COLUMN_TOKEN},
     .column_count = 2,
     .index = 2,
     .is_for = is_release,
     .read = unlock_read,
     .waits = true},
    {PG_KEEPS,
     {COLUMN_NAME, COLUMN_TOKEN, COLUMN_KEEP},
     .column_count = 3,
     .index = 1,
     .is_for = is_keep,
     .read = unlock_read,
     .waits = true},
};

static void unlock_alone(struct pg_session *session, struct dlock_batch_op *op)
{
    op->status = pg_row_unlock(session, op->req, op->err);
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

enum dlock_status pg_row_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err)
{
    struct pg_session *session = self;
    return run(session, ops, n, try_steps, try_alone, err);
}

enum dlock_status pg_row_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err)
{
    struct pg_session *session = self;
    for (size_t i = 0; i < n; i++) /* [UNL-4] */
        pg_waiter_free(ops[i]->req->attempt);
    return run(session, ops, n, unlock_steps, unlock_alone, err);
}

/*
 * ---- renewals ----
 *
 * Many leases are extended by one statement: one exchange, and one wait for the disk. It waits for
 * no row. Leases whose rows another transaction has locked are renewed one by one at the end, and
 * each may wait for its row: only these are late when the deadline comes.
 */

#define RENEWALS 128

/* The result of an element. */
enum { IS_LOST, IS_EXTENDED, IS_LOCKED };

/* Fills the parameters, which borrow from *columns. False: no memory. */
static bool params_make(struct pg_params *params, struct columns *columns,
                        struct dlock_lease_op *const *ops, size_t n)
{
    static const enum column which[] = {COLUMN_NAME, COLUMN_TOKEN, COLUMN_TTL, COLUMN_DOWNGRADE};
    const struct dlock_request *reqs[RENEWALS];
    bool made = true;

    for (size_t i = 0; i < n; i++)
        reqs[i] = ops[i]->req;
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++)
        made = made && columns_add(columns, params, which[i], reqs, n);
    return made;
}

static void op_read(const PGresult *result, int row, struct dlock_lease_op *op)
{
    const int64_t outcome = pg_query_number(result, row, 1);

    op->status = outcome == IS_LOST ? DLOCK_LOST : DLOCK_BUSY;
    if (outcome != IS_EXTENDED)
        return;
    op->status = DLOCK_OK;
    op->grant.lease_ms = op->req->ttl_ms;
    op->grant.waiters = (uint32_t)pg_query_number(result, row, 2);
}

/* skip: leases whose rows are locked stay BUSY, and all do if another transaction is in the way. */
static enum dlock_status renew_some(struct pg_connection *conn, struct dlock_lease_op *const *ops,
                                    size_t n, bool skip, struct dlock_error *err)
{
    struct columns columns = {.count = 0};
    struct pg_params params = {0};
    PGresult *result = NULL;
    const int64_t patience_ms = pg_statements_patience_ms(conn);
    enum dlock_status status = DLOCK_NOMEM;

    if (params_make(&params, &columns, ops, n)) {
        pg_params_number(&params, skip ? -(patience_ms + 3) / 4 : patience_ms);
        status = pg_statements_run(conn, PG_RENEW, &params, (int)n, &result, err);
    } else {
        (void)dlock_fail(err, PG_ORIGIN, status, 0, "no memory for renewals");
    }
    columns_free(&columns);
    if (skip && status == DLOCK_UNAVAILABLE && !conn->dead &&
        pg_connection_is_contention(err->code))
        return DLOCK_BUSY;
    for (size_t i = 0; i < n && status != DLOCK_OK; i++)
        ops[i]->status = status;
    if (status != DLOCK_OK)
        return status;
    for (int row = 0; row < PQntuples(result); row++) {
        const int64_t i = pg_query_number(result, row, 0);

        if (i >= 1 && i <= (int64_t)n)
            op_read(result, row, ops[i - 1]);
    }
    pg_row_lease_notify(conn, result);
    PQclear(result);
    return DLOCK_OK;
}

enum dlock_status pg_row_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                               int64_t deadline_ns, struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_connection *conn = &session->conn;
    enum dlock_status status = pg_connection_enter(conn, deadline_ns, err);

    for (size_t i = 0; i < n; i++)
        ops[i]->status = status == DLOCK_OK ? DLOCK_BUSY : status;
    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < n && n > 1 && !conn->dead; i += RENEWALS)
        (void)renew_some(conn, ops + i, n - i < RENEWALS ? n - i : RENEWALS, true, err);
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status == DLOCK_BUSY && conn->dead)
            ops[i]->status = DLOCK_UNAVAILABLE; /* not sent */
        else if (ops[i]->status == DLOCK_BUSY)
            (void)renew_some(conn, ops + i, 1, false, err);
    }
    return DLOCK_OK;
}
