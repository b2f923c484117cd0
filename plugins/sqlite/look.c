/* SPDX-License-Identifier: MIT */
/* Who holds what. The rows are copied first: a callback may take its time, and a read transaction
 * that stays open keeps SQLite's log from being cut. */
#include "name.h"
#include "sqlite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct holder {
    struct holder *next;
    struct dlock_holder info;
    char owner[SQ_HEX_SIZE];
    unsigned char text[]; /* the name, then the label with its NUL */
};

struct look {
    struct sqlite_session *session;
    int64_t now_ns;
    struct holder *first, **last;
};

int sqlite_unhex(unsigned char *token, const char *hex)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 2 * (size_t)DLOCK_TOKEN_SIZE; i++) {
        const char *digit = hex[i] != '\0' ? strchr(digits, hex[i]) : NULL;

        if (digit == NULL)
            return 0;
        token[i / 2] = (unsigned char)(token[i / 2] << 4 | (digit - digits));
    }
    return hex[2 * (size_t)DLOCK_TOKEN_SIZE] == '\0';
}

void sqlite_hex(char *hex, const unsigned char *token)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < DLOCK_TOKEN_SIZE; i++) {
        hex[2 * i] = digits[token[i] >> 4];
        hex[2 * i + 1] = digits[token[i] & 15];
    }
    hex[2 * (size_t)DLOCK_TOKEN_SIZE] = '\0';
}

static int holder_add(struct look *look, sqlite3_stmt *row)
{
    const void *name = sqlite3_column_blob(row, 0);
    size_t name_len = (size_t)sqlite3_column_bytes(row, 0);
    const unsigned char *label = sqlite3_column_text(row, 6);
    size_t label_len = label != NULL ? (size_t)sqlite3_column_bytes(row, 6) : 0;
    struct holder *holder = NULL;

    if (name == NULL)
        return SQLITE_OK;
    holder = calloc(1, sizeof *holder + name_len + label_len + 1);
    if (holder == NULL)
        return SQLITE_NOMEM;
    memcpy(holder->text, name, name_len);
    if (label_len > 0)
        memcpy(holder->text + name_len, label, label_len);
    sqlite_hex(holder->owner, sqlite3_column_blob(row, 2));
    holder->info = (struct dlock_holder){
        .struct_size = sizeof(struct dlock_holder),
        .name = holder->text,
        .name_len = (uint32_t)name_len,
        .mode = (uint32_t)sqlite3_column_int64(row, 7),
        .waiters = (uint32_t)sqlite3_column_int64(row, 8),
        .fence = (uint64_t)sqlite3_column_int64(row, 1),
        .fence_room = SQ_FENCE_ROOM,
        .remaining_ms = (sqlite3_column_int64(row, 5) - look->now_ns) / DL_NS_PER_MS,
        .held_ms = (look->now_ns - sqlite3_column_int64(row, 4)) / DL_NS_PER_MS,
        .owner = holder->owner,
        .label = (const char *)holder->text + name_len,
    };
    *look->last = holder;
    look->last = &holder->next;
    return SQLITE_OK;
}

static int look_bind(const struct look *look, sqlite3_stmt *row, const unsigned char *prefix,
                     uint32_t prefix_len)
{
    int rc = prefix_len > 0
                 ? sqlite3_bind_blob(row, SQ_P_NAME, prefix, (int)prefix_len, SQLITE_STATIC)
                 : sqlite3_bind_zeroblob(row, SQ_P_NAME, 0);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(row, SQ_P_BOOT, look->session->clock.boot, SQ_BOOT_SIZE,
                               SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(row, SQ_P_NOW, look->now_ns);
    return rc;
}

/* All rows of the statement whose names begin with prefix; they come in order. */
static int holders_read(struct look *look, enum sqlite_statement which, const unsigned char *prefix,
                        uint32_t prefix_len)
{
    struct sqlite_db *db = &look->session->db;
    sqlite3_stmt *row = NULL;
    int rc = sqlite_db_statement(db, which, &row);

    if (rc == SQLITE_OK)
        rc = look_bind(look, row, prefix, prefix_len);
    if (rc == SQLITE_OK)
        rc = sqlite_db_step(db, which);
    while (rc == SQLITE_ROW) {
        if ((size_t)sqlite3_column_bytes(row, 0) < prefix_len ||
            (prefix_len > 0 && memcmp(sqlite3_column_blob(row, 0), prefix, prefix_len) != 0)) {
            rc = SQLITE_DONE;
            break;
        }
        rc = holder_add(look, row);
        if (rc == SQLITE_OK)
            rc = sqlite_db_step(db, which);
    }
    sqlite_db_reset(db, which);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void holders_tell(struct look *look, dlock_holder_fn *fn, void *arg)
{
    int stop = 0;

    while (look->first != NULL) {
        struct holder *holder = look->first;

        look->first = holder->next;
        if (!stop)
            stop = fn(arg, &holder->info);
        free(holder);
    }
}

static bool tell_nobody(void *arg, const struct dlock_holder *lease)
{
    (void)arg;
    (void)lease;
    return 1;
}

static enum dlock_status look(struct sqlite_session *session, enum sqlite_statement which,
                              const unsigned char *prefix, uint32_t prefix_len, dlock_holder_fn *fn,
                              void *arg, struct dlock_error *err)
{
    struct look look = {.session = session, .now_ns = sqlite_clock_now(&session->clock)};
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = SQLITE_OK;

    look.last = &look.first;
    rc = holders_read(&look, which, prefix, prefix_len);
    if (rc != SQLITE_OK)
        status = sqlite_db_fail(err, session->db.handle, &session->place, sqlite_status_of(rc), rc);
    else
        status = sqlite_db_unmoved(&session->db, err);
    holders_tell(&look, status == DLOCK_OK ? fn : tell_nobody, arg);
    return status;
}

enum dlock_status sqlite_look_inspect(struct sqlite_session *session, const unsigned char *name,
                                      uint32_t name_len, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    return look(session, SQ_INSPECT, name, name_len, fn, arg, err);
}

enum dlock_status sqlite_look_list(struct sqlite_session *session, const unsigned char *prefix,
                                   uint32_t prefix_len, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err)
{
    return look(session, SQ_LIST, prefix, prefix_len, fn, arg, err);
}
