/* SPDX-License-Identifier: MIT */
/* wake_map.h - what is in the wake file, and finding, making and mapping it. */
#ifndef SQLITE_WAKE_MAP_H
#define SQLITE_WAKE_MAP_H

#include "clock.h"
#include "wake_file.h"

/* Waking changes `count`, on which waiters sleep. A waiter sets `sleepers` before it sleeps, and a
 * wake-up clears it. It is a flag and not a number: a waiter that is killed costs at most one
 * needless wake-up. */
struct sqlite_wake_bucket {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

/* For threads that wait for keys of many buckets (wait_list.h). Waking changes `count` and wakes
 * the threads that wait for the bucket's group. A thread sets its groups before it sleeps, and a
 * wake-up clears them. */
struct sqlite_wake_bell {
    _Atomic uint32_t count;
    _Atomic uint32_t groups; /* bits: bucket modulo 32 */
};

/* What makes a file the wake file of this database in this boot. It and shm_inode stay where they
 * are in all versions. A file of an older version is replaced; a file of a newer version is left
 * alone and not used, so that programs of two versions do not replace each other's file forever. */
struct sqlite_wake_identity {
    uint32_t magic, version, unused[2]; /* version 1 had a mutex, and notes on it there */
    unsigned char boot[SQ_BOOT_SIZE];
    uint64_t inode;
    uint64_t db_device, db_inode;
};

struct sqlite_wake_map {
    struct sqlite_wake_identity identity;
    _Atomic uint64_t shm_inode; /* of the -shm that the database uses, or used last */
    struct sqlite_ticket_lock tickets;
    _Alignas(64) struct sqlite_wake_bell bells[SQ_WAKE_BELLS];
    _Alignas(4096) struct sqlite_wake_bucket buckets[SQ_WAKE_BUCKETS];
};

/* Opens the file; makes it if it is missing, or belongs to another boot or database. On failure
 * file->why has the reason. */
void sqlite_wake_map_open(struct sqlite_wake_file *file, const struct sqlite_config *config,
                          const struct sqlite_clock *clock, int64_t until_ns);
void sqlite_wake_map_close(struct sqlite_wake_file *file);

/* True: the file is mapped and has its full length. To be asked before every use: the use of a file
 * that somebody cut short raises SIGBUS. After false, its addresses hold private zeroes. Nothing
 * protects against a cut in the microseconds after this call. */
bool sqlite_wake_map_is_whole(const struct sqlite_wake_file *file);

/* True: the wake file at this path belongs to another database, which had the path before in this
 * boot. *shm_too: so do -wal and -shm. */
bool sqlite_wake_map_is_of_another(const struct sqlite_config *config,
                                   const struct sqlite_clock *clock, bool *shm_too);

/* Fills file->why with "cannot <what> it"; returns rc. */
int sqlite_wake_map_cannot(struct sqlite_wake_file *file, const char *what, int rc);

#endif
