/* SPDX-License-Identifier: MIT */
/*
 * control.h - the other connections of strategy session, for all sessions of a client. A write of
 * the session that holds the row lock is undone when that session dies, and a fence must not be;
 * and a session that waits for a row cannot end its own wait. There are several, as one caller may
 * wait for the disk, or for a row that somebody sits on.
 */
#ifndef MY_CONTROL_H
#define MY_CONTROL_H

#include "connection.h"

#include <pthread.h>

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

void my_control_init(struct my_control *control, const struct my_config *config,
                     const struct dlock_host *host, struct my_tables *tables);
void my_control_fini(struct my_control *control);
void my_control_after_fork(struct my_control *control);

/* Lends a connection to one caller; my_control_end after OK. */
enum dlock_status my_control_begin(struct my_control *control, int64_t deadline_ns,
                                   struct my_connection **conn, struct dlock_error *err);
/* One that was opened until then; NULL: there is none. */
struct my_connection *my_control_begin_old(struct my_control *control, int64_t opened_ns,
                                           int64_t deadline_ns);
void my_control_end(struct my_control *control, struct my_connection *conn);

#endif
