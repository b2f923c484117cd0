/* SPDX-License-Identifier: MIT */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNMOVED_NS (200 * DL_NS_PER_US)

struct dbconfig {
    int option, value;
};

static const struct dbconfig dbconfigs[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
};

/* The configuration cannot be asked for, but a connection has no mutex then. */
int sqlite_db_threadsafe(void)
{
    sqlite3 *handle = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    int rc = sqlite3_threadsafe() == 0 ? SQLITE_MISUSE
                                       : sqlite3_open_v2(":memory:", &handle, flags, NULL);
    int safe = rc == SQLITE_NOMEM || (rc == SQLITE_OK && sqlite3_db_mutex(handle) != NULL);

    (void)sqlite3_close_v2(handle);
    return safe;
}

/* "file:<path>?immutable=1": SQLite makes no -wal and -shm. NULL: no memory. Caller frees. */
static char *snapshot_uri(const char *path)
{
    static const char digits[] = "0123456789ABCDEF";
    char escaped[3 * SQ_REAL_MAX + 1], *end = escaped, *uri = NULL;

    for (; *path != '\0'; path++) {
        if (strchr("%?#", *path) == NULL) {
            *end++ = *path;
        } else {
            *end++ = '%';
            *end++ = digits[*path >> 4];
            *end++ = digits[*path & 15];
        }
    }
    *end = '\0';
    return asprintf(&uri, "file:%s?immutable=1", escaped) < 0 ? NULL : uri;
}

int sqlite_db_connect(const struct sqlite_place *place, sqlite3 **handle)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE |
                SQLITE_OPEN_NOFOLLOW;
    char *uri = NULL;
    int rc = SQLITE_NOMEM;

    flags |= place->access == SQ_ACCESS_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (place->access == SQ_ACCESS_SNAPSHOT) {
        uri = snapshot_uri(place->real);
        flags |= SQLITE_OPEN_URI;
    }
    /* The VFS by name: a program may have made another one its default. */
    if (place->access != SQ_ACCESS_SNAPSHOT || uri != NULL)
        rc = sqlite3_open_v2(uri != NULL ? uri : place->real, handle, flags, "unix");
    free(uri);
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof dbconfigs / sizeof dbconfigs[0]; i++)
        rc = sqlite3_db_config(*handle, dbconfigs[i].option, dbconfigs[i].value, NULL);
    return rc;
}

enum dlock_status sqlite_db_fail(struct dlock_error *err, sqlite3 *handle,
                                 const struct sqlite_place *place, enum dlock_status status, int rc)
{
    int number = handle != NULL ? sqlite3_system_errno(handle) : 0;
    int primary = rc & 0xff;

    if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
        return dlock_fail(err, SQ_ORIGIN, status, rc,
                          "%.180s: other processes kept it locked until the deadline", place->path);
    if (primary == SQLITE_NOTADB)
        return dlock_fail(err, SQ_ORIGIN, status, rc, "%.200s is not a SQLite database",
                          place->path);
    if ((primary == SQLITE_READONLY || primary == SQLITE_CANTOPEN) &&
        faccessat(AT_FDCWD, place->real, W_OK, AT_EACCESS) == 0 &&
        sqlite_place_closed(place) != 0) {
        number = sqlite_place_closed(place);
        return dlock_fail(err, SQ_ORIGIN, sqlite_status_of_errno(number), rc,
                          "cannot make -wal and -shm in directory %.180s: %s", place->directory,
                          strerrordesc_np(number));
    }
    if (number != 0 && (primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR))
        return dlock_fail(
            err, SQ_ORIGIN, primary == SQLITE_CANTOPEN ? sqlite_status_of_errno(number) : status,
            rc, "%.150s: %s: %s", place->path, sqlite3_errstr(rc), sqlite_errno_text(number));
    return dlock_fail(err, SQ_ORIGIN, status, rc, "%.150s: %s", place->path,
                      handle != NULL ? sqlite3_errmsg(handle) : sqlite3_errstr(rc));
}

enum dlock_status sqlite_db_writable(sqlite3 *handle, const struct sqlite_place *place,
                                     struct dlock_error *err)
{
    if (place->access != SQ_ACCESS_WRITE || sqlite3_db_readonly(handle, "main") == 0)
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, SQLITE_READONLY,
                      "%.200s may only be read: it or its file system is read-only", place->path);
}

static int wait_busy(void *arg, int round)
{
    const struct sqlite_db *db = arg;

    return sqlite_clock_nap(round, db->until_ns);
}

/* The log, the shared memory and the gate are beside the path: a file that is mounted by itself has
 * another set of them elsewhere, and there would be two holders. */
static enum dlock_status file_unmounted(const struct sqlite_place *place, struct dlock_error *err)
{
    struct statx st;

    if (statx(AT_FDCWD, place->real, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) != 0)
        return sqlite_fail_errno(err, place->path, "look at", errno);
    if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.150s is mounted by itself; mount its directory instead", place->path);
    return DLOCK_OK;
}

/* Remembers which file is open, by what SQLite and the path agree on. */
static enum dlock_status file_note(struct sqlite_db *db, struct dlock_error *err)
{
    struct stat real, asked;
    enum dlock_status status = file_unmounted(db->place, err);
    int moved = 0;

    if (status != DLOCK_OK)
        return status;
    if (stat(db->place->real, &real) == 0 && stat(db->place->path, &asked) == 0 &&
        sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
        !moved && real.st_ino == asked.st_ino && real.st_dev == asked.st_dev) {
        db->opened = real;
        return DLOCK_OK;
    }
    return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "%.200s was replaced while it was opened", db->place->path);
}

static enum dlock_status file_check(struct sqlite_db *db, struct dlock_error *err)
{
    int empty = 0;
    enum dlock_status status = sqlite_layout_identify(db->handle, db->place, &empty, err);

    if (status != DLOCK_OK)
        return status;
    if (empty && !db->place->create)
        return sqlite_place_no_store(db->place, err);
    if (empty)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%.200s was emptied while it was opened", db->place->path);
    if (db->place->access != SQ_ACCESS_SNAPSHOT) /* of that SQLite does not say it */
        status = sqlite_layout_is_wal(db->handle, db->place, err);
    return status == DLOCK_OK ? file_note(db, err) : status;
}

/* No mapping of the file itself: cut short by somebody, it would be a SIGBUS. */
static int settings_make(struct sqlite_db *db, int full)
{
    int rc = sqlite3_busy_handler(db->handle, wait_busy, db);

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle, "PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON", NULL,
                          NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle,
                          full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", NULL,
                          NULL, NULL);
    return rc;
}

int sqlite_db_statement(struct sqlite_db *db, enum sqlite_statement which, sqlite3_stmt **out)
{
    int rc = SQLITE_OK;

    if (db->statements[which] == NULL)
        rc = sqlite3_prepare_v3(db->handle, sqlite_statement_text[which], -1,
                                SQLITE_PREPARE_PERSISTENT, &db->statements[which], NULL);
    *out = db->statements[which];
    return rc;
}

/* What each lock needs. All of them would take as long as the rest of opening. */
static int statements_prepare(struct sqlite_db *db)
{
    static const enum sqlite_statement first[] = {SQ_BEGIN, SQ_COMMIT, SQ_ROLLBACK,
                                                  SQ_FIND,  SQ_TAKE,   SQ_RELEASE};
    sqlite3_stmt *statement = NULL;
    int rc = SQLITE_OK;

    for (size_t i = 0; rc == SQLITE_OK && i < sizeof first / sizeof first[0]; i++)
        rc = sqlite_db_statement(db, first[i], &statement);
    return rc;
}

enum dlock_status sqlite_db_open(struct sqlite_db *db, const struct sqlite_place *place, int full,
                                 struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = SQLITE_OK;

    db->place = place;
    rc = sqlite_db_connect(place, &db->handle);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(err, db->handle, place, sqlite_status_of(rc), rc);
    status = sqlite_db_writable(db->handle, place, err);
    if (status != DLOCK_OK)
        return status;
    rc = settings_make(db, full);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(err, db->handle, place, sqlite_status_of(rc), rc);
    status = file_check(db, err);
    if (status != DLOCK_OK)
        return status;
    if (place->access != SQ_ACCESS_WRITE)
        return sqlite_layout_is_present(db->handle, place, err);
    rc = sqlite_layout_upgrade(db->handle);
    if (rc == SQLITE_OK)
        rc = statements_prepare(db);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(err, db->handle, place, sqlite_status_of(rc), rc);
    return DLOCK_OK;
}

void sqlite_db_close(struct sqlite_db *db)
{
    for (int i = 0; i < SQ_STATEMENTS; i++) {
        (void)sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    (void)sqlite3_close_v2(db->handle);
    db->handle = NULL;
}

int sqlite_db_step(struct sqlite_db *db, enum sqlite_statement which)
{
    return sqlite3_step(db->statements[which]);
}

void sqlite_db_reset(struct sqlite_db *db, enum sqlite_statement which)
{
    (void)sqlite3_reset(db->statements[which]);
}

static int run(struct sqlite_db *db, enum sqlite_statement which)
{
    int rc = sqlite_db_step(db, which);

    sqlite_db_reset(db, which);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void gate_leave(struct sqlite_db *db)
{
    sqlite_gate_leave(&db->gate, db->gated, &db->wakes);
    db->gated = 0;
}

/* The gate only keeps order: whoever does not get it in half of the time goes to SQLite's lock
 * without it, so that a gate that is stuck stops nobody. */
static int gate_enter(struct sqlite_db *db)
{
    int64_t now_ns = sqlite_clock_boottime();

    return sqlite_gate_lock(&db->gate, now_ns + (db->until_ns - now_ns) / 2);
}

enum dlock_status sqlite_db_begin(struct sqlite_db *db, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = gate_enter(db);

    db->gated = rc == 0;
    db->wakes = (struct sqlite_wakes){0};
    rc = run(db, SQ_BEGIN);
    if (rc == SQLITE_OK)
        return DLOCK_OK;
    status = sqlite_db_fail(err, db->handle, db->place, sqlite_status_of(rc), rc);
    gate_leave(db);
    return status;
}

void sqlite_db_rollback(struct sqlite_db *db)
{
    if (!sqlite3_get_autocommit(db->handle))
        (void)run(db, SQ_ROLLBACK);
    gate_leave(db);
}

/* 0: the file at the path is the one that is open; ESTALE: it is not; others: not known. */
static int path_compare(const struct sqlite_db *db)
{
    struct stat st;

    if (stat(db->place->path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR ? ESTALE : errno;
    return st.st_ino == db->opened.st_ino && st.st_dev == db->opened.st_dev ? 0 : ESTALE;
}

static enum dlock_status path_judge(const struct sqlite_db *db, int number, struct dlock_error *err)
{
    if (number == 0)
        return DLOCK_OK;
    if (number != ESTALE)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, number, "cannot look at %.180s: %s",
                          db->place->path, strerrordesc_np(number));
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                      "%.150s is not the file any more that this program opened: it was moved, "
                      "removed or replaced",
                      db->place->path);
}

/* Changes are in -wal first, and in the file when that is gone. */
static int snapshot_holds(const struct sqlite_db *db)
{
    struct stat st;

    return !sqlite_place_has(db->place, "-wal") && stat(db->place->real, &st) == 0 &&
           st.st_size == db->opened.st_size && st.st_mtim.tv_sec == db->opened.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == db->opened.st_mtim.tv_nsec;
}

enum dlock_status sqlite_db_unmoved(struct sqlite_db *db, struct dlock_error *err)
{
    enum dlock_status status = path_judge(db, path_compare(db), err);

    if (status == DLOCK_OK && db->place->access == SQ_ACCESS_SNAPSHOT && !snapshot_holds(db))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%.180s was opened by others while it was read; try again",
                          db->place->path);
    return status;
}

static enum dlock_status commit(struct sqlite_db *db, enum dlock_status status,
                                struct dlock_error *err)
{
    int rc = SQLITE_OK;

    if (status == DLOCK_OK) {
        rc = run(db, SQ_COMMIT);
        if (rc != SQLITE_OK)
            status = sqlite_db_fail(err, db->handle, db->place, sqlite_status_of_commit(rc), rc);
    }
    sqlite_db_rollback(db); /* nothing after a COMMIT that worked */
    return status;
}

enum dlock_status sqlite_db_commit(struct sqlite_db *db, struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_unmoved(db, err);

    db->unmoved_ns = status == DLOCK_OK ? sqlite_clock_boottime() : 0;
    return commit(db, status, err);
}

/* A waiter that this grants the name to compares the paths itself before it believes the grant. */
enum dlock_status sqlite_db_commit_release(struct sqlite_db *db, struct dlock_error *err)
{
    int number = 0;

    if (db->unmoved_ns == 0 || sqlite_clock_boottime() - db->unmoved_ns >= UNMOVED_NS)
        number = path_compare(db);
    return commit(db, number == ESTALE ? path_judge(db, number, err) : DLOCK_OK, err);
}
