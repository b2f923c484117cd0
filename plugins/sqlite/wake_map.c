/* SPDX-License-Identifier: MIT */
#include "wake_map.h"

#include "lock_file.h"
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAKE_MAGIC   0x444C4B47u /* "DLKG" */
#define WAKE_VERSION 3u

int sqlite_wake_map_cannot(struct sqlite_wake_file *file, const char *what, int rc)
{
    (void)snprintf(file->why, sizeof file->why, "cannot %s it: %s", what, strerrordesc_np(rc));
    return rc;
}

static struct sqlite_wake_identity identity_of(const struct stat *file, const struct stat *db,
                                               const struct sqlite_clock *clock)
{
    struct sqlite_wake_identity identity = {
        .magic = WAKE_MAGIC,
        .version = WAKE_VERSION,
        .inode = file->st_ino,
        .db_device = db->st_dev,
        .db_inode = db->st_ino,
    };

    memcpy(identity.boot, clock->boot, sizeof identity.boot);
    return identity;
}

static int file_map(struct sqlite_wake_file *file, int fd)
{
    void *map =
        mmap(NULL, sizeof(struct sqlite_wake_map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return sqlite_wake_map_cannot(file, "map", errno);
    (void)madvise(map, sizeof(struct sqlite_wake_map), MADV_DONTFORK);
    file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (file->fd < 0) {
        (void)munmap(map, sizeof(struct sqlite_wake_map));
        return sqlite_wake_map_cannot(file, "keep", errno);
    }
    file->map = map;
    return 0;
}

bool sqlite_wake_map_is_whole(const struct sqlite_wake_file *file)
{
    if (file->map == NULL)
        return false;
    if (lseek(file->fd, 0, SEEK_END) >= (off_t)sizeof *file->map)
        return file->map->identity.magic == WAKE_MAGIC;
    (void)mmap(file->map, sizeof *file->map, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return false;
}

static bool is_same_but_version(struct sqlite_wake_identity found,
                                struct sqlite_wake_identity wanted)
{
    found.version = wanted.version;
    memcpy(found.unused, wanted.unused, sizeof found.unused);
    return memcmp(&found, &wanted, sizeof found) == 0;
}

/* It belongs to the database's owner; or to a user of its group, if the group may write the
 * database, too. In a directory that everybody may write, anybody may have made a file of the
 * group. */
static bool owner_is_trusted(const struct stat *file, const struct stat *db, const char *directory)
{
    struct stat parent;

    if (file->st_uid == db->st_uid)
        return true;
    return file->st_gid == db->st_gid && (db->st_mode & S_IWGRP) != 0 &&
           (file->st_mode & S_IWGRP) != 0 && stat(directory, &parent) == 0 &&
           (parent.st_mode & S_IWOTH) == 0;
}

/* 0. ESTALE: it has to be made again. Others: it cannot be used. */
static int file_use(struct sqlite_wake_file *file, int fd, const struct stat *db,
                    const char *directory, const struct sqlite_clock *clock)
{
    struct sqlite_wake_identity found, wanted;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return sqlite_wake_map_cannot(file, "examine", errno);
    if (!S_ISREG(st.st_mode) || !owner_is_trusted(&st, db, directory) || st.st_nlink != 1)
        return sqlite_wake_map_cannot(file, "trust", EPERM);
    if (pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found)
        return ESTALE;
    wanted = identity_of(&st, db, clock);
    file->device = st.st_dev;
    file->inode = st.st_ino;
    if (found.version > wanted.version && is_same_but_version(found, wanted))
        return sqlite_wake_map_cannot(file, "know the layout of", ENOTSUP);
    if (st.st_size != (off_t)sizeof(struct sqlite_wake_map) ||
        memcmp(&found, &wanted, sizeof found) != 0)
        return ESTALE;
    return file_map(file, fd);
}

/* 0. ESTALE, ENOENT: it has to be made. Others: it cannot be used. */
static int map_join(struct sqlite_wake_file *file, const char *path, const struct stat *db,
                    const char *directory, const struct sqlite_clock *clock)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? ENOENT : sqlite_wake_map_cannot(file, "open", errno);
    rc = file_use(file, fd, db, directory, clock);
    (void)close(fd);
    return rc;
}

/* The file gets the owner and the mode of the database, as far as this user can give them. All of
 * it is allocated now: a page without room on the disk would raise SIGBUS later. */
static int file_fill(struct sqlite_wake_file *file, int fd, const struct stat *db,
                     const char *directory, const struct sqlite_clock *clock)
{
    struct stat st;
    int rc = posix_fallocate(fd, 0, (off_t)sizeof(struct sqlite_wake_map));

    if (rc != 0)
        return sqlite_wake_map_cannot(file, "allocate", rc);
    if (fstat(fd, &st) != 0)
        return sqlite_wake_map_cannot(file, "examine", errno);
    if ((st.st_uid != db->st_uid || st.st_gid != db->st_gid) &&
        fchown(fd, db->st_uid, db->st_gid) != 0 && fchown(fd, (uid_t)-1, db->st_gid) != 0)
        return sqlite_wake_map_cannot(file, "give away", errno);
    if (fchmod(fd, db->st_mode & 0666) != 0)
        return sqlite_wake_map_cannot(file, "change the mode of", errno);
    if (fstat(fd, &st) != 0 || !owner_is_trusted(&st, db, directory))
        return sqlite_wake_map_cannot(file, "give away", EPERM);
    rc = file_map(file, fd);
    if (rc != 0)
        return rc;
    file->device = st.st_dev;
    file->inode = st.st_ino;
    file->map->identity = identity_of(&st, db, clock);
    return 0;
}

/* The file appears under its name when it is complete. Under the lock there is one maker at a time,
 * and what is there was left by one that was killed. */
static int map_make(struct sqlite_wake_file *file, const char *path, const struct stat *db,
                    const char *directory, const struct sqlite_clock *clock)
{
    char *fresh = NULL;
    int fd = -1, rc = 0;

    if (asprintf(&fresh, "%s.new", path) < 0)
        return sqlite_wake_map_cannot(file, "name", ENOMEM);
    (void)unlink(fresh);
    fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = sqlite_wake_map_cannot(file, "make", errno);
    } else {
        rc = file_fill(file, fd, db, directory, clock);
        if (rc == 0 && rename(fresh, path) != 0)
            rc = sqlite_wake_map_cannot(file, "rename", errno);
        if (rc != 0)
            (void)unlink(fresh);
        (void)close(fd);
    }
    free(fresh);
    return rc;
}

static int map_find(struct sqlite_wake_file *file, const struct sqlite_config *config,
                    const char *path, const struct sqlite_clock *clock, int64_t until_ns)
{
    struct stat db;
    int lock_fd = -1, rc = 0;

    if (stat(config->real, &db) != 0)
        return sqlite_wake_map_cannot(file, "find the database of", errno);
    rc = map_join(file, path, &db, config->directory, clock);
    if (rc != ESTALE && rc != ENOENT)
        return rc;
    lock_fd = sqlite_lock_file_take(config, until_ns);
    if (lock_fd < 0)
        return sqlite_wake_map_cannot(file, "lock " SQ_LOCK_SUFFIX " for", errno);
    rc = map_join(file, path, &db, config->directory, clock);
    if (rc == ESTALE) /* if there is no room for another file, none is better than this one */
        (void)unlink(path);
    if (rc == ESTALE || rc == ENOENT)
        rc = map_make(file, path, &db, config->directory, clock);
    sqlite_lock_file_give(config, lock_fd);
    return rc;
}

static uint64_t shm_inode(const struct sqlite_config *config)
{
    char *path = sqlite_config_sibling(config, "-shm");
    struct stat st;
    uint64_t inode = path != NULL && stat(path, &st) == 0 ? st.st_ino : 0;

    free(path);
    return inode;
}

static bool is_usable(const void *file)
{
    return sqlite_wake_map_is_whole(file);
}

void sqlite_wake_map_open(struct sqlite_wake_file *file, const struct sqlite_config *config,
                          const struct sqlite_clock *clock, int64_t until_ns)
{
    char *path = sqlite_config_sibling(config, SQ_WAKE_SUFFIX);

    memset(file, 0, sizeof *file);
    file->pass.usable = is_usable;
    file->pass.arg = file;
    if (path == NULL)
        (void)sqlite_wake_map_cannot(file, "name", ENOMEM);
    else if (map_find(file, config, path, clock, until_ns) != 0)
        sqlite_wake_map_close(file);
    else
        atomic_store(&file->map->shm_inode, shm_inode(config));
    free(path);
}

bool sqlite_wake_map_is_of_another(const struct sqlite_config *config,
                                   const struct sqlite_clock *clock, bool *shm_too)
{
    char *path = sqlite_config_sibling(config, SQ_WAKE_SUFFIX);
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    uint64_t shm = shm_inode(config);
    struct header {
        struct sqlite_wake_identity identity;
        uint64_t shm_inode;
    } header = {0};
    struct stat st, db;
    bool another = false;

    *shm_too = false;
    if (fd >= 0 && fstat(fd, &st) == 0 && stat(config->real, &db) == 0 &&
        !sqlite_trust_is_foreign(&st, &db, config->directory) &&
        pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header) {
        another = header.identity.magic == WAKE_MAGIC &&
                  memcmp(header.identity.boot, clock->boot, sizeof clock->boot) == 0 &&
                  (header.identity.db_inode != db.st_ino || header.identity.db_device != db.st_dev);
        *shm_too = another && shm != 0 && header.shm_inode == shm;
    }
    if (fd >= 0)
        (void)close(fd);
    free(path);
    return another;
}

void sqlite_wake_map_close(struct sqlite_wake_file *file)
{
    if (file->map != NULL) {
        (void)munmap(file->map, sizeof *file->map);
        (void)close(file->fd);
    }
    file->map = NULL;
}
