/* SPDX-License-Identifier: MIT */
/*
 * Before the first connection.
 *
 * Whoever opens a file in WAL mode makes -wal and -shm if they are missing. They are missing when
 * nobody uses the file; but also when somebody removed them, or moved another file to its name,
 * under running programs, which would then go on with the old ones: two sets of locks. So as long
 * as they are missing, the file is opened once in exclusive mode, in which SQLite needs no -shm and
 * gets the file only if it is in no use at all. Openers do this one at a time.
 *
 * When another database was moved to the name, -wal and -shm may be of the one before, and still in
 * use; the gate tells.
 */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct siblings {
    char *wal, *shm, *gate;
};

static enum dlock_status siblings_init(struct siblings *siblings, const struct sqlite_place *place,
                                       struct dlock_error *err)
{
    siblings->wal = sqlite_place_sibling(place, "-wal");
    siblings->shm = sqlite_place_sibling(place, "-shm");
    siblings->gate = sqlite_place_sibling(place, "-gate");
    if (siblings->wal == NULL || siblings->shm == NULL || siblings->gate == NULL)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a path");
    return DLOCK_OK;
}

static void siblings_fini(struct siblings *siblings)
{
    free(siblings->wal);
    free(siblings->shm);
    free(siblings->gate);
}

/* Of a file that was here before. Whoever has that one open goes on without names for them. */
static void siblings_remove(const struct siblings *siblings, int log_too)
{
    if (log_too) {
        (void)unlink(siblings->wal);
        (void)unlink(siblings->shm);
    }
    (void)unlink(siblings->gate);
}

static int exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static int file_empty(const struct sqlite_place *place)
{
    struct stat st;

    return stat(place->real, &st) != 0 || st.st_size == 0;
}

static int file_ready(const struct sqlite_place *place, const struct siblings *siblings)
{
    return !file_empty(place) && exists(siblings->wal) && exists(siblings->shm);
}

int sqlite_directory_lock(const char *directory, int64_t until_ns)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    for (int round = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; round++) {
        int rc = errno;

        if ((rc == EWOULDBLOCK || rc == EINTR) && sqlite_clock_nap(round, until_ns))
            continue;
        (void)close(fd);
        errno = rc == EWOULDBLOCK ? EBUSY : rc;
        return -1;
    }
    return fd;
}

void sqlite_directory_unlock(int fd)
{
    /* By name, since a forked child may keep the descriptor for a while. */
    (void)flock(fd, LOCK_UN);
    (void)close(fd);
}

static enum dlock_status file_make(const struct sqlite_place *place,
                                   const struct siblings *siblings, int directory_fd,
                                   struct dlock_error *err)
{
    int fd = -1;

    if (!exists(place->real))
        siblings_remove(siblings, 1);
    fd = open(place->real, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return sqlite_fail_errno(err, place->path, "make", errno);
    if (fd < 0 && !exists(place->real))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, EEXIST,
                          "%.200s is a symbolic link to nowhere", place->path);
    if (fd >= 0) {
        (void)close(fd);
        (void)fsync(directory_fd);
    }
    return DLOCK_OK;
}

/* What is read in exclusive mode is ours alone until the connection is closed. The least there is
 * to read: the schema takes as long as the rest. */
static int take_alone(sqlite3 *handle)
{
    int rc = sqlite3_exec(handle, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(handle, "PRAGMA user_version", NULL, NULL, NULL);
    return rc;
}

/* OK: nobody else had it open, and it is a store now if it was empty. BUSY: somebody has. */
static enum dlock_status visit(sqlite3 *handle, const struct sqlite_place *place,
                               struct dlock_error *err)
{
    enum dlock_status status = sqlite_db_writable(handle, place, err);
    int empty = 0;
    int rc = SQLITE_OK;

    if (status != DLOCK_OK)
        return status;
    rc = take_alone(handle);
    if (rc == SQLITE_OK)
        status = sqlite_layout_identify(handle, place, &empty, err);
    if (rc == SQLITE_OK && status == DLOCK_OK && empty && !place->create)
        return sqlite_place_no_store(place, err);
    if (rc == SQLITE_OK && status == DLOCK_OK && empty)
        rc = sqlite_layout_make(handle);
    if ((rc & 0xff) == SQLITE_BUSY)
        return DLOCK_BUSY;
    return rc == SQLITE_OK ? status : sqlite_db_fail(err, handle, place, sqlite_status_of(rc), rc);
}

static enum dlock_status visit_alone(const struct sqlite_place *place, struct dlock_error *err)
{
    sqlite3 *handle = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    int rc = sqlite_db_connect(place, &handle);

    if (rc == SQLITE_OK)
        status = visit(handle, place, err);
    else
        status = sqlite_db_fail(err, handle, place, sqlite_status_of(rc), rc);
    (void)sqlite3_close_v2(handle);
    return status;
}

static enum dlock_status setup_alone(const struct sqlite_place *place,
                                     const struct siblings *siblings, int directory_fd,
                                     int64_t until_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (file_empty(place) && !place->create)
        return sqlite_place_no_store(place, err);
    if (file_empty(place))
        status = file_make(place, siblings, directory_fd, err);
    if (status != DLOCK_OK)
        return status;
    for (int round = 0; !file_ready(place, siblings); round++) {
        status = visit_alone(place, err);
        if (status != DLOCK_BUSY)
            return status;
        if (!sqlite_clock_nap(round, until_ns))
            return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, SQLITE_BUSY,
                              "%.100s is in use, but its -wal or -shm was removed; stop the "
                              "programs that use it",
                              place->path);
    }
    return DLOCK_OK;
}

static enum dlock_status setup_locked(struct sqlite_setup *setup, const struct sqlite_place *place,
                                      const struct siblings *siblings,
                                      const struct sqlite_clock *clock, int64_t until_ns,
                                      struct dlock_error *err)
{
    int log_too = 0;

    setup->fd = sqlite_directory_lock(place->directory, until_ns);
    if (setup->fd < 0)
        return sqlite_fail_errno(err, place->directory, "lock directory", errno);
    if (sqlite_gate_of_another(place, clock, &log_too))
        siblings_remove(siblings, log_too);
    return setup_alone(place, siblings, setup->fd, until_ns, err);
}

enum dlock_status sqlite_setup_begin(struct sqlite_setup *setup, const struct sqlite_place *place,
                                     const struct sqlite_clock *clock, int64_t until_ns,
                                     struct dlock_error *err)
{
    struct siblings siblings = {0};
    enum dlock_status status = siblings_init(&siblings, place, err);
    int log_of_another = 0;

    setup->fd = -1;
    (void)sqlite_gate_of_another(place, clock, &log_of_another);
    if (status == DLOCK_OK && (log_of_another || !file_ready(place, &siblings)))
        status = setup_locked(setup, place, &siblings, clock, until_ns, err);
    siblings_fini(&siblings);
    return status;
}

void sqlite_setup_end(struct sqlite_setup *setup)
{
    if (setup->fd >= 0)
        sqlite_directory_unlock(setup->fd);
    setup->fd = -1;
}
