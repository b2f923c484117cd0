/* SPDX-License-Identifier: MIT */
/* queue.h - copies of the waiters of a name, in their order, and their texts. */
#ifndef CLI_QUEUE_H
#define CLI_QUEUE_H

#include "output.h"

struct queue_waiter {
    enum dlock_mode mode;
    int64_t waited_ms; /* -1: unknown */
    char *owner;
    char *label;
};

struct queue {
    struct queue_waiter *items;
    size_t count, room;
    bool no_memory; /* the list is incomplete */
};

/* The dlock_waiter_fn that fills a struct queue (its arg). */
bool queue_add(void *arg, const struct dlock_waiter *waiter);
void queue_fini(struct queue *queue);

/* An array of owner, mode, label, position, waited_ms. Caller frees. NULL: no memory. */
json_t *queue_json(const struct queue *queue);

/* A line for each. */
void queue_print(const struct queue *queue);

#endif
