/* SPDX-License-Identifier: MIT */
/*
 * gate.h - a small file beside the database, mapped by all who use it.
 *
 * It holds a lock that is taken in turn, in front of SQLite's own, which can only be polled for and
 * goes to whoever polls at the right moment. And it holds the words that waiters sleep on until a
 * name is released.
 *
 * Nothing in it is needed for exclusion. Where it cannot be used, SQLite's lock does the work and
 * waiters poll.
 */
#ifndef SQLITE_GATE_H
#define SQLITE_GATE_H

#include "ticket_lock.h"

#include <dlock/plugin.h>
#include <stdatomic.h>

struct sqlite_place;
struct sqlite_clock;
struct sqlite_gate_file;

struct sqlite_gate {
    struct sqlite_gate_file *file; /* NULL: cannot be used, `why` says why */
    int fd;                        /* of file */
    uint64_t inode;                /* of file */
    struct sqlite_ticket_pass pass;
    char why[120]; /* it cannot be used; "": it can */
};

/* The waiter of one attempt, in its slot. */
struct sqlite_watch {
    _Atomic uint32_t interrupted; /* sticky [INT-2] */
    uint32_t noted;               /* non-zero: the rest is there */
    uint64_t inode;               /* of the gate that `seen` is of */
    uint32_t bucket;
    uint32_t seen; /* the bucket's count before the name was looked at */
};

/* Non-zero: the gate there is of a database that was at this place before, in this boot; *shm_too:
 * and so are -wal and -shm. */
int sqlite_gate_of_another(const struct sqlite_place *place, const struct sqlite_clock *clock,
                           int *shm_too);

/* Opens the file, or makes it if it is missing or of another boot or database. */
void sqlite_gate_open(struct sqlite_gate *gate, const struct sqlite_place *place,
                      const struct sqlite_clock *clock, int64_t until_ns);
void sqlite_gate_close(struct sqlite_gate *gate);

/* 0: entered, most probably alone; ETIMEDOUT: not until until_ns of CLOCK_MONOTONIC; others: there
 * is no gate. */
int sqlite_gate_lock(struct sqlite_gate *gate, int64_t until_ns);
void sqlite_gate_unlock(struct sqlite_gate *gate);

/* To be called before looking at the name: releases from here on end the sleep [WAT-2]. */
void sqlite_gate_note(const struct sqlite_gate *gate, const unsigned char *name, uint32_t name_len,
                      struct sqlite_watch *watch);

/* BUSY: something was released. TIMEOUT: deadline_ns on the host's clock. CANCELED. UNAVAILABLE:
 * nothing was noted, or others may use another gate by now. */
enum dlock_status sqlite_gate_sleep(const struct sqlite_gate *gate,
                                    const struct sqlite_place *place,
                                    const struct sqlite_watch *watch, const struct dlock_host *host,
                                    int64_t deadline_ns);

/* The name was released: ends the sleep of all that wait for it. */
void sqlite_gate_wake(const struct sqlite_gate *gate, const unsigned char *name, uint32_t name_len);

/* Ends one sleep, on this gate, now or later. From any thread. */
void sqlite_gate_interrupt(const struct sqlite_gate *gate, struct sqlite_watch *watch);

#endif
