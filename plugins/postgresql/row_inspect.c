/* SPDX-License-Identifier: MIT */
#include "row.h"

#include "lib/request.h"
#include "lib/text.h"
#include "statements.h"

#include <string.h>

#define NAME_MAX_BYTES 255
#define PAGE_NAMES     500

enum { SHARED, FENCE, REMAINING, HELD, WAITERS, NAME, TOKEN, LABEL, LIMIT, PERMIT, KEPT };
enum { WAITER_SHARED, WAITER_TOKEN, WAITER_LABEL };

#define OWNER_SIZE (2 * DLOCK_TOKEN_SIZE + 1)

static void owner_write(char owner[OWNER_SIZE], const unsigned char *token, size_t len)
{
    dl_hex_encode(owner, token, token != NULL && len <= DLOCK_TOKEN_SIZE ? len : 0);
}

/* true: the caller wants no more. */
static bool report(const PGresult *result, int row, dlock_holder_fn *fn, void *arg)
{
    size_t name_len = 0, token_len = 0, label_len = 0;
    const unsigned char *name = pg_query_bytes(result, row, NAME, &name_len);
    const unsigned char *token = pg_query_bytes(result, row, TOKEN, &token_len);
    const unsigned char *label = pg_query_bytes(result, row, LABEL, &label_len);
    const int64_t limit = pg_query_number(result, row, LIMIT);
    const bool kept = pg_query_number(result, row, KEPT) != 0;
    char owner[OWNER_SIZE];
    struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = name,
        .name_len = (uint32_t)name_len,
        .mode = pg_query_number(result, row, SHARED) != 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = (uint32_t)pg_query_number(result, row, WAITERS),
        .fence = (uint64_t)pg_query_number(result, row, FENCE),
        .fence_last = (uint64_t)pg_query_number(result, row, FENCE) + PG_FENCE_STEP - 1,
        .remaining_ms = pg_query_number(result, row, REMAINING),
        .held_ms = pg_query_number(result, row, HELD),
        .owner = owner,
        .limit = limit > 1 ? (uint32_t)limit : 0, /* 1: a kept lock */
        .permit = (uint32_t)pg_query_number(result, row, PERMIT),
        .kept = kept,
    };

    dl_holder_text_read(&info, (const char *)label, label != NULL ? label_len : 0);
    if (kept) { /* functions 2 leave the data of the last holder in the row */
        info.data = NULL;
        info.data_len = 0;
    }
    owner_write(owner, kept ? NULL : token, token_len);
    return name != NULL && fn(arg, &info);
}

/* The rows of a statement about one name. */
static enum dlock_status name_read(struct pg_session *session, enum pg_statement which,
                                   const unsigned char *name, uint32_t name_len,
                                   int64_t deadline_ns, PGresult **result, struct dlock_error *err)
{
    struct pg_params params = {0};
    enum dlock_status status = pg_connection_enter(&session->conn, deadline_ns, err);

    *result = NULL;
    if (status != DLOCK_OK)
        return status;
    pg_params_bytes(&params, name, name_len);
    return pg_statements_run(&session->conn, which, &params, 0, result, err);
}

enum dlock_status pg_row_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                 int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                 struct dlock_error *err)
{
    struct pg_session *session = self;
    PGresult *result = NULL;
    bool stop = false;
    enum dlock_status status =
        name_read(session, PG_INSPECT, name, name_len, deadline_ns, &result, err);

    for (int row = 0; status == DLOCK_OK && !stop && row < PQntuples(result); row++)
        stop = report(result, row, fn, arg);
    PQclear(result);
    return status;
}

/* true: the caller wants no more. */
static bool waiter_report(const PGresult *result, int row, dlock_waiter_fn *fn, void *arg)
{
    size_t token_len = 0, label_len = 0;
    const unsigned char *token = pg_query_bytes(result, row, WAITER_TOKEN, &token_len);
    const unsigned char *label = pg_query_bytes(result, row, WAITER_LABEL, &label_len);
    char owner[OWNER_SIZE];
    const struct dlock_waiter waiter = {
        .struct_size = sizeof waiter,
        .mode = pg_query_number(result, row, WAITER_SHARED) != 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .position = (uint32_t)row,
        .waited_ms = -1, /* a row says when it ends; a refresh moves that */
        .owner = owner,
        .label = label != NULL ? (const char *)label : "",
    };

    owner_write(owner, token, token_len);
    return fn(arg, &waiter);
}

enum dlock_status pg_row_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    struct pg_session *session = self;
    PGresult *result = NULL;
    bool stop = false;
    enum dlock_status status =
        name_read(session, PG_WAITERS, name, name_len, deadline_ns, &result, err);

    for (int row = 0; status == DLOCK_OK && !stop && row < PQntuples(result); row++)
        stop = waiter_report(result, row, fn, arg);
    PQclear(result);
    return status;
}

/* A list that goes on. */
struct listing {
    const unsigned char *prefix;
    uint32_t prefix_len;
    unsigned char end[NAME_MAX_BYTES + 1]; /* after all names that begin with the prefix */
    size_t end_len;
    unsigned char last[NAME_MAX_BYTES]; /* the last name that was listed */
    size_t last_len;
    bool stop;
};

/* The next prefix of that length; if there is none, what no name is greater than. */
static void end_find(struct listing *listing)
{
    size_t len = listing->prefix_len;

    while (len > 0 && listing->prefix[len - 1] == 0xFF)
        len--;
    if (len == 0) {
        memset(listing->end, 0xFF, sizeof listing->end);
        listing->end_len = sizeof listing->end;
        return;
    }
    memcpy(listing->end, listing->prefix, len);
    listing->end[len - 1]++;
    listing->end_len = len;
}

/* Returns how many names the page has. */
static int page_report(struct listing *listing, const PGresult *result, dlock_holder_fn *fn,
                       void *arg)
{
    int names = 0;

    for (int row = 0; row < PQntuples(result) && !listing->stop; row++) {
        size_t len = 0;
        const unsigned char *name = pg_query_bytes(result, row, NAME, &len);

        if (name == NULL || len > sizeof listing->last)
            continue; /* no name of ours */
        if (len != listing->last_len || memcmp(name, listing->last, len) != 0) {
            memcpy(listing->last, name, len);
            listing->last_len = len;
            names++;
        }
        listing->stop = report(result, row, fn, arg);
    }
    return names;
}

enum dlock_status pg_row_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                              int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                              struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_connection *conn = &session->conn;
    struct listing listing = {.prefix = prefix, .prefix_len = prefix_len};
    const int64_t timeout_ns = deadline_ns - pg_connection_now(conn);
    int names = PAGE_NAMES;
    enum dlock_status status = DLOCK_OK;

    if (prefix_len > NAME_MAX_BYTES)
        return DLOCK_OK; /* no name is that long */
    end_find(&listing);
    while (status == DLOCK_OK && !listing.stop && names > 0) {
        struct pg_params params = {0};
        PGresult *result = NULL;

        status = pg_connection_enter(conn, pg_connection_now(conn) + timeout_ns, err);
        if (status != DLOCK_OK)
            break;
        pg_params_bytes(&params, prefix_len > 0 ? prefix : listing.last, prefix_len);
        pg_params_bytes(&params, listing.end, listing.end_len);
        pg_params_bytes(&params, listing.last, listing.last_len);
        pg_params_number(&params, PAGE_NAMES);
        status = pg_statements_run(conn, PG_LIST, &params, 0, &result, err);
        if (status == DLOCK_OK)
            names = page_report(&listing, result, fn, arg);
        PQclear(result);
    }
    return status;
}
