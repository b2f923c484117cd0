/* SPDX-License-Identifier: MIT */
#include "lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC     "dlockdir"
#define PLAIN     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define NAME_ROOM 200                          /* of an escaped name; file systems take 255 bytes */
#define HASH_SEED UINT64_C(0xcbf29ce484222325) /* FNV-1a */
#define HASH_STEP UINT64_C(0x100000001b3)

enum dlock_status lockfile_fail(struct dlock_error *err, const char *what, const char *path)
{
    int code = errno;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (code == EACCES || code == EPERM || code == EROFS)
        status = DLOCK_AUTH;
    else if (code == ENOENT)
        status = DLOCK_NO_STORE;
    else if (code == ELOOP || code == ENOTDIR || code == EISDIR || code == ESPIPE ||
             code == ENAMETOOLONG)
        status = DLOCK_CONFIG;
    else if (code == EMFILE || code == ENFILE || code == ENOMEM)
        status = DLOCK_NOMEM;
    return dlock_fail(err, LOCKDIR_ORIGIN, status, code, "cannot %s %.180s: %s", what, path,
                      strerrordesc_np(code));
}

/* Bytes that could mean something to a file system become %xx. What gets too long ends with a hash
 * instead; should two names meet in it, the name in the file tells them apart. */
void lockfile_path(char path[PATH_MAX], const char *dir, const unsigned char *name, uint32_t len)
{
    char file[3 * 255 + 1] = "";
    uint64_t hash = HASH_SEED;
    size_t used = 0;

    for (uint32_t i = 0; i < len; i++) {
        bool plain = name[i] != '\0' && strchr(PLAIN, name[i]) != NULL;

        used += (size_t)snprintf(file + used, sizeof file - used, plain ? "%c" : "%%%02x", name[i]);
        hash = (hash ^ name[i]) * HASH_STEP;
    }
    if (used > NAME_ROOM)
        (void)snprintf(file + NAME_ROOM, sizeof file - NAME_ROOM, "+%016" PRIx64, hash);
    (void)snprintf(path, PATH_MAX, "%s/%s", dir, file);
}

int lockfile_open(const char *path, mode_t create)
{
    /* A link leads nowhere, and a pipe that somebody put there does not make us wait. */
    return open(path,
                (create != 0 ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                create);
}

static struct flock lock_of(int64_t byte, int type)
{
    return (struct flock){
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

enum dlock_status lockfile_lock(int fd, int64_t byte, int type, struct dlock_error *err)
{
    struct flock lock = lock_of(byte, type);

    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return DLOCK_OK;
    return errno == EAGAIN ? DLOCK_BUSY : lockfile_fail(err, "lock", "a file");
}

bool lockfile_locked(int fd, int64_t byte)
{
    struct flock lock = lock_of(byte, F_WRLCK);

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum dlock_status lockfile_check(int fd, const char *path, struct dlock_error *err)
{
    struct stat here, there = {0};

    if (fstat(fd, &here) != 0 || (lstat(path, &there) != 0 && errno != ENOENT && errno != ENOTDIR))
        return lockfile_fail(err, "look at", path);
    if (here.st_dev != there.st_dev || here.st_ino != there.st_ino)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_LOST, 0, "%.180s was moved or removed", path);
    if (!S_ISREG(here.st_mode) || here.st_nlink != 1 || (here.st_mode & S_IWOTH) != 0)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_CONFIG, 0,
                          "%.150s is not a plain file that others may not write", path);
    return DLOCK_OK;
}

enum dlock_status lockfile_read(int fd, const char *path, const unsigned char *name, uint32_t len,
                                struct lockfile_head *head, struct dlock_error *err)
{
    ssize_t got = pread(fd, head, sizeof *head, 0);

    if (got < 0)
        return lockfile_fail(err, "read", path);
    if (got == 0) {
        *head = (struct lockfile_head){.name_len = len};
        memcpy(head->magic, MAGIC, sizeof head->magic);
        memcpy(head->name, name, len);
        return DLOCK_OK;
    }
    if (got != (ssize_t)sizeof *head || memcmp(head->magic, MAGIC, sizeof head->magic) != 0 ||
        head->fence > INT64_MAX)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_CONFIG, 0, "%.180s is no lock file", path);
    if (head->name_len != len || memcmp(head->name, name, len) != 0)
        return dlock_fail(err, LOCKDIR_ORIGIN, DLOCK_CONFIG, 0, "%.180s is of another name", path);
    return DLOCK_OK;
}

enum dlock_status lockfile_write(int fd, const char *path, const struct lockfile_head *head,
                                 struct dlock_error *err)
{
    errno = ENOSPC; /* what a short write means */
    if (pwrite(fd, head, sizeof *head, 0) != (ssize_t)sizeof *head)
        return lockfile_fail(err, "write", path);
    return DLOCK_OK;
}

static off_t holder_at(int64_t i)
{
    return (off_t)(sizeof(struct lockfile_head) + (size_t)i * sizeof(struct lockfile_holder));
}

bool lockfile_holder_read(int fd, int64_t i, struct lockfile_holder *holder)
{
    if (pread(fd, holder, sizeof *holder, holder_at(i)) != (ssize_t)sizeof *holder)
        return false;
    holder->label[sizeof holder->label - 1] = '\0';
    return true;
}

bool lockfile_holder_write(int fd, int64_t i, const struct lockfile_holder *holder)
{
    return pwrite(fd, holder, sizeof *holder, holder_at(i)) == (ssize_t)sizeof *holder;
}
