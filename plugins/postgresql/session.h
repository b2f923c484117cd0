/* SPDX-License-Identifier: MIT */
/* session.h - the state of a plugin session, and of an attempt. */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include "connection.h"

struct pg_session {
    struct pg_config config;
    struct pg_connection conn;
    struct pg_shared *shared;
    int wake_fd; /* eventfd + 1, so that a zeroed session has none */
};

/* dlock_request.attempt: zeroed by core at the start of the attempt. */
struct pg_slot {
    atomic_int stop;          /* interrupted */
    struct pg_waiter *waiter; /* strategy row: it waits, or has waited, in the queue; NULL: no */
};

#endif
