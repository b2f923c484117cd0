/* SPDX-License-Identifier: MIT */
/*
 * gate_file.h - what is in the gate file, and finding or making it.
 */
#ifndef SQLITE_GATE_FILE_H
#define SQLITE_GATE_FILE_H

#include "sqlite.h"

#include <pthread.h>

#define SQ_GATE_SUFFIX "-gate"

/* Waking changes `count`, on which waiters sleep; `sleepers` is set by who goes to sleep and
 * cleared by who wakes. A flag and not a number: a waiter that is killed leaves at most one wake-up
 * too many behind. */
struct sqlite_gate_bucket {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

/* What makes a file the gate of this database in this boot. A mutex of an earlier boot may be
 * locked for ever; so may one in a copied file. */
struct sqlite_gate_identity {
    uint32_t magic, version, abi, broken;
    unsigned char boot[SQ_BOOT_SIZE];
    uint64_t inode;
    uint64_t db_device, db_inode;
};

struct sqlite_gate_file {
    struct sqlite_gate_identity identity;
    _Atomic uint64_t shm_inode; /* of the -shm that the database uses, or used last */
    pthread_mutex_t mutex;
    _Alignas(4096) struct sqlite_gate_bucket buckets[SQ_GATE_BUCKETS];
};

/* Fills gate->why with what went wrong; returns rc. */
int sqlite_gate_cannot(struct sqlite_gate *gate, const char *what, int rc);

#endif
