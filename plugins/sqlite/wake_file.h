/* SPDX-License-Identifier: MIT */
/*
 * wake_file.h - a small file beside the database, which all its users map.
 *
 * It holds a lock that writers take in the order of their arrival, in front of SQLite's own lock,
 * which can only be polled for and goes to the process that polls at the right moment. It also
 * holds the words that waiters sleep on, in buckets: a waiter with a queue entry sleeps in the
 * bucket of its token until it is granted the lock, others in the bucket of the name until it is
 * released.
 *
 * Exclusion needs nothing of it. Where it cannot be used, SQLite's lock does the work, and waiters
 * poll the store 20 times a second.
 */
#ifndef SQLITE_WAKE_FILE_H
#define SQLITE_WAKE_FILE_H

#include "clock.h"
#include "config.h"
#include "ticket_lock.h"

#include <stdatomic.h>

#define SQ_WAKE_SUFFIX  "-wake"
#define SQ_WAKE_BUCKETS 1024u
#define SQ_WAKE_WORDS   16u /* clients that wait for many keys at once share them */

struct sqlite_wait_list;

/* Waking changes `count`, on which waiters sleep. A waiter sets `sleepers` before it sleeps, and a
 * wake-up clears it. It is a flag and not a number: a waiter that is killed costs at most one
 * needless wake-up. */
struct sqlite_wake_bucket {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

/* For threads that wait for keys of many buckets (watch.h). Waking changes `count` and wakes
 * the threads that wait for the bucket's group. A thread sets its groups before it sleeps, and a
 * wake-up clears them. */
struct sqlite_wake_word {
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
    _Alignas(64) struct sqlite_wake_word words[SQ_WAKE_WORDS];
    _Alignas(4096) struct sqlite_wake_bucket buckets[SQ_WAKE_BUCKETS];
};

struct sqlite_wake_file {
    struct sqlite_wake_map *map; /* NULL: it cannot be used, for the reason in `why` */
    int fd;                      /* of the file */
    uint64_t device, inode;      /* of the file */
    struct sqlite_ticket_pass pass;
    int64_t reopen_ns; /* not 0: waiters need another file; not looked for before this time */
    char why[120];     /* it cannot be used; "": it can */
};

/* The waiter of one attempt, in its slot. */
struct sqlite_waiter {
    _Atomic uint32_t interrupted; /* sticky [INT-2] */
    _Atomic uint32_t noted;       /* non-zero: the rest is valid */
    _Atomic uint32_t bucket;      /* interrupt reads it, too */
    uint32_t count;               /* of the bucket, before the store was read */
    uint64_t inode;               /* of the file in which `count` was read */
    /* Of watch.h; zeroes for a waiter that a thread watches. */
    struct sqlite_wait_list *list; /* that has it; NULL: none */
    struct sqlite_waiter *next, **at;
    uint32_t number;
};

/* The buckets to wake when a transaction has ended. */
struct sqlite_wake_set {
    uint64_t bits[SQ_WAKE_BUCKETS / 64];
    bool any;
};

/* Opens the file; makes it if it is missing, or belongs to another boot or database. On failure
 * file->why has the reason. */
void sqlite_wake_map_open(struct sqlite_wake_file *file, const struct sqlite_config *config,
                          const struct sqlite_clock *clock, int64_t until_ns);
void sqlite_wake_map_close(struct sqlite_wake_file *file);

/* True: the wake file at this path belongs to another database, which had the path before in this
 * boot. *shm_too: so do -wal and -shm. */
bool sqlite_wake_map_is_of_another(const struct sqlite_config *config,
                                   const struct sqlite_clock *clock, bool *shm_too);

/* Opens the file again if a waiter found that other processes use another one, or that it cannot be
 * used; at most once a second. Not while somebody sleeps in it. */
void sqlite_wake_file_reopen(struct sqlite_wake_file *file, const struct sqlite_config *config,
                             const struct sqlite_clock *clock, int64_t until_ns);

/* Takes the ticket lock. True: entered, most probably alone. False: not until until_ns of
 * sqlite_clock_boottime, or the file cannot be used. */
bool sqlite_wake_file_enter(struct sqlite_wake_file *file, int64_t until_ns);

/* After a transaction: gives the ticket lock back if it was entered, and then wakes the waiters in
 * the set, which will want to enter. */
void sqlite_wake_file_exit(struct sqlite_wake_file *file, bool entered,
                           const struct sqlite_wake_set *set);

/* To be called before the store is read: a wake-up of this key after this call ends the sleep
 * [WAT-2]. */
void sqlite_wake_file_note(const struct sqlite_wake_file *file, const unsigned char *key,
                           uint32_t key_len, struct sqlite_waiter *waiter);

/* BUSY: this key was woken, or another key of its bucket. TIMEOUT: deadline_ns on the host's clock.
 * CANCELED: interrupted. BUSY after 50 ms: nothing was noted, or other processes may use another
 * wake file; so waiters poll the store, and the session stays usable. */
enum dlock_status sqlite_wake_file_sleep(struct sqlite_wake_file *file,
                                         const struct sqlite_config *config,
                                         const struct sqlite_waiter *waiter,
                                         const struct dlock_host *host, int64_t deadline_ns);

/* Ends one sleep on this file, now or later. From any thread. */
void sqlite_wake_file_interrupt(const struct sqlite_wake_file *file, struct sqlite_waiter *waiter);

/* False: the file cannot be used, or other processes may use another one; it is looked for later.
 */
bool sqlite_wake_file_is_usable(struct sqlite_wake_file *file, const struct sqlite_config *config);

/* The bucket has been woken since the waiter noted it, or that cannot be told. The file is usable.
 */
bool sqlite_wake_file_is_woken(const struct sqlite_wake_file *file,
                               const struct sqlite_waiter *waiter);
uint32_t sqlite_wake_file_count(const struct sqlite_wake_file *file, uint32_t bucket);

/* For a thread that waits for buckets of these groups (bits: bucket modulo 32), on a word: first
 * word_begin, then it looks at its buckets, then it sleeps until one of the groups was woken since
 * word_begin, until until_ns of the host's clock, or for a second. The file is usable. */
uint32_t sqlite_wake_file_word_begin(const struct sqlite_wake_file *file, uint32_t word,
                                     uint32_t groups);
void sqlite_wake_file_word_sleep(const struct sqlite_wake_file *file, uint32_t word,
                                 uint32_t groups, uint32_t begun, const struct dlock_host *host,
                                 int64_t until_ns);
/* Wakes all threads of the word. */
void sqlite_wake_file_word_wake(const struct sqlite_wake_file *file, uint32_t word);

/* Adds the waiters of a key to the set. */
void sqlite_wake_file_add(struct sqlite_wake_set *set, const unsigned char *key, uint32_t key_len);

#endif
