/* SPDX-License-Identifier: MIT */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GATE_SUFFIX  "-gate"
#define GATE_MAGIC   0x444C4B47u /* "DLKG" */
#define GATE_VERSION 1u
#define GATE_BUCKETS 1024u

/* The layout of a mutex differs between word sizes and C libraries. */
#define GATE_ABI ((uint32_t)(sizeof(void *) << 16 | sizeof(pthread_mutex_t) << 8 | __GLIBC__))

/* A release changes `count`, on which waiters sleep; `sleepers` is set by who goes to sleep and
 * cleared by who wakes. A flag and not a number: a waiter that is killed leaves at most one wake-up
 * too many behind. */
struct gate_bucket {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

/* What makes a file the gate of this database in this boot. A mutex of an earlier boot may be
 * locked for ever; so may one in a copied file. */
struct gate_identity {
    uint32_t magic, version, abi, broken;
    unsigned char boot[SQ_BOOT_SIZE];
    uint64_t inode;
    uint64_t db_device, db_inode;
};

struct sqlite_gate_file {
    struct gate_identity identity;
    pthread_mutex_t mutex;
    _Alignas(4096) struct gate_bucket buckets[GATE_BUCKETS];
};

static int cannot(struct sqlite_gate *gate, const char *what, int rc)
{
    (void)snprintf(gate->why, sizeof gate->why, "cannot %s it: %s", what, strerrordesc_np(rc));
    return rc;
}

static struct gate_identity identity_of(const struct stat *gate, const struct stat *db,
                                        const struct sqlite_clock *clock)
{
    struct gate_identity identity = {
        .magic = GATE_MAGIC,
        .version = GATE_VERSION,
        .abi = GATE_ABI,
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
        return cannot(gate, "map", errno);
    (void)madvise(map, sizeof(struct sqlite_gate_file), MADV_DONTFORK);
    gate->file = map;
    return 0;
}

/* 0; ESTALE: it has to be made anew; others: it cannot be used. */
static int file_use(struct sqlite_gate *gate, int fd, const struct stat *db,
                    const struct sqlite_clock *clock)
{
    struct gate_identity found, wanted;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return cannot(gate, "look at", errno);
    if (!S_ISREG(st.st_mode) || st.st_uid != db->st_uid || st.st_nlink != 1)
        return cannot(gate, "trust", EPERM);
    if (st.st_size != (off_t)sizeof(struct sqlite_gate_file) ||
        pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found)
        return ESTALE;
    wanted = identity_of(&st, db, clock);
    gate->inode = st.st_ino;
    if (found.magic == wanted.magic && found.abi != wanted.abi &&
        memcmp(found.boot, wanted.boot, sizeof found.boot) == 0)
        return cannot(gate, "share with another C library", ENOTSUP);
    if (memcmp(&found, &wanted, sizeof found) != 0)
        return ESTALE;
    return file_map(gate, fd);
}

/* 0; ESTALE, ENOENT: it has to be made; others: it cannot be used. */
static int gate_join(struct sqlite_gate *gate, const char *path, const struct stat *db,
                     const struct sqlite_clock *clock)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? ENOENT : cannot(gate, "open", errno);
    rc = file_use(gate, fd, db, clock);
    (void)close(fd);
    return rc;
}

static int mutex_make(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (rc == 0)
        rc = pthread_mutex_init(mutex, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    return rc;
}

/* Owned and allowed as the database. All of it is allocated now: a page that the disk has no room
 * for would be a SIGBUS later. */
static int file_fill(struct sqlite_gate *gate, int fd, const struct stat *db,
                     const struct sqlite_clock *clock)
{
    struct stat st;
    int rc = posix_fallocate(fd, 0, (off_t)sizeof(struct sqlite_gate_file));

    if (rc != 0)
        return cannot(gate, "allocate", rc);
    if (fstat(fd, &st) != 0)
        return cannot(gate, "look at", errno);
    if ((st.st_uid != db->st_uid || st.st_gid != db->st_gid) &&
        fchown(fd, db->st_uid, db->st_gid) != 0)
        return cannot(gate, "give away", errno);
    if (fchmod(fd, db->st_mode & 0666) != 0)
        return cannot(gate, "change the mode of", errno);
    rc = file_map(gate, fd);
    if (rc != 0)
        return rc;
    gate->inode = st.st_ino;
    rc = mutex_make(&gate->file->mutex);
    gate->file->identity = identity_of(&st, db, clock);
    return rc == 0 ? 0 : cannot(gate, "make a mutex in", rc);
}

/* It appears under its name complete, or not at all. */
static int gate_make(struct sqlite_gate *gate, const char *path, const struct stat *db,
                     const struct sqlite_clock *clock)
{
    char *fresh = NULL;
    int fd = -1, rc = 0;

    if (asprintf(&fresh, "%s.XXXXXX", path) < 0)
        return cannot(gate, "name", ENOMEM);
    fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0) {
        rc = cannot(gate, "make", errno);
    } else {
        rc = file_fill(gate, fd, db, clock);
        if (rc == 0 && rename(fresh, path) != 0)
            rc = cannot(gate, "rename", errno);
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
        return cannot(gate, "find the database of", errno);
    rc = gate_join(gate, path, &db, clock);
    if (rc != ESTALE && rc != ENOENT)
        return rc;
    directory_fd = sqlite_directory_lock(place->directory, until_ns);
    if (directory_fd < 0)
        return cannot(gate, "lock the directory of", errno);
    rc = gate_join(gate, path, &db, clock);
    if (rc == ESTALE || rc == ENOENT)
        rc = gate_make(gate, path, &db, clock);
    sqlite_directory_unlock(directory_fd);
    return rc;
}

void sqlite_gate_open(struct sqlite_gate *gate, const struct sqlite_place *place,
                      const struct sqlite_clock *clock, int64_t until_ns)
{
    char *path = sqlite_place_sibling(place, GATE_SUFFIX);

    memset(gate, 0, sizeof *gate);
    if (path == NULL)
        (void)cannot(gate, "name", ENOMEM);
    else if (gate_find(gate, place, path, clock, until_ns) != 0)
        sqlite_gate_close(gate);
    free(path);
}

void sqlite_gate_close(struct sqlite_gate *gate)
{
    if (gate->file != NULL)
        (void)munmap(gate->file, sizeof *gate->file);
    gate->file = NULL;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / SQ_NS_PER_S),
                             .tv_nsec = (long)(ns % SQ_NS_PER_S)};
}

int sqlite_gate_lock(struct sqlite_gate *gate, int64_t until_ns)
{
    struct timespec until = timespec_of(until_ns);
    int rc = 0;

    if (gate->file == NULL)
        return ENOENT;
    rc = pthread_mutex_clocklock(&gate->file->mutex, CLOCK_MONOTONIC, &until);
    if (rc == EOWNERDEAD) /* the mutex guards nothing that could be half done */
        rc = pthread_mutex_consistent(&gate->file->mutex);
    if (rc == 0 || rc == ETIMEDOUT)
        return rc;
    gate->file->identity.broken = 1;
    (void)cannot(gate, "lock", rc);
    sqlite_gate_close(gate);
    return rc;
}

void sqlite_gate_unlock(struct sqlite_gate *gate)
{
    (void)pthread_mutex_unlock(&gate->file->mutex);
}

/* FNV-1a */
static uint32_t bucket_of(const unsigned char *name, uint32_t name_len)
{
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < name_len; i++)
        hash = (hash ^ name[i]) * 16777619u;
    return (hash ^ hash >> 16) % GATE_BUCKETS;
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *until)
{
    return syscall(SYS_futex, word, op, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void bucket_release(struct gate_bucket *bucket)
{
    (void)atomic_fetch_add(&bucket->count, 1);
    if (atomic_exchange(&bucket->sleepers, 0) != 0)
        (void)futex(&bucket->count, FUTEX_WAKE, INT32_MAX, NULL);
}

void sqlite_gate_note(const struct sqlite_gate *gate, const unsigned char *name, uint32_t name_len,
                      struct sqlite_watch *watch)
{
    watch->noted = gate->file != NULL;
    if (gate->file == NULL)
        return;
    watch->inode = gate->inode;
    watch->bucket = bucket_of(name, name_len);
    watch->seen = atomic_load(&gate->file->buckets[watch->bucket].count);
}

/* Zero: it was removed, so that others have another one, or none. */
static int gate_is_shared(const struct sqlite_gate *gate, const struct sqlite_place *place)
{
    char *path = sqlite_place_sibling(place, GATE_SUFFIX);
    struct stat st;
    int shared = path != NULL && stat(path, &st) == 0 && st.st_ino == gate->inode;

    free(path);
    return shared;
}

enum dlock_status sqlite_gate_sleep(const struct sqlite_gate *gate,
                                    const struct sqlite_place *place,
                                    const struct sqlite_watch *watch, const struct dlock_host *host,
                                    int64_t deadline_ns)
{
    struct gate_bucket *bucket = NULL;

    if (atomic_load(&watch->interrupted))
        return DLOCK_CANCELED;
    if (gate->file == NULL || !watch->noted || !gate_is_shared(gate, place))
        return DLOCK_UNAVAILABLE;
    if (watch->inode != gate->inode) /* noted by a session that was opened before */
        return DLOCK_BUSY;
    bucket = &gate->file->buckets[watch->bucket];
    while (!atomic_load(&watch->interrupted)) {
        int64_t left = deadline_ns - host->now_ns(host->ctx);
        struct timespec until;

        if (atomic_load(&bucket->count) != watch->seen)
            return DLOCK_BUSY;
        if (left <= 0)
            return DLOCK_TIMEOUT;
        until = timespec_of(sqlite_clock_until(left));
        atomic_store(&bucket->sleepers, 1);
        (void)futex(&bucket->count, FUTEX_WAIT_BITSET, watch->seen, &until);
    }
    return DLOCK_CANCELED;
}

void sqlite_gate_wake(const struct sqlite_gate *gate, const unsigned char *name, uint32_t name_len)
{
    if (gate->file != NULL)
        bucket_release(&gate->file->buckets[bucket_of(name, name_len)]);
}

void sqlite_gate_interrupt(const struct sqlite_gate *gate, struct sqlite_watch *watch)
{
    atomic_store(&watch->interrupted, 1);
    if (gate->file != NULL && watch->noted)
        bucket_release(&gate->file->buckets[watch->bucket]);
}
