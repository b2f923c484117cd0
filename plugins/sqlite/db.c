/* SPDX-License-Identifier: MIT */
#include "db.h"
#include "lib/text.h"

#include "clock.h"
#include "config.h"
#include "errmap.h"
#include "layout.h"
#include "os_error.h"
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int option, value;
} dbconfigs[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},   {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},          {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
};

/* SQLite does not tell its configuration, but without threads a connection has no mutex. */
bool sqlite_db_is_threadsafe(void)
{
    sqlite3 *handle = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    int rc = sqlite3_threadsafe() == 0 ? SQLITE_MISUSE
                                       : sqlite3_open_v2(":memory:", &handle, flags, NULL);
    bool safe = rc == SQLITE_NOMEM || (rc == SQLITE_OK && sqlite3_db_mutex(handle) != NULL);

    (void)sqlite3_close_v2(handle);
    return safe;
}

/* "file:<path>?immutable=1": SQLite makes no -wal and -shm. NULL: no memory. Caller frees. */
static char *snapshot_uri(const char *path)
{
    char escaped[3 * SQ_REAL_MAX + 1], *end = escaped, *uri = NULL;

    for (; *path != '\0'; path++) {
        if (strchr("%?#", *path) == NULL) {
            *end++ = *path;
        } else {
            *end++ = '%';
            dl_hex_encode(end, path, 1);
            end += 2;
        }
    }
    *end = '\0';
    return asprintf(&uri, "file:%s?immutable=1", escaped) < 0 ? NULL : uri;
}

enum dlock_status sqlite_db_connect(const struct sqlite_config *config, sqlite3 **handle,
                                    struct dlock_error *err)
{
    enum dlock_status status = sqlite_trust_check(config, err);
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE |
                SQLITE_OPEN_NOFOLLOW;
    char *uri = NULL;
    int rc = SQLITE_NOMEM;

    if (status != DLOCK_OK)
        return status;
    flags |= config->access == SQ_ACCESS_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (config->access == SQ_ACCESS_SNAPSHOT) {
        uri = snapshot_uri(config->real);
        flags |= SQLITE_OPEN_URI;
    }
    /* The VFS by name: a program may have made another one its default. */
    if (sqlite_trust_vfs() != NULL && (config->access != SQ_ACCESS_SNAPSHOT || uri != NULL))
        rc = sqlite3_open_v2(uri != NULL ? uri : config->real, handle, flags, sqlite_trust_vfs());
    free(uri);
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof dbconfigs / sizeof dbconfigs[0]; i++)
        rc = sqlite3_db_config(*handle, dbconfigs[i].option, dbconfigs[i].value, NULL);
    if (rc == SQLITE_OK)
        return DLOCK_OK;
    return sqlite_errmap_fail(err, *handle, config, sqlite_errmap_status(rc), rc);
}

enum dlock_status sqlite_db_trust(sqlite3 *handle, const struct sqlite_config *config,
                                  bool index_too, struct dlock_error *err)
{
    enum dlock_status status = sqlite_trust_check_open(config, index_too, err);

    if (status == DLOCK_OK)
        (void)sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return status;
}

enum dlock_status sqlite_db_check_writable(sqlite3 *handle, const struct sqlite_config *config,
                                           struct dlock_error *err)
{
    if (config->access != SQ_ACCESS_WRITE || sqlite3_db_readonly(handle, "main") == 0)
        return DLOCK_OK;
    return sqlite_config_read_only(config, err);
}

enum dlock_status sqlite_db_fail(struct sqlite_db *db, int rc, struct dlock_error *err)
{
    return sqlite_errmap_fail(err, db->handle, db->config, sqlite_errmap_status(rc), rc);
}

static int wait_busy(void *arg, int round)
{
    const struct sqlite_db *db = arg;

    return sqlite_clock_nap(round, db->until_ns);
}

/* The log, the shared memory and the wake file are beside the path: a file that is mounted by
 * itself has another set of them elsewhere, and there would be two holders. */
static enum dlock_status file_check_mount(const struct sqlite_config *config,
                                          struct dlock_error *err)
{
    struct statx st;

    if (statx(AT_FDCWD, config->real, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) != 0)
        return sqlite_os_error_fail(err, config->path, "examine", errno);
    if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.150s is mounted by itself; mount its directory instead", config->path);
    return DLOCK_OK;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* Remembers which file is open, if SQLite and the path agree. */
static enum dlock_status file_remember(struct sqlite_db *db, struct dlock_error *err)
{
    struct stat real, asked;
    enum dlock_status status = file_check_mount(db->config, err);
    int moved = 0;

    if (status != DLOCK_OK)
        return status;
    if (stat(db->config->real, &real) == 0 && stat(db->config->path, &asked) == 0 &&
        sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
        !moved && same_file(&real, &asked)) {
        if (!sqlite_config_may_follow(db->config->directory, &real))
            return sqlite_config_refuse(db->config->path, err);
        db->opened = real;
        (void)stat("/", &db->root);
        return DLOCK_OK;
    }
    return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "%.200s was replaced while it was opened", db->config->path);
}

static enum dlock_status file_check(struct sqlite_db *db, struct dlock_error *err)
{
    bool empty = false;
    enum dlock_status status = sqlite_layout_identify(db->handle, db->config, &empty, err);

    if (status != DLOCK_OK)
        return status;
    if (empty && !db->config->create)
        return sqlite_config_no_store(db->config, err);
    if (empty)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%.200s was emptied while it was opened", db->config->path);
    if (db->config->access != SQ_ACCESS_SNAPSHOT) /* SQLite does not show the mode of a snapshot */
        status = sqlite_layout_check_wal(db->handle, db->config, err);
    if (db->config->access != SQ_ACCESS_SNAPSHOT && status == DLOCK_OK)
        status = sqlite_db_trust(db->handle, db->config, true, err);
    return status == DLOCK_OK ? file_remember(db, err) : status;
}

/* The file is not mapped: if somebody cut it short, a mapping would raise SIGBUS. */
static int settings_make(struct sqlite_db *db)
{
    int rc = sqlite3_busy_handler(db->handle, wait_busy, db);

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle, "PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON", NULL,
                          NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle,
                          db->config->full ? "PRAGMA synchronous = FULL"
                                           : "PRAGMA synchronous = NORMAL",
                          NULL, NULL, NULL);
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

/* The statements of every lock. To prepare all would take as long as the rest of opening. */
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

enum dlock_status sqlite_db_open(struct sqlite_db *db, const struct sqlite_config *config,
                                 struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = SQLITE_OK;

    db->config = config;
    status = sqlite_db_connect(config, &db->handle, err);
    if (status == DLOCK_OK)
        status = sqlite_db_check_writable(db->handle, config, err);
    if (status != DLOCK_OK)
        return status;
    rc = settings_make(db);
    if (rc != SQLITE_OK)
        return sqlite_db_fail(db, rc, err);
    status = file_check(db, err);
    if (status != DLOCK_OK)
        return status;
    if (config->create)
        rc = sqlite_layout_upgrade(db->handle);
    else
        status = sqlite_layout_check_version(db->handle, config, err);
    if (status != DLOCK_OK || config->access != SQ_ACCESS_WRITE)
        return status;
    if (rc == SQLITE_OK)
        rc = statements_prepare(db);
    return rc == SQLITE_OK ? DLOCK_OK : sqlite_db_fail(db, rc, err);
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

static void writers_exit(struct sqlite_db *db)
{
    sqlite_wake_file_exit(&db->wake_file, db->entered, &db->wake_set);
    db->entered = false;
}

/* The ticket lock only keeps order. A call that does not get it in half of its time goes to
 * SQLite's lock without it, so that a ticket lock that is stuck stops nobody. */
enum dlock_status sqlite_db_begin(struct sqlite_db *db, struct dlock_error *err)
{
    int64_t now_ns = sqlite_clock_boottime();
    int rc = SQLITE_OK;

    db->entered = sqlite_wake_file_enter(&db->wake_file, now_ns + (db->until_ns - now_ns) / 2);
    db->wake_set = (struct sqlite_wake_set){.any = false};
    rc = run(db, SQ_BEGIN);
    if (rc == SQLITE_OK)
        return DLOCK_OK;
    (void)sqlite_db_fail(db, rc, err);
    writers_exit(db);
    return err->status;
}

void sqlite_db_rollback(struct sqlite_db *db)
{
    if (!sqlite3_get_autocommit(db->handle))
        (void)run(db, SQ_ROLLBACK);
    writers_exit(db);
}

/* 0: the open file is the one at the path. ESTALE: it is not. Others: not known, as after a chroot
 * of this process. */
static int path_compare(const struct sqlite_db *db)
{
    struct stat st, root;
    int number = 0;

    if (stat(db->config->path, &st) == 0)
        return same_file(&st, &db->opened) ? 0 : ESTALE;
    number = errno;
    if ((number == ENOENT || number == ENOTDIR) &&
        (stat("/", &root) != 0 || same_file(&root, &db->root)))
        return ESTALE;
    return number;
}

static enum dlock_status path_judge(const struct sqlite_db *db, int number, struct dlock_error *err)
{
    if (number == 0)
        return DLOCK_OK;
    if (number != ESTALE)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, number, "cannot examine %.180s: %s",
                          db->config->path, strerrordesc_np(number));
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                      "%.150s is no longer the file that this program opened: it was moved, "
                      "removed or replaced",
                      db->config->path);
}

/* A change is in -wal first, and in the file when -wal is gone. */
static bool snapshot_holds(const struct sqlite_db *db)
{
    struct stat st;

    return !sqlite_config_has_sibling(db->config, "-wal") && stat(db->config->real, &st) == 0 &&
           st.st_size == db->opened.st_size && st.st_mtim.tv_sec == db->opened.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == db->opened.st_mtim.tv_nsec;
}

enum dlock_status sqlite_db_check_unmoved(struct sqlite_db *db, struct dlock_error *err)
{
    enum dlock_status status = path_judge(db, path_compare(db), err);

    if (status == DLOCK_OK && db->config->access == SQ_ACCESS_SNAPSHOT && !snapshot_holds(db))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%.180s was opened by others while it was read; try again",
                          db->config->path);
    return status;
}

static enum dlock_status commit(struct sqlite_db *db, enum dlock_status status,
                                struct dlock_error *err)
{
    int rc = SQLITE_OK;

    if (status == DLOCK_OK) {
        rc = run(db, SQ_COMMIT);
        if (rc != SQLITE_OK)
            status = sqlite_errmap_fail(err, db->handle, db->config,
                                        sqlite_errmap_commit_status(rc), rc);
    }
    sqlite_db_rollback(db); /* nothing after a COMMIT that worked */
    return status;
}

enum dlock_status sqlite_db_commit(struct sqlite_db *db, struct dlock_error *err)
{
    return commit(db, sqlite_db_check_unmoved(db, err), err);
}

enum dlock_status sqlite_db_commit_end(struct sqlite_db *db, struct dlock_error *err)
{
    int number = path_compare(db);

    return commit(db, number == ESTALE ? path_judge(db, number, err) : DLOCK_OK, err);
}
