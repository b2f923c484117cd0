/* SPDX-License-Identifier: MIT */
/* session.h - the state of a plugin session, and of an attempt. */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include "connection.h"

/* Strategy session: the lock that the connection holds. */
struct pg_session_held {
    bool holds;
    unsigned char token[DLOCK_TOKEN_SIZE];
    enum dlock_mode mode;
    int64_t number; /* of the name, also while it is waited for */
    int64_t pid;    /* of the server's process that has the session */
    int64_t lease_ms;
    uint64_t fence;
};

struct pg_session {
    struct pg_config config;
    struct pg_connection conn;
    struct pg_shared *shared;
    int wake_fd; /* eventfd + 1, so that a zeroed session has none */
    struct pg_session_held lock;
};

/* dlock_request.attempt: zeroed by core at the start of the attempt. */
struct pg_slot {
    atomic_int stop;          /* interrupted */
    struct pg_waiter *waiter; /* strategy row: it waits, or has waited, in the queue; NULL: no */
};

#endif
