/* SPDX-License-Identifier: MIT */
/*
 * ticket_lock.h - a first-come-first-served lock in shared memory, which survives the death of any
 * process that uses it.
 *
 * It keeps order and does not exclude: a process that holds it or waits for it may be killed or
 * stopped at any point, and the others go on without it after a bounded time. So two processes may
 * be inside after such a delay, and what they do there has to be safe by itself.
 *
 *   - A process that finds it free, with no waiter, enters. The others take a ticket and sleep.
 *   - A process that exits wakes the owner of the oldest ticket. Until that owner is awake, the
 *     same session may enter again, for SQ_TICKET_RUN_NS: a waiter that gets no processor
 *     delays nobody, and the order is right again when it does.
 *   - A holder is passed after SQ_TICKET_HOLDER_NS.
 *   - A waiter that could enter and does not is skipped after SQ_TICKET_WAITER_NS by the next
 *     waiter. If that one is dead, too, others skip it later, and then two at once, four, eight.
 *   - A waiter that gave up is skipped at once.
 *   - A waiter that was skipped and lives enters as soon as the lock is free.
 */
#ifndef SQLITE_TICKET_LOCK_H
#define SQLITE_TICKET_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Tests set them. */
#ifndef SQ_TICKET_RUN_NS
#define SQ_TICKET_RUN_NS INT64_C(500000)
#endif
#ifndef SQ_TICKET_WAITER_NS
#define SQ_TICKET_WAITER_NS INT64_C(2000000)
#endif
#ifndef SQ_TICKET_HOLDER_NS
#define SQ_TICKET_HOLDER_NS INT64_C(20000000)
#endif

#define SQ_TICKETS_GIVEN_UP 256u

/* In shared memory. Zeroes are a free lock. So is any other content, though not a fair one: use
 * puts it right. */
struct sqlite_ticket_lock {
    _Atomic uint32_t state;  /* odd: held. Rises with each entry and exit; waiters sleep on it */
    _Atomic uint32_t next;   /* the ticket to be given out next */
    _Atomic uint32_t served; /* the oldest ticket that has a waiter; `next`: no waiter */
    _Atomic uint32_t awake;  /* equal to `served`: the owner of that ticket is awake */
    _Atomic uint32_t skips;  /* tickets skipped since the last one that was used */
    /* By remainder: the last ticket that was given up. */
    _Atomic uint32_t given_up[SQ_TICKETS_GIVEN_UP];
};

/* What a session remembers; zeroes at first. For one call at a time. */
struct sqlite_ticket_pass {
    uint32_t entered;  /* the state while the session holds the lock */
    uint32_t exited;   /* the state after its last exit; unchanged: nobody entered since */
    int64_t since_ns;  /* when it entered with a ticket */
    uint32_t waited;   /* the state when it last gave up */
    int64_t waited_ns; /* since when that state lasted: short waits pass a dead holder, too */
    /* Asked after each sleep. False: the lock must not be used any more. NULL: it always may. */
    bool (*usable)(const void *arg);
    const void *arg;
};

/* 0: entered. ETIMEDOUT: not until until_ns of sqlite_clock_boottime. ENODATA: not usable. */
int sqlite_ticket_lock_enter(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                             int64_t until_ns);
void sqlite_ticket_lock_exit(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass);

#endif
