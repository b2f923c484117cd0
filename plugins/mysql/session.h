/* SPDX-License-Identifier: MIT */
/* session.h - the state of a plugin session, and of an attempt. */
#ifndef MY_SESSION_H
#define MY_SESSION_H

#include "shared.h"

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
