/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include "execute.h"
#include "lib/hex.h"
#include "query.h"

#include <stdlib.h>
#include <string.h>

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
    const struct my_batch_item *const *x = a, *const *y = b;
    const struct dlock_request *p = (*x)->op->req, *q = (*y)->op->req;

    return names_compare(p->name, p->name_len, q->name, q->name_len);
}

void my_batch_sort(struct my_batch_item **items, size_t n)
{
    qsort(items, n, sizeof *items, items_compare);
}

bool my_batch_is_same_name(const struct my_batch_item *a, const struct my_batch_item *b)
{
    return items_compare(&a, &b) == 0;
}

static struct my_batch_item *item_find(struct my_batch_item *const *items, size_t n,
                                       const char *name, size_t len)
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
 * max_allowed_packet (setup.c), with the statements themselves. */
#define LISTS_MOST 8
#define TEXT_MOST  56000
#define NAME_ROOM  (sizeof " WHEN x'' THEN x''" + 2 * DLOCK_TOKEN_SIZE)

size_t my_batch_room(struct dlock_batch_op *const *ops, size_t n)
{
    size_t room = 0, count = 0;

    while (count < n && count < MY_BATCH_MOST) {
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
static void values_write(FILE *out, enum list list, struct my_batch_item *const *items, size_t n)
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

static void names_write(FILE *out, enum list list, struct my_batch_item *const *items, size_t n)
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
static char *list_make(enum list list, struct my_batch_item *const *items, size_t n)
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
        text = my_execute_text(conn, which[i]);
        written = text != NULL && fprintf(out, "%s%s", i > 0 ? ";" : "", text) >= 0;
        free(text);
    }
    input->leases = input->tokens = input->labels = input->ttls = NULL;
    return written;
}

/* For free(); NULL: no memory. */
static char *script_make(struct my_connection *conn, struct my_batch_item *const *items, size_t n,
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

static void item_read(struct my_batch_item *item, MYSQL_ROW row, const unsigned long *lengths)
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
                                   struct my_batch_item *const *items, size_t n,
                                   struct dlock_error *err)
{
    MYSQL_ROW row = NULL;

    for (size_t i = 0; i < n; i++)
        items[i]->found = items[i]->is_ours = items[i]->is_unlocked = items[i]->has_permits = false;
    if (result == NULL || mysql_num_fields(result) != COLUMNS)
        return my_connection_bad_reply(conn, err);
    while ((row = mysql_fetch_row(result)) != NULL) {
        const unsigned long *lengths = mysql_fetch_lengths(result);
        struct my_batch_item *item = NULL;

        if (row[NAME] == NULL || row[TOKEN] == NULL)
            return my_connection_bad_reply(conn, err);
        item = item_find(items, n, row[NAME], lengths[NAME]);
        if (item != NULL)
            item_read(item, row, lengths);
    }
    return DLOCK_OK;
}

enum dlock_status my_batch_run(struct my_connection *conn, struct my_batch_item *const *items,
                               size_t n, const enum my_statement *which, size_t count,
                               struct my_batch_answer *answer, struct dlock_error *err)
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
