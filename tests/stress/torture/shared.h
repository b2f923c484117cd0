/* SPDX-License-Identifier: MIT */
/*
 * shared.h - memory that all processes of a run share, in a file of its directory: it outlives
 * each of them.
 */
#ifndef TORTURE_SHARED_H
#define TORTURE_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NAMES_MOST     16
#define PLACES_MOST    512 /* threads of all processes */
#define WITNESSES_MOST 16

/* What one thread claims of one name; oracle.h. */
struct oracle_claim {
    _Atomic uint64_t attempt; /* 0: nothing */
    _Atomic int64_t until_ns;
    _Atomic uint32_t mode, permit;
};

struct oracle_witness {
    uint64_t attempt, other;
    int64_t clock_ns, until_ns, other_until_ns;
    uint32_t name;
};

/* What a lock is there to protect; resource.h. */
struct resource {
    pthread_mutex_t guard; /* robust, and never a lock of the library */
    uint64_t fence;        /* the greatest seen */
    uint64_t accepted, rejected;
};

struct shared {
    _Atomic uint32_t stopping;
    _Atomic uint64_t calls, acquired, lost, unknown, scans;
    _Atomic uint64_t late_news;  /* of acquisitions that were over */
    _Atomic uint64_t operations; /* of dlock_op_start */
    _Atomic uint64_t inherited;  /* claims of clients that were killed, by their programs */
    _Atomic uint64_t programs[PLACES_MOST / 2]; /* attempts that have one; survivor.h */
    _Atomic uint32_t witness_count;
    struct oracle_witness witnesses[WITNESSES_MOST];
    struct resource resources[NAMES_MOST];
    struct oracle_claim claims[NAMES_MOST][PLACES_MOST];
};

/* Maps the file, which is made if `create`. NULL: errno. */
struct shared *shared_open(const char *directory, bool create);
void shared_close(struct shared *shared);

#endif
