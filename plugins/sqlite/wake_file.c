/* SPDX-License-Identifier: MIT */
#include "wake_map.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    if (sqlite_wake_map_is_whole(file))
        rc = sqlite_ticket_lock_enter(&file->map->tickets, &file->pass, until_ns);
    if (rc == ENODATA)
        (void)sqlite_wake_map_cannot(file, "use", rc);
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
    bool whole = sqlite_wake_map_is_whole(file);

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
    bool shared = path != NULL && stat(path, &st) == 0 && st.st_ino == file->inode &&
                  sqlite_wake_map_is_whole(file);

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
        if (!sqlite_wake_map_is_whole(file))
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
static void bell_ring(struct sqlite_wake_bell *bell, uint32_t groups)
{
    (void)atomic_fetch_and(&bell->groups, ~groups);
    (void)atomic_fetch_add(&bell->count, 1);
    (void)syscall(SYS_futex, &bell->count, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL, groups);
}

static void buckets_wake(struct sqlite_wake_map *map, const struct sqlite_wake_set *set)
{
    uint32_t groups = 0;

    for (uint32_t i = 0; i < SQ_WAKE_BUCKETS / 64; i++) {
        groups |= (uint32_t)(set->bits[i] | set->bits[i] >> 32);
        for (uint64_t left = set->bits[i]; left != 0; left &= left - 1)
            bucket_wake(&map->buckets[64 * i + (uint32_t)__builtin_ctzll(left)]);
    }
    for (uint32_t i = 0; i < SQ_WAKE_BELLS; i++)
        if ((atomic_load(&map->bells[i].groups) & groups) != 0)
            bell_ring(&map->bells[i], groups);
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

uint32_t sqlite_wake_file_bell_begin(const struct sqlite_wake_file *file, uint32_t bell,
                                     uint32_t groups)
{
    uint32_t count = atomic_load(&file->map->bells[bell].count);

    (void)atomic_fetch_or(&file->map->bells[bell].groups, groups);
    return count;
}

void sqlite_wake_file_bell_sleep(const struct sqlite_wake_file *file, uint32_t bell,
                                 uint32_t groups, uint32_t begun, const struct dlock_host *host,
                                 int64_t until_ns)
{
    struct timespec until =
        sqlite_clock_futex(sqlite_clock_until(until_ns - host->now_ns(host->ctx)));

    (void)syscall(SYS_futex, &file->map->bells[bell].count, FUTEX_WAIT_BITSET, begun, &until, NULL,
                  groups);
}

void sqlite_wake_file_bell_ring(const struct sqlite_wake_file *file, uint32_t bell)
{
    if (sqlite_wake_map_is_whole(file))
        bell_ring(&file->map->bells[bell], UINT32_MAX);
}

void sqlite_wake_file_exit(struct sqlite_wake_file *file, bool entered,
                           const struct sqlite_wake_set *set)
{
    if ((!entered && !set->any) || !sqlite_wake_map_is_whole(file))
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
    if (atomic_load(&waiter->noted) && sqlite_wake_map_is_whole(file))
        bucket_wake(&file->map->buckets[atomic_load(&waiter->bucket)]);
}
