/* SPDX-License-Identifier: MIT */
#include "row_batch.h"

#include "batch.h"
#include "lib/batch_deadline.h"
#include "queue.h"
#include "row_lease.h"
#include "row_shared.h"
#include "setup.h"

/* Some of the elements. */
struct batch {
    struct my_connection *conn;
    int64_t deadline_ns; /* the last one */
    size_t n, open_n;
    struct my_batch_item items[MY_BATCH_MOST];
    struct my_batch_item *open[MY_BATCH_MOST]; /* in the order of their names, which differ */
};

static void set_state(struct my_batch_item *const *items, size_t n, enum my_batch_state state)
{
    for (size_t i = 0; i < n; i++)
        items[i]->state = state;
}

/* Keeps the items that are in this state. */
static void keep(struct batch *batch, enum my_batch_state state)
{
    size_t kept = 0;

    for (size_t i = 0; i < batch->open_n; i++)
        if (batch->open[i]->state == state)
            batch->open[kept++] = batch->open[i];
    batch->open_n = kept;
}

static bool is_plain(const struct dlock_request *req)
{
    const struct my_slot *slot = req->attempt;
    uint32_t data_len = 0;

    (void)dlock_request_data(req, &data_len);
    return req->mode == DLOCK_EXCLUSIVE && !my_permit_is(req) && data_len == 0 &&
           slot->queue == NULL && !slot->doubtful;
}

/* A second element of a name is alone: the statements have one token for each name. */
static void batch_begin(struct batch *batch, struct my_connection *conn,
                        struct dlock_batch_op *const *ops, size_t n,
                        bool (*joins)(const struct dlock_request *req))
{
    *batch = (struct batch){.conn = conn, .deadline_ns = dl_batch_deadline_last(ops, n), .n = n};
    for (size_t i = 0; i < n; i++) {
        struct my_batch_item *item = &batch->items[i];

        item->op = ops[i];
        item->state = joins(ops[i]->req) ? MY_BATCH_OPEN : MY_BATCH_ALONE;
        if (item->state == MY_BATCH_OPEN)
            batch->open[batch->open_n++] = item;
    }
    my_batch_sort(batch->open, batch->open_n);
    for (size_t i = batch->open_n; i > 1; i--)
        if (my_batch_is_same_name(batch->open[i - 1], batch->open[i - 2]))
            batch->open[i - 1]->state = MY_BATCH_ALONE;
    keep(batch, MY_BATCH_OPEN);
}

static enum dlock_status batch_run(struct batch *batch, struct my_batch_item *const *items,
                                   size_t n, const enum my_statement *which, size_t count,
                                   struct my_batch_answer *answer, struct dlock_error *err)
{
    answer->count = 0;
    if (my_connection_now(batch->conn) >= batch->deadline_ns)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "no time left for a batch");
    batch->conn->deadline_ns = batch->deadline_ns;
    return my_batch_run(batch->conn, items, n, which, count, answer, err);
}

static void item_done(struct my_batch_item *item, enum dlock_status status)
{
    item->op->status = status;
    item->state = MY_BATCH_DONE;
}

/* The connection was lost: sets the status of each item. */
static void all_fail(struct my_batch_item *const *items, size_t n,
                     const struct my_batch_answer *answer, enum dlock_status status,
                     const struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const bool executed = answer->count > 0 || items[i]->repeated;
        const bool stays = status == DLOCK_PROTOCOL || (status == DLOCK_UNAVAILABLE && !executed);

        item_done(items[i], dlock_fail(items[i]->op->err, MY_ORIGIN, stays ? status : DLOCK_UNKNOWN,
                                       err->code, "%s", err->message));
    }
}

static bool all_alone(struct my_batch_item *const *items, size_t n)
{
    set_state(items, n, MY_BATCH_ALONE);
    return true;
}

/* The server has failed the exchange, and the connection lives: half of them may be better off, but
 * where the server has waited for a row it would wait for each half. */
static bool alone_unless_halved(const struct batch *batch, struct my_batch_item *const *items,
                                size_t n)
{
    return batch->conn->dialect->at_once[0] == '\0' && all_alone(items, n);
}

/* Runs all that are open, by `some`, which returns false if nothing has happened, and half of them
 * are to be tried. */
static void run_open(struct batch *batch,
                     bool (*some)(struct batch *batch, struct my_batch_item **items, size_t n))
{
    size_t count = batch->open_n;

    for (size_t at = 0; at < batch->open_n;) {
        if (count > batch->open_n - at)
            count = batch->open_n - at;
        if (count < 2 || batch->conn->dead) {
            set_state(batch->open + at, count, MY_BATCH_LAST);
        } else if (!some(batch, batch->open + at, count)) {
            count /= 2;
            continue;
        }
        at += count;
        count *= 2;
    }
}

/* The calls of items that are not done. */
static void run_rest(const struct batch *batch,
                     void (*call)(struct my_connection *conn, const struct my_batch_item *item))
{
    for (enum my_batch_state state = MY_BATCH_ALONE; state <= MY_BATCH_LAST; state++)
        for (size_t i = 0; i < batch->n; i++)
            if (batch->items[i].state == state)
                call(batch->conn, &batch->items[i]);
}

/* Whether the next call of a single element can be answered in time. */
static enum dlock_status enter(struct my_connection *conn, const struct dlock_request *req,
                               struct dlock_error *err)
{
    if (my_connection_now(conn) >= req->deadline_ns)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: no time left after the others of the batch", conn->config->endpoint);
    return my_connection_enter(conn, req->deadline_ns, err);
}

/* ---- trylock ---- */

static void item_tried(struct my_batch_item *item, enum dlock_status status)
{
    item_done(item, status);
    my_lease_tried(item->op->req->attempt, status);
}

static void item_busy(struct my_batch_item *item)
{
    const int64_t left_ms = my_lease_left_ms(item->left_us, item->readers_us);

    if (item->found && left_ms > 0)
        item->op->grant.holder_ms = left_ms;
    item_tried(item, DLOCK_BUSY);
}

static void item_granted(struct my_batch_item *item)
{
    struct dlock_grant *grant = &item->op->grant;

    grant->lease_ms = item->op->req->ttl_ms;
    grant->fence = item->fence;
    grant->fence_room = MY_FENCE_STEP - 1;
    item_tried(item, DLOCK_OK);
}

static bool is_free(const struct my_batch_item *item)
{
    return item->left_us <= 0 && item->readers_us <= 0;
}

/* Names that were BUSY before are looked at first: many contenders would lock their rows. */
static void read_refused(struct batch *batch)
{
    static const enum my_statement read = MY_READ_ALL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct my_batch_answer answer;
    struct my_batch_item *tried[MY_BATCH_MOST];
    size_t n = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < batch->open_n; i++) {
        const struct my_slot *slot = batch->open[i]->op->req->attempt;

        if (slot->tried)
            tried[n++] = batch->open[i];
    }
    if (n == 0 || batch->conn->dead)
        return;
    status = batch_run(batch, tried, n, &read, 1, &answer, &err);
    if (status != DLOCK_OK) { /* nothing was asked for yet */
        set_state(tried, n, MY_BATCH_ALONE);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (tried[i]->is_ours || tried[i]->has_permits)
            tried[i]->state = MY_BATCH_ALONE;
        else if (tried[i]->found && !is_free(tried[i]))
            item_busy(tried[i]);
    }
}

/* What the rows say after the exchange. exact: each lease that is ours was taken by it. */
static void item_settle(const struct batch *batch, struct my_batch_item *item, bool exact,
                        bool created)
{
    const bool is_row = batch->conn->config->strategy == MY_ROW;

    item->repeated = item->is_ours;
    if (item->is_ours && exact)
        item_granted(item);
    else if (item->is_ours || (item->found && item->has_permits))
        item->state = MY_BATCH_ALONE;
    else if (!item->found && !created)
        item->state = MY_BATCH_MISSING;
    else if (is_row ? !item->found : item->found && is_free(item)) /* single calls see to it */
        item->state = MY_BATCH_ALONE;
    else
        item_busy(item);
}

static size_t ours(struct my_batch_item *const *items, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += items[i]->is_ours;
    return count;
}

/* All statements, from MY_ENSURE_ALL on if the names are new. */
static bool try_open(struct batch *batch, struct my_batch_item **items, size_t n, bool creates)
{
    static const enum my_statement row[] = {MY_ENSURE_ALL, MY_TAKE_ALL, MY_READ_ALL},
                                   insert[] = {MY_ENSURE_ALL, MY_TAKE_ALL, MY_FENCE_ALL,
                                               MY_READ_ALL};
    const bool is_row = batch->conn->config->strategy == MY_ROW;
    const size_t first = creates ? 0 : 1, count = (is_row ? 3 : 4) - first;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct my_batch_answer answer;
    enum dlock_status status =
        batch_run(batch, items, n, (is_row ? row : insert) + first, count, &answer, &err);
    bool exact = status == DLOCK_OK;

    if (status != DLOCK_OK && batch->conn->dead) {
        all_fail(items, n, &answer, status, &err);
        for (size_t i = 0; i < n; i++)
            my_lease_tried(items[i]->op->req->attempt, items[i]->op->status);
        return true;
    }
    if (status != DLOCK_OK) {
        const bool taken = answer.count + first > 1;

        for (size_t i = 0; i < n; i++)
            items[i]->repeated |= taken || status == DLOCK_UNKNOWN;
        return taken ? all_alone(items, n) : alone_unless_halved(batch, items, n);
    }
    for (size_t i = 1 - first; i + 1 < count; i++)
        exact = exact && answer.affected[i] == ours(items, n);
    for (size_t i = 0; i < n; i++)
        item_settle(batch, items[i], exact, creates);
    return true;
}

static bool try_some(struct batch *batch, struct my_batch_item **items, size_t n)
{
    return try_open(batch, items, n, false);
}

static bool try_new(struct batch *batch, struct my_batch_item **items, size_t n)
{
    return try_open(batch, items, n, true);
}

/* The exchange of the batch may have taken the name, and the call after it did not get it. */
static bool give_back(struct my_connection *conn, const struct dlock_batch_op *op)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_UNKNOWN;

    if (op->status != DLOCK_UNKNOWN && enter(conn, op->req, &ignored) == DLOCK_OK)
        status = my_lease_unlock(conn, op->req, &ignored);
    return status == DLOCK_OK || status == DLOCK_LOST;
}

static void try_alone(struct my_connection *conn, const struct my_batch_item *item)
{
    struct dlock_batch_op *op = item->op;

    op->status = enter(conn, op->req, op->err);
    if (op->status == DLOCK_OK)
        op->status = my_lease_try(conn, op->req, &op->grant, op->err);
    if (op->status != DLOCK_OK && item->repeated && !give_back(conn, op)) {
        op->status = DLOCK_UNKNOWN;
        my_lease_tried(op->req->attempt, op->status);
    }
}

static void try_room(struct my_connection *conn, struct dlock_batch_op *const *ops, size_t n)
{
    struct batch batch;

    batch_begin(&batch, conn, ops, n, is_plain);
    for (size_t i = 0; i < batch.open_n; i++) {
        struct my_slot *slot = batch.open[i]->op->req->attempt;

        slot->asked = true;
    }
    read_refused(&batch);
    keep(&batch, MY_BATCH_OPEN);
    run_open(&batch, try_some);
    keep(&batch, MY_BATCH_MISSING);
    run_open(&batch, try_new);
    run_rest(&batch, try_alone);
}

enum dlock_status my_lease_batch_try(struct my_connection *conn, struct dlock_batch_op *const *ops,
                                     size_t n, struct dlock_error *err)
{
    enum dlock_status status = my_connection_enter(conn, dl_batch_deadline_last(ops, n), err);

    for (size_t done = 0; status == DLOCK_OK && done < n;) {
        const size_t room = my_batch_room(ops + done, n - done);

        try_room(conn, ops + done, room);
        done += room;
    }
    return status;
}

/* ---- unlock ---- */

/* Without a keep, and of a lease whose slot says that it has no data. */
static bool is_plain_unlock(const struct dlock_request *req)
{
    const struct my_slot *slot = req->attempt;

    return is_plain(req) && slot->asked && dlock_request_keep_ms(req) == 0;
}

static enum dlock_status lost(const struct my_batch_item *item)
{
    return item->repeated ? DLOCK_UNKNOWN : DLOCK_LOST;
}

static enum dlock_status ran_out(const struct my_batch_item *item, const char *more)
{
    return dlock_fail(item->op->err, MY_ORIGIN, DLOCK_UNKNOWN, 0,
                      "a lease of the batch ran out meanwhile%s", more);
}

/* `ended` of these leases were ended, and the others had just run out. A row with the token tells
 * which; other rows, or no row, may follow either. */
static void items_judge(struct my_batch_item *const *items, size_t n, size_t ended)
{
    size_t open = 0, unlocked = 0;

    for (size_t i = 0; i < n; i++) {
        unlocked += items[i]->is_unlocked;
        open += !items[i]->is_unlocked && !items[i]->is_ours;
    }
    for (size_t i = 0; i < n; i++) {
        struct my_batch_item *item = items[i];

        if (item->is_ours || (!item->is_unlocked && ended == unlocked))
            item_done(item, lost(item));
        else if (item->is_unlocked || ended == unlocked + open)
            item_done(item, DLOCK_OK);
        else
            item_done(item, ran_out(item, ""));
    }
}

/* The leases that the rows said were held before the exchange, of which fewer were ended. */
static void items_read_again(struct batch *batch, struct my_batch_item *const *items, size_t n,
                             size_t ended)
{
    static const enum my_statement over = MY_OVER_ALL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct my_batch_answer answer;

    if (batch_run(batch, items, n, &over, 1, &answer, &err) == DLOCK_OK) {
        items_judge(items, n, ended);
        return;
    }
    for (size_t i = 0; i < n; i++)
        item_done(items[i], ran_out(items[i], ", and the rows could not be read"));
}

/* By what the rows said before the exchange ended the leases. */
static void items_end(struct batch *batch, struct my_batch_item *const *items, size_t n,
                      uint64_t ended)
{
    struct my_batch_item *held[MY_BATCH_MOST];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (!items[i]->is_ours)
            item_done(items[i], lost(items[i]));
        else
            held[count++] = items[i];
    }
    if (ended != count)
        items_read_again(batch, held, count, (size_t)ended);
    else
        for (size_t i = 0; i < count; i++)
            item_done(held[i], DLOCK_OK);
}

static bool unlock_some(struct batch *batch, struct my_batch_item **items, size_t n)
{
    static const enum my_statement which[] = {MY_READ_ALL, MY_UNLOCK_ALL};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct my_batch_answer answer;
    enum dlock_status status = batch_run(batch, items, n, which, 2, &answer, &err);

    if (status == DLOCK_OK) {
        items_end(batch, items, n, answer.affected[1]);
        return true;
    }
    if (batch->conn->dead) {
        all_fail(items, n, &answer, status, &err);
        return true;
    }
    for (size_t i = 0; i < n; i++)
        items[i]->repeated |= status == DLOCK_UNKNOWN;
    return alone_unless_halved(batch, items, n);
}

static void unlock_alone(struct my_connection *conn, const struct my_batch_item *item)
{
    struct dlock_batch_op *op = item->op;
    struct my_slot *slot = op->req->attempt;

    op->status = enter(conn, op->req, op->err);
    if (op->status == DLOCK_OK)
        op->status = my_lease_unlock(conn, op->req, op->err);
    else if (slot->queue != NULL) /* [UNL-4] */
        my_queue_drop(slot->queue);
    slot->queue = NULL;
    if (op->status != DLOCK_OK && item->repeated)
        op->status = DLOCK_UNKNOWN;
}

void my_lease_batch_unlock(struct my_connection *conn, struct dlock_batch_op *const *ops, size_t n)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    (void)my_connection_enter(conn, dl_batch_deadline_last(ops, n), &ignored);
    for (size_t done = 0; done < n;) {
        const size_t room = my_batch_room(ops + done, n - done);
        struct batch batch;

        batch_begin(&batch, conn, ops + done, room, is_plain_unlock);
        run_open(&batch, unlock_some);
        run_rest(&batch, unlock_alone);
        done += room;
    }
}
