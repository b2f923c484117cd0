/* SPDX-License-Identifier: MIT */
/* shared.h - the state of a session and of an attempt, and what all sessions of a client share. */
#ifndef MY_SHARED_H
#define MY_SHARED_H

#include "connection.h"
#include "net/clients.h"

#include <pthread.h>

/*
 * The other connections of strategy session, for all sessions of a client. A write of the session
 * that holds the row lock is undone when that session dies, and a fence must not be; and a session
 * that waits for a row cannot end its own wait. There are several, as one caller may wait for the
 * disk, or for a row that somebody sits on.
 */
#define MY_CONTROLS 4

struct my_control {
    const struct my_config *config;
    const struct dlock_host *host;
    pthread_mutex_t mutex; /* of busy; never held across I/O */
    pthread_cond_t freed;
    struct my_control_one {
        struct my_connection conn; /* of the caller that made it busy */
        bool busy;
    } all[MY_CONTROLS]; /* the first ones are used first */
};

struct my_shared {
    struct client client; /* first */
    struct my_config config;
    struct my_tables tables;
    struct my_control control;
    /* Under the mutex of clients.h. */
    struct my_connection *idle; /* of queues that ended; the latest is the first */
    int kept;                   /* queues that holders keep */
};

/* In slot init. False: no memory. */
bool my_shared_init(void);

/* The one of the client that `host` stands for, referenced; NULL: no memory. */
struct my_shared *my_shared_find(const struct my_config *config, const struct dlock_host *host);
void my_shared_ref(struct my_shared *shared);
void my_shared_unref(struct my_shared *shared);

/* An idle connection for a queue, or NULL; and back. */
struct my_connection *my_shared_idle_take(struct my_shared *shared);
void my_shared_idle_put(struct my_shared *shared, struct my_connection *conn);

/* true: a holder may keep its queue, until my_shared_keep_end. */
bool my_shared_keep(struct my_shared *shared);
void my_shared_keep_end(struct my_shared *shared);

/* Lends a connection to one caller; my_control_end after OK. */
enum dlock_status my_control_begin(struct my_control *control, int64_t deadline_ns,
                                   struct my_connection **conn, struct dlock_error *err);
/* One that was opened until then; NULL: there is none. */
struct my_connection *my_control_begin_old(struct my_control *control, int64_t opened_ns,
                                           int64_t deadline_ns);
void my_control_end(struct my_control *control, struct my_connection *conn);

/* ---- a session, and an attempt ---- */

struct my_session {
    struct my_config config;
    struct my_connection conn;
    struct my_shared *shared;
    int wake_fd; /* eventfd + 1, so that a zeroed session has none */
    bool holds;  /* strategy session: the lock of this token is this session */
    unsigned char token[DLOCK_TOKEN_SIZE];
};

/* dlock_request.attempt: zeroed by core at the start of the attempt. */
struct my_slot {
    bool tried;             /* and found to be held: poll before writing */
    bool asked;             /* for the name; false: the lease was adopted, or is given back again */
    bool doubtful;          /* a request had no answer, and may still take the name */
    atomic_int stop;        /* interrupted */
    struct my_queue *queue; /* row, insert: the entry in the queue; NULL: none */
};

#endif
