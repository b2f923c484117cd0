/* SPDX-License-Identifier: MIT */
/* What this store gives, for people who ask: a finding at a time. */
#include "sqlite.h"

#include <stdlib.h>
#include <sys/stat.h>

#define OPCODES_A_LOOK 4000 /* of SQLite's machine, between two looks at the clock */

struct report {
    dlock_check_fn *fn; /* NULL: nobody listens */
    void *arg;
};

__attribute__((format(printf, 5, 6))) static void tell(const struct report *report,
                                                       const char *name, const char *advice,
                                                       uint32_t clears, const char *format, ...)
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

static void tell_file(const struct sqlite_session *session, const struct report *report)
{
    char *wal = sqlite_place_sibling(&session->place, "-wal");
    struct stat st = {0}, log = {0};
    char magic[16];

    (void)stat(session->place.real, &st);
    if (wal != NULL)
        (void)stat(wal, &log);
    free(wal);
    tell(report, "file", NULL, 0, "%.200s", session->place.real);
    tell(report, "mode", NULL, 0, "%04o, uid %u", st.st_mode & 07777u, st.st_uid);
    tell(report, "size", NULL, 0, "%lld bytes, and %lld in the log", (long long)st.st_size,
         (long long)log.st_size);
    tell(report, "file system",
         sqlite_place_local(&session->place) ? NULL : "locks of other hosts may not be seen", 0,
         "%s", sqlite_place_fs(&session->place, magic, sizeof magic));
}

static void tell_guarantees(const struct sqlite_session *session, const struct report *report)
{
    const struct sqlite_gate *gate = &session->db.gate;

    tell(report, "sync",
         session->full
             ? NULL
             : "after a power failure the wall clock alone keeps fences rising; sync=full "
               "writes them down first",
         session->full ? 0 : DLOCK_CAP_FENCE_DURABLE, "%s", session->full ? "full" : "normal");
    if (session->place.access != SQ_ACCESS_WRITE)
        tell(report, "access", "this user may look, and not lock", 0, "reading only");
    else
        tell(report, "gate",
             gate->why[0] == '\0' ? NULL
                                  : "waiters poll; locking works, but slower under contention",
             0, "%s", gate->why[0] == '\0' ? "in use" : gate->why);
    tell(report, "time namespace", NULL, 0, "%lld s from the host's",
         (long long)(session->clock.offset_ns / DL_NS_PER_S));
}

static int deadline_passed(void *arg)
{
    const struct sqlite_db *db = arg;

    return sqlite_clock_boottime() >= db->until_ns;
}

static enum dlock_status tell_integrity(struct sqlite_session *session, const struct report *report,
                                        struct dlock_error *err)
{
    struct sqlite_db *db = &session->db;
    sqlite3_stmt *check = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &check, NULL);

    sqlite3_progress_handler(db->handle, OPCODES_A_LOOK, deadline_passed, db);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(check);
    if (rc == SQLITE_ROW) {
        const char *found = (const char *)sqlite3_column_text(check, 0);
        int fine = found != NULL && sqlite3_stricmp(found, "ok") == 0;

        tell(report, "integrity",
             fine ? NULL : "stop the programs that use the file and remove it; a new one is made",
             0, "%.200s", found != NULL ? found : "no answer");
        status = DLOCK_OK;
    } else {
        status = sqlite_db_fail(err, db->handle, &session->place, sqlite_status_of(rc), rc);
    }
    (void)sqlite3_finalize(check);
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    return status;
}

enum dlock_status sqlite_probe_report(struct sqlite_session *session, dlock_check_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    struct report report = {.fn = fn, .arg = arg};
    enum dlock_status status = sqlite_db_unmoved(&session->db, err);

    if (status != DLOCK_OK)
        return status;
    tell_file(session, &report);
    tell_guarantees(session, &report);
    return tell_integrity(session, &report, err);
}
