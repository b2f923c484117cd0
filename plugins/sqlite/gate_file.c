/* SPDX-License-Identifier: MIT */
#include "gate_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GATE_MAGIC   0x444C4B47u /* "DLKG" */
#define GATE_VERSION 2u

int sqlite_gate_cannot(struct sqlite_gate *gate, const char *what, int rc)
{
    (void)snprintf(gate->why, sizeof gate->why, "cannot %s it: %s", what, strerrordesc_np(rc));
    return rc;
}

static struct sqlite_gate_identity identity_of(const struct stat *gate, const struct stat *db,
                                               const struct sqlite_clock *clock)
{
    struct sqlite_gate_identity identity = {
        .magic = GATE_MAGIC,
        .version = GATE_VERSION,
        .inode = gate->st_ino,
        .db_device = db->st_dev,
        .db_inode = db->st_ino,
    };

    memcpy(identity.boot, clock->boot, sizeof identity.boot);
    return identity;
}

static int file_map(struct sqlite_gate *gate, int fd)
{
    void *map =
        mmap(NULL, sizeof(struct sqlite_gate_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return sqlite_gate_cannot(gate, "map", errno);
    (void)madvise(map, sizeof(struct sqlite_gate_file), MADV_DONTFORK);
    gate->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (gate->fd < 0) {
        (void)munmap(map, sizeof(struct sqlite_gate_file));
        return sqlite_gate_cannot(gate, "keep", errno);
    }
    gate->file = map;
    return 0;
}

int sqlite_gate_whole(const struct sqlite_gate *gate)
{
    if (gate->file == NULL)
        return 0;
    if (lseek(gate->fd, 0, SEEK_END) >= (off_t)sizeof *gate->file)
        return gate->file->identity.magic == GATE_MAGIC;
    (void)mmap(gate->file, sizeof *gate->file, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return 0;
}

static int same_but_version(struct sqlite_gate_identity found, struct sqlite_gate_identity wanted)
{
    found.version = wanted.version;
    memcpy(found.unused, wanted.unused, sizeof found.unused);
    return memcmp(&found, &wanted, sizeof found) == 0;
}

/* Of the database's owner; or of a user of its group, all of which may write the database, too. In
 * a directory of everybody's a file of the group may be of anybody. */
static int owner_trusted(const struct stat *gate, const struct stat *db, const char *directory)
{
    struct stat parent;

    if (gate->st_uid == db->st_uid)
        return 1;
    return gate->st_gid == db->st_gid && (db->st_mode & S_IWGRP) != 0 &&
           (gate->st_mode & S_IWGRP) != 0 && stat(directory, &parent) == 0 &&
           (parent.st_mode & S_IWOTH) == 0;
}

/* 0; ESTALE: it has to be made anew; others: it cannot be used. */
static int file_use(struct sqlite_gate *gate, int fd, const struct stat *db, const char *directory,
                    const struct sqlite_clock *clock)
{
    struct sqlite_gate_identity found, wanted;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return sqlite_gate_cannot(gate, "look at", errno);
    if (!S_ISREG(st.st_mode) || !owner_trusted(&st, db, directory) || st.st_nlink != 1)
        return sqlite_gate_cannot(gate, "trust", EPERM);
    if (pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found)
        return ESTALE;
    wanted = identity_of(&st, db, clock);
    gate->inode = st.st_ino;
    if (found.version > wanted.version && same_but_version(found, wanted))
        return sqlite_gate_cannot(gate, "know the layout of", ENOTSUP);
    if (st.st_size != (off_t)sizeof(struct sqlite_gate_file) ||
        memcmp(&found, &wanted, sizeof found) != 0)
        return ESTALE;
    return file_map(gate, fd);
}

/* 0; ESTALE, ENOENT: it has to be made; others: it cannot be used. */
static int gate_join(struct sqlite_gate *gate, const char *path, const struct stat *db,
                     const char *directory, const struct sqlite_clock *clock)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? ENOENT : sqlite_gate_cannot(gate, "open", errno);
    rc = file_use(gate, fd, db, directory, clock);
    (void)close(fd);
    return rc;
}

/* Owned and allowed as the database, as far as this user can. All of it is allocated now: a page
 * that the disk has no room for would be a SIGBUS later. */
static int file_fill(struct sqlite_gate *gate, int fd, const struct stat *db, const char *directory,
                     const struct sqlite_clock *clock)
{
    struct stat st;
    int rc = posix_fallocate(fd, 0, (off_t)sizeof(struct sqlite_gate_file));

    if (rc != 0)
        return sqlite_gate_cannot(gate, "allocate", rc);
    if (fstat(fd, &st) != 0)
        return sqlite_gate_cannot(gate, "look at", errno);
    if ((st.st_uid != db->st_uid || st.st_gid != db->st_gid) &&
        fchown(fd, db->st_uid, db->st_gid) != 0 && fchown(fd, (uid_t)-1, db->st_gid) != 0)
        return sqlite_gate_cannot(gate, "give away", errno);
    if (fchmod(fd, db->st_mode & 0666) != 0)
        return sqlite_gate_cannot(gate, "change the mode of", errno);
    if (fstat(fd, &st) != 0 || !owner_trusted(&st, db, directory))
        return sqlite_gate_cannot(gate, "give away", EPERM);
    rc = file_map(gate, fd);
    if (rc != 0)
        return rc;
    gate->inode = st.st_ino;
    gate->file->identity = identity_of(&st, db, clock);
    return 0;
}

/* It appears under its name complete, or not at all. */
static int gate_make(struct sqlite_gate *gate, const char *path, const struct stat *db,
                     const char *directory, const struct sqlite_clock *clock)
{
    char *fresh = NULL;
    int fd = -1, rc = 0;

    if (asprintf(&fresh, "%s.XXXXXX", path) < 0)
        return sqlite_gate_cannot(gate, "name", ENOMEM);
    fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0) {
        rc = sqlite_gate_cannot(gate, "make", errno);
    } else {
        rc = file_fill(gate, fd, db, directory, clock);
        if (rc == 0 && rename(fresh, path) != 0)
            rc = sqlite_gate_cannot(gate, "rename", errno);
        if (rc != 0)
            (void)unlink(fresh);
        (void)close(fd);
    }
    free(fresh);
    return rc;
}

static int gate_find(struct sqlite_gate *gate, const struct sqlite_place *place, const char *path,
                     const struct sqlite_clock *clock, int64_t until_ns)
{
    struct stat db;
    int directory_fd = -1, rc = 0;

    if (stat(place->real, &db) != 0)
        return sqlite_gate_cannot(gate, "find the database of", errno);
    rc = gate_join(gate, path, &db, place->directory, clock);
    if (rc != ESTALE && rc != ENOENT)
        return rc;
    directory_fd = sqlite_directory_lock(place->directory, until_ns);
    if (directory_fd < 0)
        return sqlite_gate_cannot(gate, "lock the directory of", errno);
    rc = gate_join(gate, path, &db, place->directory, clock);
    if (rc == ESTALE) /* rather none than one that misleads, if there is no room for another */
        (void)unlink(path);
    if (rc == ESTALE || rc == ENOENT)
        rc = gate_make(gate, path, &db, place->directory, clock);
    sqlite_directory_unlock(directory_fd);
    return rc;
}

static uint64_t shm_inode(const struct sqlite_place *place)
{
    char *path = sqlite_place_sibling(place, "-shm");
    struct stat st;
    uint64_t inode = path != NULL && stat(path, &st) == 0 ? st.st_ino : 0;

    free(path);
    return inode;
}

static int still_whole(const void *gate)
{
    return sqlite_gate_whole(gate);
}

void sqlite_gate_open(struct sqlite_gate *gate, const struct sqlite_place *place,
                      const struct sqlite_clock *clock, int64_t until_ns)
{
    char *path = sqlite_place_sibling(place, SQ_GATE_SUFFIX);

    memset(gate, 0, sizeof *gate);
    gate->pass.there = still_whole;
    gate->pass.of = gate;
    if (path == NULL)
        (void)sqlite_gate_cannot(gate, "name", ENOMEM);
    else if (gate_find(gate, place, path, clock, until_ns) != 0)
        sqlite_gate_close(gate);
    else
        atomic_store(&gate->file->shm_inode, shm_inode(place));
    free(path);
}

int sqlite_gate_of_another(const struct sqlite_place *place, const struct sqlite_clock *clock,
                           int *shm_too)
{
    char *path = sqlite_place_sibling(place, SQ_GATE_SUFFIX);
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    uint64_t shm = shm_inode(place);
    struct header {
        struct sqlite_gate_identity identity;
        uint64_t shm_inode;
    } header = {0};
    struct stat db;
    int another = 0;

    *shm_too = 0;
    if (fd >= 0 && stat(place->real, &db) == 0 &&
        pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header) {
        another = header.identity.magic == GATE_MAGIC &&
                  memcmp(header.identity.boot, clock->boot, sizeof clock->boot) == 0 &&
                  (header.identity.db_inode != db.st_ino || header.identity.db_device != db.st_dev);
        *shm_too = another && shm != 0 && header.shm_inode == shm;
    }
    if (fd >= 0)
        (void)close(fd);
    free(path);
    return another;
}

void sqlite_gate_close(struct sqlite_gate *gate)
{
    if (gate->file != NULL) {
        (void)munmap(gate->file, sizeof *gate->file);
        (void)close(gate->fd);
    }
    gate->file = NULL;
}
