/* SPDX-License-Identifier: MIT */
/*
 * waiter.h - a thread that sleeps in watch. Each has a condition variable of its own, so that a
 * grant or an interrupt wakes that thread alone. An attempt that core waits for by wait_any has no
 * thread: it stays in the list, and what happens to it is noted in the `news` of its client. All
 * functions but fini need the store's mutex.
 */
#ifndef MEMORY_WAITER_H
#define MEMORY_WAITER_H

#include <dlock/plugin.h>
#include <pthread.h>
#include <stdbool.h>

/* What happened to the attempts of a client that have no thread. */
struct memory_news {
    pthread_cond_t wake; /* of the thread in wait_any */
    struct memory_waiter *first;
    bool interrupted;
};

/* dlock_request.attempt: zeroed by core at the start of the attempt. */
struct memory_waiter {
    pthread_cond_t wake; /* exists from the first watch to the end of the attempt */
    bool has_wake;
    bool enqueued;            /* asked for a queue entry: watch may bring the grant [WAT-1] */
    bool interrupted;         /* sticky [INT-2] */
    uint64_t interrupt_fence; /* a grant up to this number came before the interrupt */
    bool sleeping;            /* a thread is in watch, and the waiter in a list */
    bool listed;              /* is in a list without a thread */
    uint32_t number;          /* of wait_any */
    struct memory_news *news;
    bool is_news;
    struct memory_waiter *next_news;
    unsigned char token[DLOCK_TOKEN_SIZE];
    struct memory_waiter *next;
};

/* Adds the waiter of an attempt without a thread to the list. May be repeated. */
void memory_waiter_list(struct memory_waiter *waiter, struct memory_waiter **list,
                        const struct dlock_request *req, struct memory_news *news);
void memory_waiter_unlist(struct memory_waiter *waiter, struct memory_waiter **list);

/* Takes the waiter out of the news. */
void memory_waiter_news_clear(struct memory_waiter *waiter);

/* Takes up to `room` numbers out of the news. */
size_t memory_waiter_news_take(struct memory_news *news, uint32_t *numbers, size_t room);

/* Sleeps in the list until a wake-up, for ns, or for a second: the caller reads its clocks and
 * sleeps again. Gives the mutex up while it sleeps. False: the system has no resources for it. */
bool memory_waiter_sleep(struct memory_waiter *waiter, struct memory_waiter **list,
                         const unsigned char *token, pthread_mutex_t *mutex, int64_t ns);

/* Wakes the waiter with this token, if there is one. */
void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token);

/* Wakes the waiters that never asked for a queue entry: each has to try by itself. */
void memory_waiter_wake_unqueued(struct memory_waiter *list);

/* last_fence: of the grants that came before. */
void memory_waiter_interrupt(struct memory_waiter *waiter, uint64_t last_fence);

/* The attempt is over. May be repeated. */
void memory_waiter_fini(struct memory_waiter *waiter);

#endif
