/* SPDX-License-Identifier: MIT */
#include "setup.h"

#include "db.h"
#include "directory.h"
#include "errmap.h"
#include "layout.h"
#include "os_error.h"
#include "wake_map.h"

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

static enum dlock_status file_make(const struct sqlite_config *config,
                                   const struct siblings *siblings, int directory_fd,
                                   struct dlock_error *err)
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
        (void)fsync(directory_fd);
    }
    return DLOCK_OK;
}

/* OK: nobody else had the file open, and it is a store now if it was empty. BUSY: somebody has it
 * open. After the first read in exclusive mode the file stays locked until the connection is
 * closed; user_version is the shortest read: the schema takes as long as the rest of opening. */
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
        return DLOCK_BUSY;
    if (rc == SQLITE_OK && status == DLOCK_OK)
        return sqlite_db_trust(handle, config, false, err);
    if (rc == SQLITE_OK)
        return status;
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

static enum dlock_status setup_locked(const struct sqlite_config *config,
                                      const struct siblings *siblings, int directory_fd,
                                      int64_t until_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (file_is_empty(config) && !config->create)
        return sqlite_config_no_store(config, err);
    if (file_is_empty(config))
        status = file_make(config, siblings, directory_fd, err);
    if (status != DLOCK_OK)
        return status;
    for (int round = 0; !file_is_ready(config, siblings); round++) {
        status = visit_alone(config, err);
        if (status != DLOCK_BUSY)
            return status;
        if (!sqlite_clock_nap(round, until_ns))
            return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, SQLITE_BUSY,
                              "%.100s is in use, but its -wal or -shm was removed; stop the "
                              "programs that use it",
                              config->path);
    }
    return DLOCK_OK;
}

enum dlock_status sqlite_setup_file(const struct sqlite_config *config,
                                    const struct sqlite_clock *clock, int64_t until_ns,
                                    int *directory_fd, struct dlock_error *err)
{
    struct siblings siblings = {0};
    enum dlock_status status = siblings_init(&siblings, config, err);
    bool log_of_another = false;

    *directory_fd = -1;
    (void)sqlite_wake_map_is_of_another(config, clock, &log_of_another);
    if (status == DLOCK_OK && (log_of_another || !file_is_ready(config, &siblings))) {
        *directory_fd = sqlite_directory_lock(config->directory, until_ns);
        if (*directory_fd < 0)
            status = sqlite_os_error_fail(err, config->directory, "lock directory", errno);
        else if (sqlite_wake_map_is_of_another(config, clock, &log_of_another))
            siblings_remove(&siblings, log_of_another);
        if (status == DLOCK_OK)
            status = setup_locked(config, &siblings, *directory_fd, until_ns, err);
    }
    siblings_fini(&siblings);
    return status;
}
