/* SPDX-License-Identifier: MIT */
#include "row.h"

#include "lib/request.h"
#include "lib/text.h"
#include "query.h"
#include "row_lease.h"
#include "row_queue.h"
#include "row_shared.h"

#include <stdlib.h>
#include <string.h>

/*
 * ---- one exchange for the leases of many names ----
 *
 * The statements of an exchange are sent in one piece, and each is a transaction of its own: a
 * client that is stopped has locked no row (ADR 0015). Each reads or writes the rows of all names,
 * in the order of the primary key, and fails at once where another transaction has locked one of
 * them: it waits for none, and so no two of them wait for each other. On MySQL, which cannot say
 * that for one statement, they wait for a second, and their order keeps them from a deadlock.
 */

#define BATCH_MOST       64
#define BATCH_STATEMENTS 4

enum item_state {
    ITEM_OPEN,
    ITEM_MISSING, /* there is no row of the name */
    ITEM_ALONE,   /* it needs a call of its own */
    ITEM_LAST,    /* needs a single call, after those of ITEM_ALONE: it may wait for a row */
    ITEM_DONE     /* op has the answer */
};

struct item {
    struct dlock_batch_op *op;
    enum item_state state;
    bool repeated; /* a statement before this one may have been executed */
    /* What MY_READ_ALL or MY_OVER_ALL found. */
    bool found;
    bool is_ours;     /* the token of the request holds the name, or held it last */
    bool is_unlocked; /* of MY_OVER_ALL, row: that token has been given back */
    bool has_permits; /* or is kept */
    int64_t left_us, readers_us;
    uint64_t fence;
};

/* The statements before the first one that failed. */
struct batch_answer {
    size_t count;
    uint64_t affected[BATCH_STATEMENTS];
};

/* The columns of MY_READ_ALL. */
enum { NAME, TOKEN, LEFT_US, READERS_US, FENCE, COLUMNS };

/* ---- names ---- */

static int names_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int items_compare(const void *a, const void *b)
{
    const struct item *const *x = a, *const *y = b;
    const struct dlock_request *p = (*x)->op->req, *q = (*y)->op->req;

    return names_compare(p->name, p->name_len, q->name, q->name_len);
}

/* Puts items into the order of their names. */
static void items_sort(struct item **items, size_t n)
{
    qsort(items, n, sizeof *items, items_compare);
}

static bool is_same_name(const struct item *a, const struct item *b)
{
    return items_compare(&a, &b) == 0;
}

static struct item *item_find(struct item *const *items, size_t n, const char *name, size_t len)
{
    size_t first = 0, end = n;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const struct dlock_request *req = items[middle]->op->req;
        const int order = names_compare(name, len, req->name, req->name_len);

        if (order == 0)
            return items[middle];
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

/* ---- the text ---- */

/* What a name and a label take in the longest exchange, which has eight lists: less than the least
 * max_allowed_packet (open.c), with the statements themselves. */
#define LISTS_MOST 8
#define TEXT_MOST  56000
#define NAME_ROOM  (sizeof " WHEN x'' THEN x''" + 2 * DLOCK_TOKEN_SIZE)

/* How many of the elements one exchange has room for, at least one. */
static size_t batch_room(struct dlock_batch_op *const *ops, size_t n)
{
    size_t room = 0, count = 0;

    while (count < n && count < BATCH_MOST) {
        const struct dlock_request *req = ops[count]->req;

        room += LISTS_MOST * (2 * req->name_len + NAME_ROOM);
        room += req->label != NULL ? 2 * strnlen(req->label, MY_LABEL_MAX) : 0;
        if (count > 0 && room > TEXT_MOST)
            break;
        count++;
    }
    return count;
}

enum list { NAMES, ROWS, TOKENS, LABELS, TTLS, LISTS };

static void hex_write(FILE *out, const void *bytes, size_t len)
{
    char hex[2 * MY_NAME_MAX + 1];

    dl_hex_encode(hex, bytes, len < MY_NAME_MAX ? len : MY_NAME_MAX);
    (void)fprintf(out, "x'%s'", hex);
}

static const char *label_of(const struct dlock_request *req)
{
    return req->label != NULL ? req->label : "";
}

static void value_write(FILE *out, enum list list, const struct dlock_request *req)
{
    if (list == TOKENS)
        hex_write(out, req->token, sizeof req->token);
    else if (list == LABELS)
        hex_write(out, label_of(req), strnlen(label_of(req), MY_LABEL_MAX));
    else
        (void)fprintf(out, "%lld", (long long)req->ttl_ms * MY_US_PER_MS);
}

static bool is_same_value(enum list list, const struct dlock_request *a,
                          const struct dlock_request *b)
{
    if (list == LABELS)
        return strcmp(label_of(a), label_of(b)) == 0;
    return list == TTLS && a->ttl_ms == b->ttl_ms;
}

/* The value that all items have, or one for each name. */
static void values_write(FILE *out, enum list list, struct item *const *items, size_t n)
{
    const struct dlock_request *first = items[0]->op->req;
    size_t same = 1;

    while (same < n && is_same_value(list, first, items[same]->op->req))
        same++;
    if (same == n) {
        value_write(out, list, first);
        return;
    }
    (void)fputs("CASE name", out);
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = items[i]->op->req;

        (void)fputs(" WHEN ", out);
        hex_write(out, req->name, req->name_len);
        (void)fputs(" THEN ", out);
        value_write(out, list, req);
    }
    (void)fputs(" END", out);
}

static void names_write(FILE *out, enum list list, struct item *const *items, size_t n)
{
    static const char *const before[] = {[NAMES] = ",", [ROWS] = " UNION ALL SELECT "};

    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            (void)fputs(before[list], out);
        else if (list == ROWS)
            (void)fputs("SELECT ", out);
        hex_write(out, items[i]->op->req->name, items[i]->op->req->name_len);
        if (list == ROWS && i == 0)
            (void)fputs(" AS name", out);
    }
}

/* For free(); NULL: no memory. */
static char *list_make(enum list list, struct item *const *items, size_t n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    if (list == NAMES || list == ROWS)
        names_write(out, list, items, n);
    else
        values_write(out, list, items, n);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* The statements, with semicolons between them. false: no memory. */
static bool statements_write(FILE *out, struct my_connection *conn, char *const lists[LISTS],
                             const enum my_statement *which, size_t count)
{
    struct my_input *input = &conn->input;
    bool written = true;

    input->tokens = lists[TOKENS];
    input->labels = lists[LABELS];
    input->ttls = lists[TTLS];
    for (size_t i = 0; i < count && written; i++) {
        char *text = NULL;

        input->leases = lists[which[i] == MY_ENSURE_ALL ? ROWS : NAMES];
        text = my_statements_text(conn, which[i]);
        written = text != NULL && fprintf(out, "%s%s", i > 0 ? ";" : "", text) >= 0;
        free(text);
    }
    input->leases = input->tokens = input->labels = input->ttls = NULL;
    return written;
}

/* For free(); NULL: no memory. */
static char *script_make(struct my_connection *conn, struct item *const *items, size_t n,
                         const enum my_statement *which, size_t count)
{
    char *lists[LISTS] = {NULL}, *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    bool written = out != NULL;

    for (enum list list = NAMES; list < LISTS && written; list++) {
        lists[list] = list_make(list, items, n);
        written = lists[list] != NULL;
    }
    if (written)
        written = statements_write(out, conn, lists, which, count);
    for (enum list list = NAMES; list < LISTS; list++)
        free(lists[list]);
    if (out != NULL && fclose(out) == 0 && written)
        return text;
    free(text);
    return NULL;
}

/* ---- the answers ---- */

static int64_t number(const char *text)
{
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

static void item_read(struct item *item, MYSQL_ROW row, const unsigned long *lengths)
{
    const struct dlock_request *req = item->op->req;
    const bool is_token = lengths[TOKEN] == sizeof req->token &&
                          memcmp(row[TOKEN], req->token, sizeof req->token) == 0;

    item->found = true;
    item->left_us = number(row[LEFT_US]);
    item->readers_us = number(row[READERS_US]);
    item->fence = (uint64_t)number(row[FENCE]);
    item->has_permits = lengths[TOKEN] == 0 && item->left_us > 0;
    item->is_ours = is_token && item->left_us > 0;
    item->is_unlocked = is_token && item->left_us == 0;
}

static enum dlock_status rows_read(struct my_connection *conn, MYSQL_RES *result,
                                   struct item *const *items, size_t n, struct dlock_error *err)
{
    MYSQL_ROW row = NULL;

    for (size_t i = 0; i < n; i++)
        items[i]->found = items[i]->is_ours = items[i]->is_unlocked = items[i]->has_permits = false;
    if (result == NULL || mysql_num_fields(result) != COLUMNS)
        return my_connection_bad_reply(conn, err);
    while ((row = mysql_fetch_row(result)) != NULL) {
        const unsigned long *lengths = mysql_fetch_lengths(result);
        struct item *item = NULL;

        if (row[NAME] == NULL || row[TOKEN] == NULL)
            return my_connection_bad_reply(conn, err);
        item = item_find(items, n, row[NAME], lengths[NAME]);
        if (item != NULL)
            item_read(item, row, lengths);
    }
    return DLOCK_OK;
}

/* Sends `count` statements of MY_..._ALL for items that are in order and have different names. OK:
 * each was executed. */
static enum dlock_status statements_run(struct my_connection *conn, struct item *const *items,
                                        size_t n, const enum my_statement *which, size_t count,
                                        struct batch_answer *answer, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    char *text = script_make(conn, items, n, which, count);
    enum dlock_status status = DLOCK_INTERNAL;

    answer->count = 0;
    if (text == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
    status = my_query_script(conn, text, &results, err);
    free(text);
    if (status == DLOCK_OK && results.count != count)
        status = my_connection_bad_reply(conn, err);
    for (; answer->count < results.count && answer->count < count; answer->count++) {
        answer->affected[answer->count] = results.affected[answer->count];
        if (status == DLOCK_OK &&
            (which[answer->count] == MY_READ_ALL || which[answer->count] == MY_OVER_ALL))
            status = rows_read(conn, results.list[answer->count], items, n, err);
    }
    my_query_results_free(&results);
    return status;
}

/* Some of the elements. */
struct batch {
    struct my_connection *conn;
    int64_t deadline_ns; /* the last one */
    size_t n, open_n;
    struct item items[BATCH_MOST];
    struct item *open[BATCH_MOST]; /* in the order of their names, which differ */
};

static void set_state(struct item *const *items, size_t n, enum item_state state)
{
    for (size_t i = 0; i < n; i++)
        items[i]->state = state;
}

/* Keeps the items that are in this state. */
static void keep(struct batch *batch, enum item_state state)
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

    return req->mode == DLOCK_EXCLUSIVE && !my_row_permit_is(req) && req->data_len == 0 &&
           slot->queue == NULL && !slot->doubtful;
}

/* A second element of a name is alone: the statements have one token for each name. */
static void batch_begin(struct batch *batch, struct my_connection *conn,
                        struct dlock_batch_op *const *ops, size_t n,
                        bool (*joins)(const struct dlock_request *req))
{
    *batch = (struct batch){.conn = conn, .deadline_ns = dl_batch_deadline_last(ops, n), .n = n};
    for (size_t i = 0; i < n; i++) {
        struct item *item = &batch->items[i];

        item->op = ops[i];
        item->state = joins(ops[i]->req) ? ITEM_OPEN : ITEM_ALONE;
        if (item->state == ITEM_OPEN)
            batch->open[batch->open_n++] = item;
    }
    items_sort(batch->open, batch->open_n);
    for (size_t i = batch->open_n; i > 1; i--)
        if (is_same_name(batch->open[i - 1], batch->open[i - 2]))
            batch->open[i - 1]->state = ITEM_ALONE;
    keep(batch, ITEM_OPEN);
}

static enum dlock_status batch_run(struct batch *batch, struct item *const *items, size_t n,
                                   const enum my_statement *which, size_t count,
                                   struct batch_answer *answer, struct dlock_error *err)
{
    answer->count = 0;
    if (my_connection_now(batch->conn) >= batch->deadline_ns)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "no time left for a batch");
    batch->conn->deadline_ns = batch->deadline_ns;
    return statements_run(batch->conn, items, n, which, count, answer, err);
}

static void item_done(struct item *item, enum dlock_status status)
{
    item->op->status = status;
    item->state = ITEM_DONE;
}

/* The connection was lost: sets the status of each item. */
static void all_fail(struct item *const *items, size_t n, const struct batch_answer *answer,
                     enum dlock_status status, const struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const bool executed = answer->count > 0 || items[i]->repeated;
        const bool stays = status == DLOCK_PROTOCOL || (status == DLOCK_UNAVAILABLE && !executed);

        item_done(items[i], dlock_fail(items[i]->op->err, MY_ORIGIN, stays ? status : DLOCK_UNKNOWN,
                                       err->code, "%s", err->message));
    }
}

static bool all_alone(struct item *const *items, size_t n)
{
    set_state(items, n, ITEM_ALONE);
    return true;
}

/* The server has failed the exchange, and the connection lives: half of them may be better off, but
 * where the server has waited for a row it would wait for each half. */
static bool alone_unless_halved(const struct batch *batch, struct item *const *items, size_t n)
{
    return batch->conn->dialect->at_once[0] == '\0' && all_alone(items, n);
}

/* Runs all that are open, by `some`, which returns false if nothing has happened, and half of them
 * are to be tried. */
static void run_open(struct batch *batch,
                     bool (*some)(struct batch *batch, struct item **items, size_t n))
{
    size_t count = batch->open_n;

    for (size_t at = 0; at < batch->open_n;) {
        if (count > batch->open_n - at)
            count = batch->open_n - at;
        if (count < 2 || batch->conn->dead) {
            set_state(batch->open + at, count, ITEM_LAST);
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
                     void (*call)(struct my_connection *conn, const struct item *item))
{
    for (enum item_state state = ITEM_ALONE; state <= ITEM_LAST; state++)
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

static void item_tried(struct item *item, enum dlock_status status)
{
    item_done(item, status);
    my_row_lease_tried(item->op->req->attempt, status);
}

static void item_busy(struct item *item)
{
    const int64_t left_ms = my_row_lease_left_ms(item->left_us, item->readers_us);

    if (item->found && left_ms > 0)
        item->op->grant.holder_ms = left_ms;
    item_tried(item, DLOCK_BUSY);
}

static void item_granted(struct item *item)
{
    struct dlock_grant *grant = &item->op->grant;

    grant->lease_ms = item->op->req->ttl_ms;
    grant->fence = item->fence;
    grant->fence_room = MY_FENCE_STEP - 1;
    item_tried(item, DLOCK_OK);
}

static bool is_free(const struct item *item)
{
    return item->left_us <= 0 && item->readers_us <= 0;
}

/* Names that were BUSY before are looked at first: many contenders would lock their rows. */
static void read_refused(struct batch *batch)
{
    static const enum my_statement read = MY_READ_ALL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct batch_answer answer = {.count = 0};
    struct item *tried[BATCH_MOST];
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
        set_state(tried, n, ITEM_ALONE);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (tried[i]->is_ours || tried[i]->has_permits)
            tried[i]->state = ITEM_ALONE;
        else if (tried[i]->found && !is_free(tried[i]))
            item_busy(tried[i]);
    }
}

/* What the rows say after the exchange. exact: each lease that is ours was taken by it. */
static void item_settle(const struct batch *batch, struct item *item, bool exact, bool created)
{
    const bool is_row = batch->conn->config->strategy == MY_ROW;

    item->repeated = item->is_ours;
    if (item->is_ours && exact)
        item_granted(item);
    else if (item->is_ours || (item->found && item->has_permits))
        item->state = ITEM_ALONE;
    else if (!item->found && !created)
        item->state = ITEM_MISSING;
    else if (is_row ? !item->found : item->found && is_free(item)) /* single calls see to it */
        item->state = ITEM_ALONE;
    else
        item_busy(item);
}

static size_t ours(struct item *const *items, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += items[i]->is_ours;
    return count;
}

/* All statements, from MY_ENSURE_ALL on if the names are new. */
static bool try_open(struct batch *batch, struct item **items, size_t n, bool creates)
{
    static const enum my_statement row[] = {MY_ENSURE_ALL, MY_TAKE_ALL, MY_READ_ALL},
                                   insert[] = {MY_ENSURE_ALL, MY_TAKE_ALL, MY_FENCE_ALL,
                                               MY_READ_ALL};
    const bool is_row = batch->conn->config->strategy == MY_ROW;
    const size_t first = creates ? 0 : 1, count = (is_row ? 3 : 4) - first;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct batch_answer answer = {.count = 0};
    enum dlock_status status =
        batch_run(batch, items, n, (is_row ? row : insert) + first, count, &answer, &err);
    bool exact = status == DLOCK_OK;

    if (status != DLOCK_OK && batch->conn->dead) {
        all_fail(items, n, &answer, status, &err);
        for (size_t i = 0; i < n; i++)
            my_row_lease_tried(items[i]->op->req->attempt, items[i]->op->status);
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

static bool try_some(struct batch *batch, struct item **items, size_t n)
{
    return try_open(batch, items, n, false);
}

static bool try_new(struct batch *batch, struct item **items, size_t n)
{
    return try_open(batch, items, n, true);
}

/* The exchange of the batch may have taken the name, and the call after it did not get it. */
static bool give_back(struct my_connection *conn, const struct dlock_batch_op *op)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_UNKNOWN;

    if (op->status != DLOCK_UNKNOWN && enter(conn, op->req, &ignored) == DLOCK_OK)
        status = my_row_lease_unlock(conn, op->req, &ignored);
    return status == DLOCK_OK || status == DLOCK_LOST;
}

static void try_alone(struct my_connection *conn, const struct item *item)
{
    struct dlock_batch_op *op = item->op;

    op->status = enter(conn, op->req, op->err);
    if (op->status == DLOCK_OK)
        op->status = my_row_lease_try(conn, op->req, &op->grant, op->err);
    if (op->status != DLOCK_OK && item->repeated && !give_back(conn, op)) {
        op->status = DLOCK_UNKNOWN;
        my_row_lease_tried(op->req->attempt, op->status);
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
    keep(&batch, ITEM_OPEN);
    run_open(&batch, try_some);
    keep(&batch, ITEM_MISSING);
    run_open(&batch, try_new);
    run_rest(&batch, try_alone);
}

enum dlock_status my_row_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err)
{
    struct my_session *session = self;
    struct my_connection *conn = &session->conn;
    enum dlock_status status = my_connection_enter(conn, dl_batch_deadline_last(ops, n), err);

    for (size_t done = 0; status == DLOCK_OK && done < n;) {
        const size_t room = batch_room(ops + done, n - done);

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

    return is_plain(req) && slot->asked && req->keep_ms == 0;
}

static enum dlock_status lost(const struct item *item)
{
    return item->repeated ? DLOCK_UNKNOWN : DLOCK_LOST;
}

static enum dlock_status ran_out(const struct item *item, const char *more)
{
    return dlock_fail(item->op->err, MY_ORIGIN, DLOCK_UNKNOWN, 0,
                      "a lease of the batch ran out meanwhile%s", more);
}

/* `ended` of these leases were ended, and the others had just run out. A row with the token tells
 * which; other rows, or no row, may follow either. */
static void items_judge(struct item *const *items, size_t n, size_t ended)
{
    size_t open = 0, unlocked = 0;

    for (size_t i = 0; i < n; i++) {
        unlocked += items[i]->is_unlocked;
        open += !items[i]->is_unlocked && !items[i]->is_ours;
    }
    for (size_t i = 0; i < n; i++) {
        struct item *item = items[i];

        if (item->is_ours || (!item->is_unlocked && ended == unlocked))
            item_done(item, lost(item));
        else if (item->is_unlocked || ended == unlocked + open)
            item_done(item, DLOCK_OK);
        else
            item_done(item, ran_out(item, ""));
    }
}

/* The leases that the rows said were held before the exchange, of which fewer were ended. */
static void items_read_again(struct batch *batch, struct item *const *items, size_t n, size_t ended)
{
    static const enum my_statement over = MY_OVER_ALL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct batch_answer answer = {.count = 0};

    if (batch_run(batch, items, n, &over, 1, &answer, &err) == DLOCK_OK) {
        items_judge(items, n, ended);
        return;
    }
    for (size_t i = 0; i < n; i++)
        item_done(items[i], ran_out(items[i], ", and the rows could not be read"));
}

/* By what the rows said before the exchange ended the leases. */
static void items_end(struct batch *batch, struct item *const *items, size_t n, uint64_t ended)
{
    struct item *held[BATCH_MOST];
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

static bool unlock_some(struct batch *batch, struct item **items, size_t n)
{
    static const enum my_statement which[] = {MY_READ_ALL, MY_UNLOCK_ALL};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct batch_answer answer = {.count = 0};
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

static void unlock_alone(struct my_connection *conn, const struct item *item)
{
    struct dlock_batch_op *op = item->op;
    struct my_slot *slot = op->req->attempt;

    op->status = enter(conn, op->req, op->err);
    if (op->status == DLOCK_OK)
        op->status = my_row_lease_unlock(conn, op->req, op->err);
    else if (slot->queue != NULL) /* [UNL-4] */
        my_queue_drop(slot->queue);
    slot->queue = NULL;
    if (op->status != DLOCK_OK && item->repeated)
        op->status = DLOCK_UNKNOWN;
}

enum dlock_status my_row_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err)
{
    struct my_session *session = self;
    struct my_connection *conn = &session->conn;
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    (void)err; /* each element has its status */
    (void)my_connection_enter(conn, dl_batch_deadline_last(ops, n), &ignored);
    for (size_t done = 0; done < n;) {
        const size_t room = batch_room(ops + done, n - done);
        struct batch batch;

        batch_begin(&batch, conn, ops + done, room, is_plain_unlock);
        run_open(&batch, unlock_some);
        run_rest(&batch, unlock_alone);
        done += room;
    }
    return DLOCK_OK;
}
