/* SPDX-License-Identifier: MIT */
/* The rows are copied first: a callback may take its time, and SQLite cannot shorten its log during
 * a read transaction. */
#include "label.h"
#include "lib/hex.h"
#include "name.h"

#include <stdlib.h>
#include <string.h>

struct holder {
    struct holder *next;
    struct dlock_holder info;
    char owner[SQ_HEX_SIZE];
    unsigned char text[]; /* the name, then the label with its NUL, then data */
};

struct scan {
    struct sqlite_session *session;
    int64_t now_ns;
    struct holder *first, **last;
};

static int holder_add(struct scan *scan, sqlite3_stmt *row)
{
    const void *name = sqlite3_column_blob(row, 0);
    size_t name_len = (size_t)sqlite3_column_bytes(row, 0);
    const char *label = (const char *)sqlite3_column_text(row, 6);
    size_t label_len = label != NULL ? sqlite_label_len(label) : 0;
    unsigned char data[DLOCK_DATA_MAX];
    uint32_t data_len = label != NULL ? sqlite_label_data(data, label) : 0;
    bool kept = sqlite3_column_int64(row, 11) != 0; /* what is kept has no owner, and no data */
    struct holder *holder = NULL;

    if (name == NULL)
        return SQLITE_OK;
    data_len = kept ? 0 : data_len;
    holder = calloc(1, sizeof *holder + name_len + label_len + 1 + data_len);
    if (holder == NULL)
        return SQLITE_NOMEM;
    memcpy(holder->text, name, name_len);
    if (label_len > 0)
        memcpy(holder->text + name_len, label, label_len);
    if (data_len > 0)
        memcpy(holder->text + name_len + label_len + 1, data, data_len);
    if (!kept)
        dl_hex_encode(holder->owner, sqlite3_column_blob(row, 2), DLOCK_TOKEN_SIZE);
    holder->info = (struct dlock_holder){
        .struct_size = sizeof(struct dlock_holder),
        .name = holder->text,
        .name_len = (uint32_t)name_len,
        .mode = (uint32_t)sqlite3_column_int64(row, 7),
        .waiters = (uint32_t)sqlite3_column_int64(row, 8),
        .fence = (uint64_t)sqlite3_column_int64(row, 1),
        .fence_room = SQ_FENCE_ROOM,
        .remaining_ms = (sqlite3_column_int64(row, 5) - scan->now_ns) / DL_NS_PER_MS,
        .held_ms = (scan->now_ns - sqlite3_column_int64(row, 4)) / DL_NS_PER_MS,
        .owner = holder->owner,
        .label = (const char *)holder->text + name_len,
        .limit = (uint32_t)sqlite3_column_int64(row, 9),
        .permit = (uint32_t)sqlite3_column_int64(row, 10),
        .kept = kept,
        .data_len = data_len,
        .data = data_len > 0 ? holder->text + name_len + label_len + 1 : NULL,
    };
    if (holder->info.limit == 1)
        holder->info.limit = 0; /* a kept lock */
    *scan->last = holder;
    scan->last = &holder->next;
    return SQLITE_OK;
}

static int scan_bind(const struct scan *scan, sqlite3_stmt *row, const unsigned char *prefix,
                     uint32_t prefix_len)
{
    int rc = prefix_len > 0
                 ? sqlite3_bind_blob(row, SQ_P_NAME, prefix, (int)prefix_len, SQLITE_STATIC)
                 : sqlite3_bind_zeroblob(row, SQ_P_NAME, 0);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(row, SQ_P_BOOT, scan->session->clock.boot, SQ_BOOT_SIZE,
                               SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(row, SQ_P_NOW, scan->now_ns);
    return rc;
}

/* All rows of the statement whose names begin with prefix. They come in the order of names. */
static int holders_read(struct scan *scan, enum sqlite_statement which, const unsigned char *prefix,
                        uint32_t prefix_len)
{
    struct sqlite_db *db = &scan->session->db;
    sqlite3_stmt *row = NULL;
    int rc = sqlite_db_statement(db, which, &row);

    if (rc == SQLITE_OK)
        rc = scan_bind(scan, row, prefix, prefix_len);
    if (rc == SQLITE_OK)
        rc = sqlite_db_step(db, which);
    while (rc == SQLITE_ROW) {
        if ((size_t)sqlite3_column_bytes(row, 0) < prefix_len ||
            (prefix_len > 0 && memcmp(sqlite3_column_blob(row, 0), prefix, prefix_len) != 0)) {
            rc = SQLITE_DONE;
            break;
        }
        rc = holder_add(scan, row);
        if (rc == SQLITE_OK)
            rc = sqlite_db_step(db, which);
    }
    sqlite_db_reset(db, which);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Frees the holders; tells fn about them until it returns non-zero. NULL: about none. */
static void holders_report(struct scan *scan, dlock_holder_fn *fn, void *arg)
{
    while (scan->first != NULL) {
        struct holder *holder = scan->first;

        scan->first = holder->next;
        if (fn != NULL && fn(arg, &holder->info))
            fn = NULL;
        free(holder);
    }
}

static enum dlock_status inspect(struct sqlite_session *session, enum sqlite_statement which,
                                 const unsigned char *prefix, uint32_t prefix_len,
                                 dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct scan scan = {.session = session, .now_ns = sqlite_clock_now(&session->clock)};
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = SQLITE_OK;

    scan.last = &scan.first;
    rc = holders_read(&scan, which, prefix, prefix_len);
    status = rc == SQLITE_OK ? sqlite_db_check_unmoved(&session->db, err)
                             : sqlite_db_fail(&session->db, rc, err);
    holders_report(&scan, status == DLOCK_OK ? fn : NULL, arg);
    return status;
}

enum dlock_status sqlite_inspect_name(struct sqlite_session *session, const unsigned char *name,
                                      uint32_t name_len, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    return inspect(session, SQ_INSPECT, name, name_len, fn, arg, err);
}

enum dlock_status sqlite_inspect_prefix(struct sqlite_session *session, const unsigned char *prefix,
                                        uint32_t prefix_len, dlock_holder_fn *fn, void *arg,
                                        struct dlock_error *err)
{
    return inspect(session, SQ_LIST, prefix, prefix_len, fn, arg, err);
}

/* Numbers the waiters. */
struct waiters {
    dlock_waiter_fn *fn;
    void *arg;
    uint32_t count;
};

static bool waiter_report(void *arg, const struct dlock_holder *row)
{
    struct waiters *waiters = arg;
    struct dlock_waiter waiter = {
        .struct_size = sizeof waiter,
        .mode = row->mode,
        .position = waiters->count++,
        .waited_ms = row->held_ms,
        .owner = row->owner,
        .label = row->label,
    };

    return waiters->fn(waiters->arg, &waiter);
}

enum dlock_status sqlite_inspect_waiters(struct sqlite_session *session, const unsigned char *name,
                                         uint32_t name_len, dlock_waiter_fn *fn, void *arg,
                                         struct dlock_error *err)
{
    struct waiters waiters = {.fn = fn, .arg = arg};

    return inspect(session, SQ_INSPECT_WAITERS, name, name_len, waiter_report, &waiters, err);
}
