/* SPDX-License-Identifier: MIT */
/* shared.h - what all sessions of a client share. */
#ifndef MY_SHARED_H
#define MY_SHARED_H

#include "control.h"
#include "net/clients.h"

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

#endif
