/* SPDX-License-Identifier: MIT */
/*
 * waiters.h - the threads of a client that wait for messages of a store.
 *
 * No thread of its own reads the messages: one of the threads that wait is the leader, which reads
 * for all of them and hands the lead over when its own wait ends. What a leader reads from belongs
 * to it alone while it leads.
 *
 * An attempt with a number has no thread. One thread, `any`, waits for all such attempts in slot
 * wait_any. That thread takes the numbers of the attempts that were woken.
 *
 * The mutex is a leaf, and nobody holds it during I/O.
 */
#ifndef NET_WAITERS_H
#define NET_WAITERS_H

#include <dlock/plugin.h>
#include <pthread.h>
#include <stdbool.h>

struct waiters;

/* One attempt that may wait. Zeroed before waiters_add_locked; guarded by the mutex of the list. */
struct waiter {
    struct waiters *list;      /* that has it; NULL: none, or the list is closed */
    struct waiter *next, **at; /* at: what points to it */
    unsigned char token[DLOCK_TOKEN_SIZE];
    bool interrupted; /* sticky [INT-2] */
    bool watching;    /* in slot watch */
    bool leading;
    pthread_cond_t wake; /* exists while the waiter is listed */
    uint32_t number;     /* of wait_any; 0: a thread of its own watches */
    bool is_news;        /* woken since its number was taken */
    struct waiter *next_news;
};

struct waiters {
    int wake_fd;           /* eventfd: the leader has something else to do */
    pthread_mutex_t mutex; /* guards the rest */
    struct waiter *first;
    bool led;
    struct waiter any; /* the thread in wait_any: not listed */
    struct waiter *news;
};

/* A zeroed list. False: errno; waiters_fini is harmless then. */
bool waiters_init(struct waiters *waiters);
/* No thread watches any more. Waiters may be left. */
void waiters_fini(struct waiters *waiters);
/* In a forked child, instead of fini: closes the descriptor, takes no mutex. */
void waiters_after_fork(struct waiters *waiters);

void waiters_add_locked(struct waiters *waiters, struct waiter *waiter, const unsigned char *token);
/* The waiter is listed. */
void waiters_remove_locked(struct waiter *waiter);
struct waiter *waiters_find_locked(const struct waiters *waiters, const unsigned char *token);

/* Ends a sleep, of the leader only with `leader`, which needs that for an interrupt, and for what
 * another thread found out: it has read the messages itself. */
void waiters_wake_locked(struct waiter *waiter, bool leader);

/* The waiter is watching, and has left_ns. True: the caller is the leader now; it gives the mutex
 * up, reads, takes the mutex and calls waiters_led_locked. False: it has slept for left_ns, or
 * until something may have changed. */
bool waiters_lead_or_sleep_locked(struct waiter *waiter, int64_t left_ns);
void waiters_led_locked(struct waiter *waiter);

/* The same for a caller that does not wait and would read at once: false, if there is a leader. */
bool waiters_lead_locked(struct waiters *waiters);

/* Takes an attempt that was woken, if there is one. */
struct waiter *waiters_news_next_locked(struct waiters *waiters);
/* Takes numbers of attempts that were woken. Returns how many. */
size_t waiters_news_take_locked(struct waiters *waiters, uint32_t *numbers, size_t room);
/* What woke the waiter before is void: its next request is about to leave [ANY-2]. */
void waiters_news_clear_locked(struct waiter *waiter);
/* Ends the wait_any that runs, or else the next one [INT-4]. */
void waiters_interrupt_any(struct waiters *waiters);
void waiters_interrupt_any_locked(struct waiters *waiters);

/* The end of a watch, or of a lead without a wait: another waiter leads. */
void waiters_hand_over_locked(struct waiters *waiters);

/* Until fd can be read, the leader is woken, left_ns have passed, or a second. fd -1: none. */
bool waiters_await(const struct waiters *waiters, int fd, int64_t left_ns);

#endif
