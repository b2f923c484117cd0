/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/text.h"
#include "life.h"
#include "name.h"
#include "session.h"
#include "trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The rows are copied first: a callback may take its time, and SQLite cannot shorten its log during
 * a read transaction. */

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

static int64_t remaining_ms(int64_t left_ns)
{
    return sqlite_name_is_endless(left_ns) ? -1 : left_ns / DL_NS_PER_MS;
}

static int holder_add(struct scan *scan, sqlite3_stmt *row)
{
    const void *name = sqlite3_column_blob(row, 0);
    size_t name_len = (size_t)sqlite3_column_bytes(row, 0);
    const char *label = (const char *)sqlite3_column_text(row, 6);
    size_t label_len = label != NULL ? sqlite_life_label_len(label) : 0;
    unsigned char data[DLOCK_DATA_MAX];
    uint32_t data_len = label != NULL ? sqlite_life_label_data(data, label) : 0;
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
        .fence_last = (uint64_t)sqlite3_column_int64(row, 1) + SQ_FENCE_ROOM,
        .remaining_ms = remaining_ms(sqlite3_column_int64(row, 5) - scan->now_ns),
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

/* The checks of doctor. */

#define OPCODES_PER_CHECK 4000 /* of SQLite's machine, between two readings of the clock */

struct report {
    dlock_check_fn *fn; /* NULL: no reports */
    void *arg;
};

__attribute__((format(printf, 5, 6))) static void check_report(const struct report *report,
                                                               const char *name, const char *advice,
                                                               uint64_t clears, const char *format,
                                                               ...)
{
    char found[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(found, sizeof found, format, args);
    va_end(args);
    if (report->fn != NULL)
        report->fn(report->arg, &(struct dlock_check){
                                    .struct_size = sizeof(struct dlock_check),
                                    .name = name,
                                    .found = found,
                                    .advice = advice,
                                    .clears = clears,
                                });
}

static void check_file(const struct sqlite_session *session, const struct report *report)
{
    char *wal = sqlite_config_sibling(&session->config, "-wal");
    struct stat st = {0}, log = {0};
    char magic[16];

    (void)stat(session->config.real, &st);
    if (wal != NULL)
        (void)stat(wal, &log);
    free(wal);
    check_report(report, "file", NULL, 0, "%.200s", session->config.real);
    check_report(report, "mode", NULL, 0, "%04o, uid %u", st.st_mode & 07777u, st.st_uid);
    check_report(report, "size", NULL, 0, "%lld bytes, and %lld in the log", (long long)st.st_size,
                 (long long)log.st_size);
    check_report(report, "file system",
                 sqlite_config_is_local(session->config.directory)
                     ? NULL
                     : "locks of other hosts may not be seen",
                 0, "%s", sqlite_config_filesystem(session->config.directory, magic, sizeof magic));
}

/* A store that is not shared is no error, but two users who both use "the default store" may think
 * that it is one. */
static void check_users(const struct sqlite_session *session, const struct report *report)
{
    struct stat st = {0}, directory = {0};
    const char *users = "of its owner";
    bool others = false, of_everybody = false;

    (void)stat(session->config.real, &st);
    (void)stat(session->config.directory, &directory);
    others = sqlite_trust_others_may_make(&session->config, &st);
    of_everybody = (directory.st_mode & S_IWOTH) != 0;
    if ((st.st_mode & S_IWOTH) != 0)
        users = "of all users";
    else if ((st.st_mode & S_IWGRP) != 0 && !others)
        users = "of its owner and its group";
    else if (st.st_uid == geteuid())
        users = "this store is yours alone: other users lock in other stores";
    check_report(report, "users",
                 others && of_everybody
                     ? "other users may make files beside it, and keep new processes out by them; "
                       "use a directory that they cannot write"
                     : NULL,
                 0, "%s", users);
}

static void check_guarantees(const struct sqlite_session *session, const struct report *report)
{
    const struct sqlite_wake_file *wake_file = &session->db.wake_file;

    check_report(
        report, "sync",
        session->config.full
            ? NULL
            : "if fences must rise after a power failure even with a wrong wall clock, add "
              "sync=full to the URI of all programs: it writes each fence to the disk "
              "first; otherwise nothing has to be done",
        session->config.full ? 0 : DLOCK_CAP_FENCE_DURABLE, "%s",
        session->config.full ? "full" : "normal");
    if (session->config.access != SQ_ACCESS_WRITE)
        check_report(report, "access", "this user may inspect locks, but not lock", 0, "read only");
    else
        check_report(report, "wake file",
                     wake_file->why[0] == '\0'
                         ? NULL
                         : "waiters poll: locking works, but slower under contention",
                     0, "%s", wake_file->why[0] == '\0' ? "in use" : wake_file->why);
    check_report(report, "time namespace", NULL, 0, "%lld s from the host's",
                 (long long)(session->clock.offset_ns / DL_NS_PER_S));
}

static int is_past_deadline(void *arg)
{
    const struct sqlite_db *db = arg;

    return sqlite_clock_boottime() >= db->until_ns;
}

static enum dlock_status check_integrity(struct sqlite_session *session,
                                         const struct report *report, struct dlock_error *err)
{
    struct sqlite_db *db = &session->db;
    sqlite3_stmt *check = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &check, NULL);

    sqlite3_progress_handler(db->handle, OPCODES_PER_CHECK, is_past_deadline, db);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(check);
    if (rc == SQLITE_ROW) {
        const char *found = (const char *)sqlite3_column_text(check, 0);
        bool fine = found != NULL && sqlite3_stricmp(found, "ok") == 0;

        check_report(report, "integrity",
                     fine ? NULL
                          : "stop the programs that use the file and remove it; a new one is made",
                     0, "%.200s", found != NULL ? found : "no answer");
        status = DLOCK_OK;
    } else {
        status = sqlite_db_fail(db, rc, err);
    }
    (void)sqlite3_finalize(check);
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    return status;
}

enum dlock_status sqlite_inspect_report(struct sqlite_session *session, dlock_check_fn *fn,
                                        void *arg, struct dlock_error *err)
{
    struct report report = {.fn = fn, .arg = arg};
    enum dlock_status status = sqlite_db_check_unmoved(&session->db, err);

    if (status != DLOCK_OK)
        return status;
    check_file(session, &report);
    check_users(session, &report);
    check_guarantees(session, &report);
    return check_integrity(session, &report, err);
}
