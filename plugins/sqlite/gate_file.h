/* SPDX-License-Identifier: MIT */
/*
 * gate_file.h - what is in the gate file, and finding or making it.
 */
#ifndef SQLITE_GATE_FILE_H
#define SQLITE_GATE_FILE_H

#include "sqlite.h"

#define SQ_GATE_SUFFIX "-gate"

/* Waking changes `count`, on which waiters sleep; `sleepers` is set by who goes to sleep and
 * cleared by who wakes. A flag and not a number: a waiter that is killed leaves at most one wake-up
 * too many behind. */
struct sqlite_gate_bucket {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

/* What makes a file the gate of this database in this boot. It and shm_inode stay where they are in
 * all versions. An older version's file is replaced; a newer one's is left alone, and done without,
 * so that programs with different versions do not replace each other's for ever. */
struct sqlite_gate_identity {
    uint32_t magic, version, unused[2]; /* version 1 had a mutex, and notes on it there */
    unsigned char boot[SQ_BOOT_SIZE];
    uint64_t inode;
    uint64_t db_device, db_inode;
};

struct sqlite_gate_file {
    struct sqlite_gate_identity identity;
    _Atomic uint64_t shm_inode; /* of the -shm that the database uses, or used last */
    struct sqlite_ticket_lock door;
    _Alignas(4096) struct sqlite_gate_bucket buckets[SQ_GATE_BUCKETS];
};

/* Non-zero: it is there and of full length. A use of one that somebody cut short would be a SIGBUS:
 * from here on its place in memory holds zeroes that nobody shares. To be asked before every use;
 * there is no protection against a cut in the microseconds between. */
int sqlite_gate_whole(const struct sqlite_gate *gate);

/* Fills gate->why with what went wrong; returns rc. */
int sqlite_gate_cannot(struct sqlite_gate *gate, const char *what, int rc);

#endif
