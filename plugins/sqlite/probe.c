/* SPDX-License-Identifier: MIT */
/* The checks of doctor. */
#include "filesystem.h"
#include "session.h"
#include "trust.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPCODES_PER_CHECK 4000 /* of SQLite's machine, between two readings of the clock */

struct report {
    dlock_check_fn *fn; /* NULL: no reports */
    void *arg;
};

__attribute__((format(printf, 5, 6))) static void check_report(const struct report *report,
                                                               const char *name, const char *advice,
                                                               uint32_t clears, const char *format,
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
                 sqlite_filesystem_is_local(session->config.directory)
                     ? NULL
                     : "locks of other hosts may not be seen",
                 0, "%s", sqlite_filesystem_name(session->config.directory, magic, sizeof magic));
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

enum dlock_status sqlite_probe_report(struct sqlite_session *session, dlock_check_fn *fn, void *arg,
                                      struct dlock_error *err)
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
