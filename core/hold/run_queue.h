/* SPDX-License-Identifier: MIT */
/*
 * run_queue.h - the operations of dlock_op_start that are ready for a thread of the driver, in
 * order, and the operations that become ready at a later time.
 *
 * The client's mutex guards it. The threads are those of acquire/driver.h. A node is in one of four
 * states: idle, ready, running (a thread works on it), waiting.
 */
#ifndef DL_RUN_QUEUE_H
#define DL_RUN_QUEUE_H

#include "hold/schedule.h"

#include <pthread.h>

/* Two threads, so that an exchange that takes long does not stop everything else. */
#define DL_RUN_THREADS 2

/* Servers of a store beyond these share the room of others. */
#define DL_RUN_SERVERS 256

struct dl_run_node {
    struct dl_run_node *next; /* in a list of ready nodes */
    struct dl_due
        due; /* waiting: when it becomes ready by itself; else when it became ready last */
    bool ready, running;
    bool woken;      /* running, and ready again afterwards */
    bool urgent;     /* goes before the others: it ends a claim, or prolongs one */
    uint32_t number; /* by which a plugin names it (wait_any); 0: none */
};

struct dl_run_list {
    struct dl_run_node *first, *last;
};

struct dl_run_queue {
    struct dl_run_list urgent, others;
    struct dl_schedule waiting;
    pthread_t thread[DL_RUN_THREADS];
    pthread_cond_t work[DL_RUN_THREADS]; /* each is signalled for its thread */
    unsigned threads;                    /* that run */
    bool asleep[DL_RUN_THREADS];         /* the thread waits for a signal or for the next moment */
    /* Wakes the first thread where it sleeps instead of in work[0]; NULL: it does not. */
    void (*rouse)(void *arg);
    void *rouse_arg;
    struct dl_run_node **numbered; /* by number, from 1 on; NULL: the number is free */
    uint32_t *free_numbers;
    uint32_t numbers, numbers_free; /* that were given out once; of those, free now */
    uint32_t numbers_room;          /* of both arrays */
    unsigned watching;              /* waiting nodes of which the store tells when they are ready */
    int64_t asked_ns;               /* when the store was asked for them last */
    int64_t blind_ns;               /* it is not asked before: it could not tell */
    void *room[DL_RUN_THREADS];     /* of each thread, for acquire/batch.h */
    bool stop;
    int64_t busy_since_ns; /* when the first thread began with what it does now; 0: nothing */
    /* When the last exchange began that a server of the store did not answer for long: what was
     * ready before then need not find out by itself. */
    int64_t stalled_ns[DL_RUN_SERVERS];
};

/* NULL: no memory. */
struct dl_run_queue *dl_run_queue_new(void);
void dl_run_queue_free(struct dl_run_queue *queue);

/* Gives the node a number until unnumber. false: no memory. */
bool dl_run_queue_number_locked(struct dl_run_queue *queue, struct dl_run_node *node);
void dl_run_queue_unnumber_locked(struct dl_run_queue *queue, struct dl_run_node *node);

/* The node that has the number; NULL: none has. */
struct dl_run_node *dl_run_queue_numbered(const struct dl_run_queue *queue, uint32_t number);

/* Whether the calling thread is one of the driver. */
bool dl_run_queue_has_thread(const struct dl_run_queue *queue);

/* Wakes the first thread, if it sleeps. */
void dl_run_queue_rouse_locked(struct dl_run_queue *queue);

/* A waiting or idle node becomes ready, and a running one afterwards. */
void dl_run_queue_wake_locked(struct dl_run_queue *queue, struct dl_run_node *node, int64_t now_ns);

/* The first node that is ready now, or NULL. It is running then. */
struct dl_run_node *dl_run_queue_take_locked(struct dl_run_queue *queue, int64_t now_ns);

/* The first ready node of the same urgency as `like`; NULL: there is none. It is not taken. */
struct dl_run_node *dl_run_queue_next(const struct dl_run_queue *queue,
                                      const struct dl_run_node *like);

/* Takes the node that dl_run_queue_next returned. */
void dl_run_queue_take_next_locked(struct dl_run_queue *queue, const struct dl_run_node *next);

/* A running node is the first ready one again, and ready since it was before. */
void dl_run_queue_put_back_locked(struct dl_run_queue *queue, struct dl_run_node *node);

/* Whether take would return a node. */
bool dl_run_queue_has_work(const struct dl_run_queue *queue, int64_t now_ns);

/* A running node waits until until_ns or until it is woken. The first thread learns of it, if it
 * sleeps: until then it slept for other nodes. */
void dl_run_queue_wait_locked(struct dl_run_queue *queue, struct dl_run_node *node,
                              int64_t until_ns, int64_t now_ns);

/* A running node becomes idle. */
void dl_run_queue_end_locked(struct dl_run_queue *queue, struct dl_run_node *node);

#endif
