/* SPDX-License-Identifier: MIT */
#include "gate_file.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS                                                                            \
    (50 * DL_NS_PER_MS)     /* of a waiter without a gate, between two looks at the store \
                             */
#define MEND_NS DL_NS_PER_S /* between two attempts to find a gate that can be used */

void sqlite_gate_mend(struct sqlite_gate *gate, const struct sqlite_place *place,
                      const struct sqlite_clock *clock, int64_t until_ns)
{
    int64_t now_ns = sqlite_clock_boottime();

    if (gate->mend_ns == 0 || now_ns < gate->mend_ns)
        return;
    sqlite_gate_close(gate);
    sqlite_gate_open(gate, place, clock, sqlite_lesser(until_ns, now_ns + NAP_NS));
    gate->mend_ns = gate->file != NULL ? 0 : now_ns + MEND_NS;
}

int sqlite_gate_lock(struct sqlite_gate *gate, int64_t until_ns)
{
    int rc = 0;

    if (gate->file == NULL)
        return ENOENT;
    if (!sqlite_gate_whole(gate))
        return sqlite_gate_cannot(gate, "use", ENODATA);
    rc = sqlite_ticket_enter(&gate->file->door, &gate->pass, until_ns);
    return rc == ENODATA ? sqlite_gate_cannot(gate, "use", rc) : rc;
}

/* FNV-1a */
static uint32_t bucket_of(const unsigned char *key, uint32_t key_len)
{
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < key_len; i++)
        hash = (hash ^ key[i]) * 16777619u;
    return (hash ^ hash >> 16) % SQ_GATE_BUCKETS;
}

static long futex(const _Atomic uint32_t *word, int op, uint32_t value,
                  const struct timespec *until)
{
    return syscall(SYS_futex, word, op, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void bucket_wake(struct sqlite_gate_bucket *bucket)
{
    (void)atomic_fetch_add(&bucket->count, 1);
    if (atomic_exchange(&bucket->sleepers, 0) != 0)
        (void)futex(&bucket->count, FUTEX_WAKE, INT32_MAX, NULL);
}

void sqlite_gate_note(const struct sqlite_gate *gate, const unsigned char *key, uint32_t key_len,
                      struct sqlite_watch *watch)
{
    uint32_t bucket = bucket_of(key, key_len);
    uint32_t whole = sqlite_gate_whole(gate) != 0;

    if (whole) {
        watch->inode = gate->inode;
        watch->seen = atomic_load(&gate->file->buckets[bucket].count);
        atomic_store(&watch->bucket, bucket);
    }
    atomic_store(&watch->noted, whole);
}

/* Zero: it was removed, so that others have another one, or none. */
static int gate_is_shared(const struct sqlite_gate *gate, const struct sqlite_place *place)
{
    char *path = sqlite_place_sibling(place, SQ_GATE_SUFFIX);
    struct stat st;
    int shared =
        path != NULL && stat(path, &st) == 0 && st.st_ino == gate->inode && sqlite_gate_whole(gate);

    free(path);
    return shared;
}

/* Nothing but an interrupt ends it. */
static enum dlock_status nap(const struct sqlite_watch *watch, const struct dlock_host *host,
                             int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - host->now_ns(host->ctx);
    struct timespec until = sqlite_clock_futex(sqlite_clock_until(sqlite_lesser(left_ns, NAP_NS)));

    if (left_ns <= 0)
        return DLOCK_TIMEOUT;
    (void)futex(&watch->interrupted, FUTEX_WAIT_BITSET, 0, &until);
    return atomic_load(&watch->interrupted) ? DLOCK_CANCELED : DLOCK_BUSY;
}

static enum dlock_status sleep_in(const struct sqlite_gate *gate, const struct sqlite_watch *watch,
                                  const struct dlock_host *host, int64_t deadline_ns)
{
    struct sqlite_gate_bucket *bucket = &gate->file->buckets[atomic_load(&watch->bucket)];

    while (!atomic_load(&watch->interrupted)) {
        int64_t left_ns = deadline_ns - host->now_ns(host->ctx);
        struct timespec until = sqlite_clock_futex(sqlite_clock_until(left_ns));

        if (atomic_load(&bucket->count) != watch->seen)
            return DLOCK_BUSY;
        if (left_ns <= 0)
            return DLOCK_TIMEOUT;
        atomic_store(&bucket->sleepers, 1);
        (void)futex(&bucket->count, FUTEX_WAIT_BITSET, watch->seen, &until);
        if (!sqlite_gate_whole(gate))
            return DLOCK_BUSY;
    }
    return DLOCK_CANCELED;
}

enum dlock_status sqlite_gate_sleep(struct sqlite_gate *gate, const struct sqlite_place *place,
                                    const struct sqlite_watch *watch, const struct dlock_host *host,
                                    int64_t deadline_ns)
{
    int usable = gate->file != NULL && gate_is_shared(gate, place);

    if (atomic_load(&watch->interrupted))
        return DLOCK_CANCELED;
    if (!usable && gate->mend_ns == 0)
        gate->mend_ns = 1;
    if (!usable || !atomic_load(&watch->noted))
        return nap(watch, host, deadline_ns);
    if (watch->inode != gate->inode) /* noted by a session that was opened before */
        return DLOCK_BUSY;
    return sleep_in(gate, watch, host, deadline_ns);
}

void sqlite_wakes_add(struct sqlite_wakes *wakes, const unsigned char *key, uint32_t key_len)
{
    uint32_t bucket = bucket_of(key, key_len);

    wakes->set[bucket / 64] |= UINT64_C(1) << bucket % 64;
    wakes->any = 1;
}

static void buckets_wake(struct sqlite_gate_file *file, const struct sqlite_wakes *wakes)
{
    for (uint32_t i = 0; i < SQ_GATE_BUCKETS / 64; i++) {
        for (uint64_t left = wakes->set[i]; left != 0; left &= left - 1)
            bucket_wake(&file->buckets[64 * i + (uint32_t)__builtin_ctzll(left)]);
    }
}

void sqlite_gate_leave(struct sqlite_gate *gate, int entered, const struct sqlite_wakes *wakes)
{
    if ((!entered && !wakes->any) || !sqlite_gate_whole(gate))
        return;
    if (entered)
        sqlite_ticket_leave(&gate->file->door, &gate->pass);
    if (wakes->any)
        buckets_wake(gate->file, wakes);
}

void sqlite_gate_interrupt(const struct sqlite_gate *gate, struct sqlite_watch *watch)
{
    atomic_store(&watch->interrupted, 1);
    (void)futex(&watch->interrupted, FUTEX_WAKE, INT32_MAX, NULL);
    if (atomic_load(&watch->noted) && sqlite_gate_whole(gate))
        bucket_wake(&gate->file->buckets[atomic_load(&watch->bucket)]);
}
