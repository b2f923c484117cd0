/* SPDX-License-Identifier: MIT */
/*
 * gate.h - a small file beside the database, mapped by all who use it.
 *
 * It holds a lock that is taken in turn, in front of SQLite's own, which can only be polled for and
 * goes to whoever polls at the right moment. And it holds the words that waiters sleep on, in
 * buckets: who has a place in a queue sleeps in that of its token until it is granted the lock,
 * others in that of the name until it is released.
 *
 * Nothing in it is needed for exclusion. Where it cannot be used, SQLite's lock does the work and
 * waiters look at the store 20 times a second.
 */
#ifndef SQLITE_GATE_H
#define SQLITE_GATE_H

#include "ticket_lock.h"

#include <dlock/plugin.h>
#include <stdatomic.h>

#define SQ_GATE_BUCKETS 1024u

struct sqlite_place;
struct sqlite_clock;
struct sqlite_gate_file;

struct sqlite_gate {
    struct sqlite_gate_file *file; /* NULL: cannot be used, `why` says why */
    int fd;                        /* of file */
    uint64_t inode;                /* of file */
    struct sqlite_ticket_pass pass;
    int64_t mend_ns; /* not 0: waiters need another one, and it is looked for from then on */
    char why[120];   /* it cannot be used; "": it can */
};

/* The waiter of one attempt, in its slot. */
struct sqlite_watch {
    _Atomic uint32_t interrupted; /* sticky [INT-2] */
    _Atomic uint32_t noted;       /* non-zero: the rest is there */
    _Atomic uint32_t bucket;      /* read by interrupt, too */
    uint32_t seen;                /* the bucket's count before the store was looked at */
    uint64_t inode;               /* of the gate that `seen` is of */
};

/* The buckets to wake when a transaction has ended. */
struct sqlite_wakes {
    uint64_t set[SQ_GATE_BUCKETS / 64];
    int any;
};

/* Non-zero: the gate there is of a database that was at this place before, in this boot; *shm_too:
 * and so are -wal and -shm. */
int sqlite_gate_of_another(const struct sqlite_place *place, const struct sqlite_clock *clock,
                           int *shm_too);

/* Opens the file, or makes it if it is missing or of another boot or database. */
void sqlite_gate_open(struct sqlite_gate *gate, const struct sqlite_place *place,
                      const struct sqlite_clock *clock, int64_t until_ns);
void sqlite_gate_close(struct sqlite_gate *gate);

/* Opens it again if a waiter found that it is not the gate that others use, or none; once a second
 * at most. Not while somebody sleeps in it. */
void sqlite_gate_mend(struct sqlite_gate *gate, const struct sqlite_place *place,
                      const struct sqlite_clock *clock, int64_t until_ns);

/* 0: entered, most probably alone; ETIMEDOUT: not until until_ns of sqlite_clock_boottime; others:
 * there is no gate. */
int sqlite_gate_lock(struct sqlite_gate *gate, int64_t until_ns);

/* After a transaction, with one look at the file: leaves, if it was entered, and then ends the
 * sleep of all that noted one of the keys, who will want to enter. */
void sqlite_gate_leave(struct sqlite_gate *gate, int entered, const struct sqlite_wakes *wakes);

/* To be called before the store is looked at: what wakes this key from here on ends the sleep
 * [WAT-2]. */
void sqlite_gate_note(const struct sqlite_gate *gate, const unsigned char *key, uint32_t key_len,
                      struct sqlite_watch *watch);

/* BUSY: somebody woke the key, or another one of its bucket. TIMEOUT: deadline_ns on the host's
 * clock. CANCELED. If nothing was noted, or others may use another gate by now, it is BUSY after a
 * nap of 50 ms: waiters look at the store by themselves, and the session goes on. */
enum dlock_status sqlite_gate_sleep(struct sqlite_gate *gate, const struct sqlite_place *place,
                                    const struct sqlite_watch *watch, const struct dlock_host *host,
                                    int64_t deadline_ns);

void sqlite_wakes_add(struct sqlite_wakes *wakes, const unsigned char *key, uint32_t key_len);

/* Ends one sleep, on this gate, now or later. From any thread. */
void sqlite_gate_interrupt(const struct sqlite_gate *gate, struct sqlite_watch *watch);

#endif
