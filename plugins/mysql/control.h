/* SPDX-License-Identifier: MIT */
/*
 * control.h - the second connection of strategy session, one a client. A write of the session that
 * holds the row lock is undone when that session dies, and a fence must not be; and a session that
 * waits for a row cannot end its own wait.
 */
#ifndef MY_CONTROL_H
#define MY_CONTROL_H

#include "connection.h"

#include <pthread.h>

struct my_control {
    const struct my_config *config;
    const struct dlock_host *host;
    pthread_mutex_t mutex; /* of busy; never held across I/O */
    pthread_cond_t freed;
    bool busy;
    struct my_connection conn; /* of the caller that made it busy */
};

void my_control_init(struct my_control *control, const struct my_config *config,
                     const struct dlock_host *host, struct my_tables *tables);
void my_control_fini(struct my_control *control);

/* Lends the connection to one caller; my_control_end after OK. */
enum dlock_status my_control_begin(struct my_control *control, int64_t deadline_ns,
                                   struct my_connection **conn, struct dlock_error *err);
void my_control_end(struct my_control *control);

#endif
