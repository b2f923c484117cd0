/* SPDX-License-Identifier: MIT */
/*
 * ticket_lock.h - a lock in memory that processes share, taken in turn, which outlives whatever
 * happens to one of them.
 *
 * It keeps order and does not exclude: who holds it or waits for it may be killed or stopped at any
 * point, and the others go on without it after a bounded time. So two may be inside after a delay,
 * and what they do there has to be safe by itself.
 *
 *   - Who finds it free and nobody waiting enters. The others take a ticket and sleep.
 *   - Who leaves wakes the owner of the oldest ticket. Until that one is awake the same session may
 *     enter again, for SQ_TICKET_RUN_NS: a waiter that gets no processor holds nobody up, and the
 *     order is right again when it does.
 *   - A holder is passed after SQ_TICKET_HOLDER_NS.
 *   - A waiter that could enter and does not is skipped after SQ_TICKET_WAITER_NS, by the one
 * behind it; if that one is dead too, later, by others, and then two at once, four, eight. One that
 *     gave up is skipped at once. One that was skipped and lives is late: it enters as soon as the
 *     lock is free.
 */
#ifndef SQLITE_TICKET_LOCK_H
#define SQLITE_TICKET_LOCK_H

#include <stdatomic.h>
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

#define SQ_TICKETS_GONE 256u

/* In shared memory. Zeroes are a free one. So is any other content, if not a fair one: use puts it
 * right. */
struct sqlite_ticket_lock {
    _Atomic uint32_t state; /* odd: somebody is in. Rises with each entry and exit; slept on */
    _Atomic uint32_t next;  /* the ticket to be given out next */
    _Atomic uint32_t turn;  /* the oldest ticket that is waited with; `next`: none is */
    _Atomic uint32_t awake; /* equal to `turn`: who has it stands at the door, awake */
    _Atomic uint32_t skips; /* of tickets that nobody came with, since somebody came */
    _Atomic uint32_t
        gone[SQ_TICKETS_GONE]; /* the last ticket of each remainder that was given up */
};

/* What a session remembers; zeroes at first. For one call at a time. */
struct sqlite_ticket_pass {
    uint32_t entered; /* the state while it is in */
    uint32_t left;    /* the state when it had left; still that: nobody entered since */
    int64_t since_ns; /* when it entered in its turn */
    uint32_t seen;    /* the state when it gave up, */
    int64_t seen_ns;  /* and since when: who is never patient for long passes the dead, too */
    /* Asked after each sleep. Zero: the lock is not to be touched any more. NULL: it always is. */
    int (*there)(const void *of);
    const void *of;
};

/* 0: entered. ETIMEDOUT: not until until_ns of sqlite_clock_boottime. ENODATA: not there any more.
 */
int sqlite_ticket_enter(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                        int64_t until_ns);
void sqlite_ticket_leave(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass);

#endif
