/* SPDX-License-Identifier: MIT */
/* queue.h - queue sessions: connections that wait in GET_LOCK. queue.c says why. */
#ifndef MY_QUEUE_H
#define MY_QUEUE_H

#include "my.h"

struct my_queue {
    struct my_queue *next; /* at rest */
    struct my_side *side;  /* a user of it, unless at rest: sessions come and go meanwhile */
    struct my_conn conn;
    struct my_call call; /* GET_LOCK, which may last */
    char *text;
    int asked, head, passed;
    int kept;        /* by the holder of the name */
    int64_t head_ns; /* since when it is the head */
    int64_t rest_ns; /* at rest: since when */
};

/* A connection for waiting in GET_LOCK: one that rests, or, with may_connect, a new one. NULL:
 * there is none. */
struct my_queue *my_queue_take(struct my_side *side, int may_connect, int64_t deadline_ns,
                               struct dlock_error *err);
/* BUSY: this waiter is the head since just now. OK: it is the head. TIMEOUT, CANCELED: it keeps its
 * place. Others: it has none. */
enum dlock_status my_queue_await(struct my_queue *queue, struct my_session *session,
                                 const struct dlock_request *req, struct dlock_error *err);
/* The head's sign of life, when it is due. OK, or it is not the head any more. */
enum dlock_status my_queue_ping(struct my_queue *queue, int64_t deadline_ns,
                                struct dlock_error *err);
/* The head got the name. Non-zero: it keeps the others waiting until it gives it back. */
int my_queue_keep(struct my_queue *queue);
/* Lets the next one through, if it is the head, and does not wait for the answer; */
void my_queue_pass(struct my_queue *queue);
/* which has to be read after that. The connection is not the caller's any more. */
void my_queue_rest(struct my_queue *queue, int64_t deadline_ns);
/* Ends it without a word, wherever it is. */
void my_queue_drop(struct my_queue *queue);

#endif
