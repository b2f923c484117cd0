/* SPDX-License-Identifier: MIT */
/*
 * The first open of a store.
 *
 * A program that opens a file in WAL mode makes -wal and -shm if they are missing. They are missing
 * when nobody uses the file. They are also missing when somebody removed them, or moved another
 * file to its name, under running programs, which go on with the old ones: there would be two sets
 * of locks. So if they are missing, the file is opened once in exclusive mode, in which SQLite
 * needs no -shm and gets the file only if nobody uses it. Processes do this one at a time
 * (lock_file.h).
 *
 * When another database was moved to the name, -wal and -shm may belong to the one before, and may
 * still be in use; the wake file tells.
 */
#include "session.h"

#include "db.h"
#include "errmap.h"
#include "layout.h"
#include "lock_file.h"
#include "os_error.h"
#include "trust.h"
#include "wake_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct siblings {
    char *wal, *shm, *wake;
};

static enum dlock_status siblings_init(struct siblings *siblings,
                                       const struct sqlite_config *config, struct dlock_error *err)
{
    siblings->wal = sqlite_config_sibling(config, "-wal");
    siblings->shm = sqlite_config_sibling(config, "-shm");
    siblings->wake = sqlite_config_sibling(config, SQ_WAKE_SUFFIX);
    if (siblings->wal == NULL || siblings->shm == NULL || siblings->wake == NULL)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a path");
    return DLOCK_OK;
}

static void siblings_fini(struct siblings *siblings)
{
    free(siblings->wal);
    free(siblings->shm);
    free(siblings->wake);
}

/* They belong to a database that had this path before. Programs that have it open keep using them
 * without names. */
static void siblings_remove(const struct siblings *siblings, bool log_too)
{
    if (log_too) {
        (void)unlink(siblings->wal);
        (void)unlink(siblings->shm);
    }
    (void)unlink(siblings->wake);
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static bool file_is_empty(const struct sqlite_config *config)
{
    struct stat st;

    return stat(config->real, &st) != 0 || st.st_size == 0;
}

static bool file_is_ready(const struct sqlite_config *config, const struct siblings *siblings)
{
    return !file_is_empty(config) && exists(siblings->wal) && exists(siblings->shm);
}

static void directory_sync(const struct sqlite_config *config)
{
    int fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)fsync(fd);
    (void)close(fd);
}

static enum dlock_status file_make(const struct sqlite_config *config,
                                   const struct siblings *siblings, struct dlock_error *err)
{
    int fd = -1;

    if (!exists(config->real))
        siblings_remove(siblings, true);
    fd = open(config->real, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return sqlite_os_error_fail(err, config->path, "make", errno);
    if (fd < 0 && !exists(config->real))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, EEXIST,
                          "%.200s is a symbolic link to nowhere", config->path);
    if (fd >= 0) {
        (void)close(fd);
        directory_sync(config);
    }
    return DLOCK_OK;
}

/* SQLite did not even get the lock of readers: the last user to close the store keeps it from
 * others while it removes -wal and -shm. */
static bool is_being_closed(sqlite3 *handle)
{
    int held = 0;

    return sqlite3_file_control(handle, "main", SQLITE_FCNTL_LOCKSTATE, &held) == SQLITE_OK &&
           held == SQLITE_LOCK_NONE;
}

/* Also of the database of another program SQLite removes the -wal that it made, or copies it. */
static enum dlock_status visit_end(sqlite3 *handle, const struct sqlite_config *config,
                                   enum dlock_status status, struct dlock_error *err)
{
    struct dlock_error unused = DLOCK_ERROR_INIT;
    enum dlock_status trust =
        sqlite_db_trust(handle, config, false, status == DLOCK_OK ? err : &unused);

    return status == DLOCK_OK ? trust : status;
}

/* OK: nobody else had the file open, and it is a store now if it was empty. BUSY: somebody has it
 * open. TIMEOUT: somebody is closing it. After the first read in exclusive mode the file stays
 * locked until the connection is closed; user_version is the shortest read: the schema takes as
 * long as the rest of opening. */
static enum dlock_status visit(sqlite3 *handle, const struct sqlite_config *config,
                               struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_check_writable(handle, config, err);
    bool empty = false;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    rc = sqlite3_exec(handle, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA user_version", NULL, NULL,
                      NULL);
    if (rc == SQLITE_OK)
        status = sqlite_layout_identify(handle, config, &empty, err);
    if (rc == SQLITE_OK && status == DLOCK_OK && empty && !config->create)
        return sqlite_config_no_store(config, err);
    if (rc == SQLITE_OK && status == DLOCK_OK && empty)
        rc = sqlite_layout_make(handle);
    if ((rc & 0xff) == SQLITE_BUSY)
        return is_being_closed(handle) ? DLOCK_TIMEOUT : DLOCK_BUSY;
    if (rc == SQLITE_OK)
        return visit_end(handle, config, status, err);
    status = sqlite_errmap_fail(err, handle, config, sqlite_errmap_status(rc), rc);
    return sqlite_errmap_limit(handle, status, err);
}

static enum dlock_status visit_alone(const struct sqlite_config *config, struct dlock_error *err)
{
    sqlite3 *handle = NULL;
    enum dlock_status status = sqlite_db_connect(config, &handle, err);

    if (status == DLOCK_OK)
        status = visit(handle, config, err);
    (void)sqlite3_close_v2(handle);
    return status;
}

static enum dlock_status still_in_use(const struct sqlite_config *config, enum dlock_status status,
                                      struct dlock_error *err)
{
    if (status == DLOCK_TIMEOUT)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, SQLITE_BUSY,
                          "%.150s: a process that closes it kept it locked until the deadline",
                          config->path);
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, SQLITE_BUSY,
                      "%.100s is in use, but its -wal or -shm was removed; stop the programs that "
                      "use it",
                      config->path);
}

static enum dlock_status setup_alone(const struct sqlite_config *config,
                                     const struct siblings *siblings, int64_t until_ns,
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (file_is_empty(config) && !config->create)
        return sqlite_config_no_store(config, err);
    if (file_is_empty(config))
        status = file_make(config, siblings, err);
    if (status != DLOCK_OK)
        return status;
    for (int round = 0; !file_is_ready(config, siblings); round++) {
        status = visit_alone(config, err);
        if (status != DLOCK_BUSY && status != DLOCK_TIMEOUT)
            return status;
        if (!sqlite_clock_nap(round, until_ns))
            return still_in_use(config, status, err);
    }
    return DLOCK_OK;
}

static enum dlock_status lock_failed(const struct sqlite_config *config, int number,
                                     struct dlock_error *err)
{
    if (exists(config->real) && !sqlite_config_may(config, R_OK))
        return sqlite_os_error_fail(err, config->path, "open", EACCES);
    if (exists(config->real) && !sqlite_config_may(config, W_OK))
        return sqlite_config_read_only(config, err);
    if (sqlite_config_directory_errno(config) != 0)
        return sqlite_os_error_fail(err, config->directory, "make files in directory", number);
    return dlock_fail(err, SQ_ORIGIN, sqlite_os_error_status(number), number,
                      "cannot lock %.150s" SQ_LOCK_SUFFIX ": %s", config->real,
                      sqlite_os_error_text(number));
}

enum dlock_status sqlite_setup_file(const struct sqlite_config *config,
                                    const struct sqlite_clock *clock, int64_t until_ns,
                                    int *lock_fd, struct dlock_error *err)
{
    struct siblings siblings = {0};
    enum dlock_status status = siblings_init(&siblings, config, err);
    bool log_of_another = false;

    *lock_fd = -1;
    if (status == DLOCK_OK && exists(config->real))
        status = sqlite_trust_check(config, err);
    (void)sqlite_wake_map_is_of_another(config, clock, &log_of_another);
    if (status == DLOCK_OK && (log_of_another || !file_is_ready(config, &siblings))) {
        *lock_fd = sqlite_lock_file_take(config, until_ns);
        if (*lock_fd < 0)
            status = lock_failed(config, errno, err);
        else if (sqlite_wake_map_is_of_another(config, clock, &log_of_another))
            siblings_remove(&siblings, log_of_another);
        if (status == DLOCK_OK)
            status = setup_alone(config, &siblings, until_ns, err);
    }
    siblings_fini(&siblings);
    return status;
}
