/* SPDX-License-Identifier: MIT */
#include "wake_file.h"
#include "lock_file.h"
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAKE_MAGIC   0x444C4B47u /* "DLKG" */
#define WAKE_VERSION 3u

/* Fills file->why with "cannot <what> it"; returns rc. */
static int cannot(struct sqlite_wake_file *file, const char *what, int rc)
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
        return cannot(file, "map", errno);
    (void)madvise(map, sizeof(struct sqlite_wake_map), MADV_DONTFORK);
    file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (file->fd < 0) {
        (void)munmap(map, sizeof(struct sqlite_wake_map));
        return cannot(file, "keep", errno);
    }
    file->map = map;
    return 0;
}

/* True: the file is mapped and has its full length. To be asked before every use: the use of a file
 * that somebody cut short raises SIGBUS. After false, its addresses hold private zeroes. Nothing
 * protects against a cut in the microseconds after this call. */
static bool map_is_whole(const struct sqlite_wake_file *file)
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
        return cannot(file, "examine", errno);
    if (!S_ISREG(st.st_mode) || !owner_is_trusted(&st, db, directory) || st.st_nlink != 1)
        return cannot(file, "trust", EPERM);
    if (pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found)
        return ESTALE;
    wanted = identity_of(&st, db, clock);
    file->device = st.st_dev;
    file->inode = st.st_ino;
    if (found.version > wanted.version && is_same_but_version(found, wanted))
        return cannot(file, "know the layout of", ENOTSUP);
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
        return errno == ENOENT ? ENOENT : cannot(file, "open", errno);
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
        return cannot(file, "allocate", rc);
    if (fstat(fd, &st) != 0)
        return cannot(file, "examine", errno);
    if ((st.st_uid != db->st_uid || st.st_gid != db->st_gid) &&
        fchown(fd, db->st_uid, db->st_gid) != 0 && fchown(fd, (uid_t)-1, db->st_gid) != 0)
        return cannot(file, "give away", errno);
    if (fchmod(fd, db->st_mode & 0666) != 0)
        return cannot(file, "change the mode of", errno);
    if (fstat(fd, &st) != 0 || !owner_is_trusted(&st, db, directory))
        return cannot(file, "give away", EPERM);
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
        return cannot(file, "name", ENOMEM);
    (void)unlink(fresh);
    fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = cannot(file, "make", errno);
    } else {
        rc = file_fill(file, fd, db, directory, clock);
        if (rc == 0 && rename(fresh, path) != 0)
            rc = cannot(file, "rename", errno);
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
        return cannot(file, "find the database of", errno);
    rc = map_join(file, path, &db, config->directory, clock);
    if (rc != ESTALE && rc != ENOENT)
        return rc;
    lock_fd = sqlite_lock_file_take(config, until_ns);
    if (lock_fd < 0)
        return cannot(file, "lock " SQ_LOCK_SUFFIX " for", errno);
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
    return map_is_whole(file);
}

void sqlite_wake_map_open(struct sqlite_wake_file *file, const struct sqlite_config *config,
                          const struct sqlite_clock *clock, int64_t until_ns)
{
    char *path = sqlite_config_sibling(config, SQ_WAKE_SUFFIX);

    memset(file, 0, sizeof *file);
    file->pass.usable = is_usable;
    file->pass.arg = file;
    if (path == NULL)
        (void)cannot(file, "name", ENOMEM);
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

#define POLL_NS   (50 * DL_NS_PER_MS) /* of a waiter without a wake file */
#define REOPEN_NS DL_NS_PER_S         /* between two attempts to find a file that can be used */

void sqlite_wake_file_reopen(struct sqlite_wake_file *file, const struct sqlite_config *config,
                             const struct sqlite_clock *clock, int64_t until_ns)
{
    int64_t now_ns = sqlite_clock_boottime();

    if (file->reopen_ns == 0 || now_ns < file->reopen_ns)
        return;
    sqlite_wake_map_close(file);
    sqlite_wake_map_open(file, config, clock, sqlite_clock_min(until_ns, now_ns + POLL_NS));
    file->reopen_ns = file->map != NULL ? 0 : now_ns + REOPEN_NS;
}

bool sqlite_wake_file_enter(struct sqlite_wake_file *file, int64_t until_ns)
{
    int rc = ENODATA;

    if (file->map == NULL)
        return false;
    if (map_is_whole(file))
        rc = sqlite_ticket_lock_enter(&file->map->tickets, &file->pass, until_ns);
    if (rc == ENODATA)
        (void)cannot(file, "use", rc);
    return rc == 0;
}

/* FNV-1a */
static uint32_t bucket_of(const unsigned char *key, uint32_t key_len)
{
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < key_len; i++)
        hash = (hash ^ key[i]) * 16777619u;
    return (hash ^ hash >> 16) % SQ_WAKE_BUCKETS;
}

static long futex(const _Atomic uint32_t *word, int op, uint32_t value,
                  const struct timespec *until)
{
    return syscall(SYS_futex, word, op, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* The mark is cleared before the count: a sleeper that marks after that has the old count, and is
 * woken, or the new one, and keeps its mark. */
static void bucket_wake(struct sqlite_wake_bucket *bucket)
{
    bool sleepers = atomic_exchange(&bucket->sleepers, 0) != 0;

    (void)atomic_fetch_add(&bucket->count, 1);
    if (sleepers || atomic_load(&bucket->sleepers) != 0)
        (void)futex(&bucket->count, FUTEX_WAKE, INT32_MAX, NULL);
}

void sqlite_wake_file_note(const struct sqlite_wake_file *file, const unsigned char *key,
                           uint32_t key_len, struct sqlite_waiter *waiter)
{
    uint32_t bucket = bucket_of(key, key_len);
    bool whole = map_is_whole(file);

    if (whole) {
        waiter->inode = file->inode;
        waiter->count = atomic_load(&file->map->buckets[bucket].count);
        atomic_store(&waiter->bucket, bucket);
    }
    atomic_store(&waiter->noted, whole);
}

/* False: the file was removed, so that other processes have another one, or none. */
static bool is_shared(const struct sqlite_wake_file *file, const struct sqlite_config *config)
{
    char *path = sqlite_config_sibling(config, SQ_WAKE_SUFFIX);
    struct stat st;
    bool shared =
        path != NULL && stat(path, &st) == 0 && st.st_ino == file->inode && map_is_whole(file);

    free(path);
    return shared;
}

bool sqlite_wake_file_is_usable(struct sqlite_wake_file *file, const struct sqlite_config *config)
{
    bool usable = file->map != NULL && is_shared(file, config);

    if (!usable && file->reopen_ns == 0)
        file->reopen_ns = 1;
    return usable;
}

/* Only an interrupt ends it early. */
static enum dlock_status poll_sleep(const struct sqlite_waiter *waiter,
                                    const struct dlock_host *host, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - host->now_ns(host->ctx);
    struct timespec until =
        sqlite_clock_futex(sqlite_clock_until(sqlite_clock_min(left_ns, POLL_NS)));

    if (left_ns <= 0)
        return DLOCK_TIMEOUT;
    (void)futex(&waiter->interrupted, FUTEX_WAIT_BITSET, 0, &until);
    return atomic_load(&waiter->interrupted) ? DLOCK_CANCELED : DLOCK_BUSY;
}

static enum dlock_status bucket_sleep(const struct sqlite_wake_file *file,
                                      const struct sqlite_waiter *waiter,
                                      const struct dlock_host *host, int64_t deadline_ns)
{
    struct sqlite_wake_bucket *bucket = &file->map->buckets[atomic_load(&waiter->bucket)];

    while (!atomic_load(&waiter->interrupted)) {
        int64_t left_ns = deadline_ns - host->now_ns(host->ctx);
        struct timespec until = sqlite_clock_futex(sqlite_clock_until(left_ns));

        if (atomic_load(&bucket->count) != waiter->count)
            return DLOCK_BUSY;
        if (left_ns <= 0)
            return DLOCK_TIMEOUT;
        atomic_store(&bucket->sleepers, 1);
        (void)futex(&bucket->count, FUTEX_WAIT_BITSET, waiter->count, &until);
        if (!map_is_whole(file))
            return DLOCK_BUSY;
    }
    return DLOCK_CANCELED;
}

enum dlock_status sqlite_wake_file_sleep(struct sqlite_wake_file *file,
                                         const struct sqlite_config *config,
                                         const struct sqlite_waiter *waiter,
                                         const struct dlock_host *host, int64_t deadline_ns)
{
    bool usable = sqlite_wake_file_is_usable(file, config);

    if (atomic_load(&waiter->interrupted))
        return DLOCK_CANCELED;
    if (!usable || !atomic_load(&waiter->noted))
        return poll_sleep(waiter, host, deadline_ns);
    if (waiter->inode != file->inode) /* noted by a session that was opened before */
        return DLOCK_BUSY;
    return bucket_sleep(file, waiter, host, deadline_ns);
}

void sqlite_wake_file_add(struct sqlite_wake_set *set, const unsigned char *key, uint32_t key_len)
{
    uint32_t bucket = bucket_of(key, key_len);

    set->bits[bucket / 64] |= UINT64_C(1) << bucket % 64;
    set->any = true;
}

/* In the order of bucket_wake. */
static void word_wake(struct sqlite_wake_word *word, uint32_t groups)
{
    (void)atomic_fetch_and(&word->groups, ~groups);
    (void)atomic_fetch_add(&word->count, 1);
    (void)syscall(SYS_futex, &word->count, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL, groups);
}

static void buckets_wake(struct sqlite_wake_map *map, const struct sqlite_wake_set *set)
{
    uint32_t groups = 0;

    for (uint32_t i = 0; i < SQ_WAKE_BUCKETS / 64; i++) {
        groups |= (uint32_t)(set->bits[i] | set->bits[i] >> 32);
        for (uint64_t left = set->bits[i]; left != 0; left &= left - 1)
            bucket_wake(&map->buckets[64 * i + (uint32_t)__builtin_ctzll(left)]);
    }
    for (uint32_t i = 0; i < SQ_WAKE_WORDS; i++)
        if ((atomic_load(&map->words[i].groups) & groups) != 0)
            word_wake(&map->words[i], groups);
}

bool sqlite_wake_file_is_woken(const struct sqlite_wake_file *file,
                               const struct sqlite_waiter *waiter)
{
    return waiter->inode != file->inode ||
           sqlite_wake_file_count(file, atomic_load(&waiter->bucket)) != waiter->count;
}

uint32_t sqlite_wake_file_count(const struct sqlite_wake_file *file, uint32_t bucket)
{
    return atomic_load(&file->map->buckets[bucket].count);
}

uint32_t sqlite_wake_file_word_begin(const struct sqlite_wake_file *file, uint32_t word,
                                     uint32_t groups)
{
    uint32_t count = atomic_load(&file->map->words[word].count);

    (void)atomic_fetch_or(&file->map->words[word].groups, groups);
    return count;
}

void sqlite_wake_file_word_sleep(const struct sqlite_wake_file *file, uint32_t word,
                                 uint32_t groups, uint32_t begun, const struct dlock_host *host,
                                 int64_t until_ns)
{
    struct timespec until =
        sqlite_clock_futex(sqlite_clock_until(until_ns - host->now_ns(host->ctx)));

    (void)syscall(SYS_futex, &file->map->words[word].count, FUTEX_WAIT_BITSET, begun, &until, NULL,
                  groups);
}

void sqlite_wake_file_word_wake(const struct sqlite_wake_file *file, uint32_t word)
{
    if (map_is_whole(file))
        word_wake(&file->map->words[word], UINT32_MAX);
}

void sqlite_wake_file_exit(struct sqlite_wake_file *file, bool entered,
                           const struct sqlite_wake_set *set)
{
    if ((!entered && !set->any) || !map_is_whole(file))
        return;
    if (entered)
        sqlite_ticket_lock_exit(&file->map->tickets, &file->pass);
    if (set->any)
        buckets_wake(file->map, set);
}

void sqlite_wake_file_interrupt(const struct sqlite_wake_file *file, struct sqlite_waiter *waiter)
{
    atomic_store(&waiter->interrupted, 1);
    (void)futex(&waiter->interrupted, FUTEX_WAKE, INT32_MAX, NULL);
    if (atomic_load(&waiter->noted) && map_is_whole(file))
        bucket_wake(&file->map->buckets[atomic_load(&waiter->bucket)]);
}
