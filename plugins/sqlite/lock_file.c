/* SPDX-License-Identifier: MIT */
#include "lock_file.h"

#include "clock.h"
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* For some 70 ms a user of the store waits for a process that has made the file, and gives it the
 * rights then. */
#define ROUNDS_OF_A_MAKER 20

#define FLAGS (O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

/* The store, or what it will be. */
static struct stat store_of(const struct sqlite_config *config)
{
    struct stat store = {.st_uid = geteuid(), .st_gid = getegid(), .st_mode = 0600};

    (void)stat(config->real, &store);
    return store;
}

/* Who may only read the store must not be able to lock. */
static void give_to_writers(int fd, const struct stat *file, const struct stat *store)
{
    mode_t writers = store->st_mode & 0222u;
    mode_t mode = writers | writers << 1;

    if ((file->st_uid != store->st_uid || file->st_gid != store->st_gid) &&
        fchown(fd, store->st_uid, store->st_gid) != 0)
        (void)!fchown(fd, (uid_t)-1, store->st_gid);
    if ((file->st_mode & 0777u) != mode)
        (void)fchmod(fd, mode);
}

static int file_open(const struct sqlite_config *config, const char *path, struct stat *file)
{
    struct stat store = store_of(config);
    int fd = open(path, FLAGS);

    if (fd < 0 && errno == ENOENT)
        fd = open(path, FLAGS | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return -1;
    if (fstat(fd, file) == 0 && file->st_size == 0 &&
        !sqlite_trust_is_foreign(file, &store, config->directory)) {
        give_to_writers(fd, file, &store);
        return fd;
    }
    (void)close(fd);
    errno = EPERM;
    return -1;
}

/* False: the one who had the lock removed it. */
static bool is_at_path(const char *path, const struct stat *file)
{
    struct stat st;

    return lstat(path, &st) == 0 && st.st_ino == file->st_ino && st.st_dev == file->st_dev;
}

/* A descriptor of the locked file; or -1 and errno: EAGAIN, EWOULDBLOCK to be tried again. */
static int lock_try(const struct sqlite_config *config, const char *path)
{
    struct stat file;
    int fd = file_open(config, path, &file), rc = 0;

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno;
    else if (!is_at_path(path, &file))
        rc = EAGAIN;
    if (rc == 0)
        return fd;
    (void)close(fd);
    errno = rc;
    return -1;
}

static bool may_be_tried_again(const struct sqlite_config *config, int rc, int round)
{
    return rc == EAGAIN || rc == EINTR || rc == EEXIST ||
           (rc == EACCES && round < ROUNDS_OF_A_MAKER && sqlite_config_may(config, W_OK));
}

int sqlite_lock_file_take(const struct sqlite_config *config, int64_t until_ns)
{
    char *path = sqlite_config_sibling(config, SQ_LOCK_SUFFIX);
    int fd = -1, rc = ENOMEM;

    for (int round = 0; path != NULL; round++) {
        fd = lock_try(config, path);
        rc = fd < 0 ? errno : 0;
        if (!may_be_tried_again(config, rc, round))
            break;
        if (!sqlite_clock_nap(round, until_ns)) {
            rc = EBUSY;
            break;
        }
    }
    free(path);
    errno = rc;
    return fd;
}

void sqlite_lock_file_give(const struct sqlite_config *config, int fd)
{
    char *path = sqlite_config_sibling(config, SQ_LOCK_SUFFIX);

    if (path != NULL)
        (void)unlink(path);
    free(path);
    /* Not by close alone: a forked child may keep the descriptor for a while. */
    (void)flock(fd, LOCK_UN);
    (void)close(fd);
}
