/* SPDX-License-Identifier: MIT */
/* row_queue.h - entries in the server's queue of GET_LOCK. row_queue.c says why. */
#ifndef MY_ROW_QUEUE_H
#define MY_ROW_QUEUE_H

#include "shared.h"

struct my_queue {
    struct my_shared *shared; /* referenced: sessions come and go during an attempt */
    struct my_connection *conn;
    struct my_call call; /* GET_LOCK, which may last, or the release */
    char *text;
    bool head, passed;
    bool kept;       /* by the holder of the name */
    int64_t head_ns; /* since when it is the head */
};

/* There is an entry, and the server has not let it through yet. */
static inline bool my_queue_is_behind(const struct my_queue *queue)
{
    return queue != NULL && !queue->head;
}

static inline bool my_queue_is_head(const struct my_queue *queue)
{
    return queue != NULL && queue->head;
}

/* The head got the name. true: the others wait until it gives it back. */
bool my_queue_keep(struct my_queue *queue);

/* If it is the head: lets the next one through, and does not wait for the answer; */
void my_queue_pass(struct my_queue *queue);
/* which this reads. Frees the queue. */
void my_queue_end(struct my_queue *queue, int64_t deadline_ns);
/* Frees it in any state, and closes the connection. */
void my_queue_drop(struct my_queue *queue);

/* "SELECT GET_LOCK(...)" for a name, which its waiters run; for free(). NULL: no memory. */
char *my_queue_text(const struct my_config *config, const void *name, uint32_t name_len);

/* Ends the queue of this attempt, if it has one, and lets the next one through. */
void my_queue_dequeue(const struct dlock_request *req);

#endif
