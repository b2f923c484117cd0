/* SPDX-License-Identifier: MIT */
/*
 * rotation.h - a password is changed under a holder, in the file and at the server, and the
 * holder's connections are ended: a lease goes on (C14), and so do new locks. TAP.
 */
#ifndef DLT_ROTATION_H
#define DLT_ROTATION_H

#include "store_server.h"

#include <dlock/dlock.h>

struct dlt_rotation {
    const char *what;      /* before the name of each test: the strategy */
    const char *database;  /* path of the URI */
    const char *options;   /* of the URI */
    const char *from, *to; /* passwords of user "u" */
    bool session_lock;     /* the lock ends with the connection */
};

/* Those of a store with the strategies row and session. */
extern const struct dlt_rotation dlt_rotation_strategies[2];

/* Starts the server, and ends it: the program's exit status. */
int dlt_rotation_run(const struct dlt_store_server *server, const struct dlt_rotation *rotations,
                     size_t count);

/* ---- for other tests with locks; they abort if something of their own fails ---- */

/* A new file with the password takes the place of the old one. */
void dlt_password_write(const char *file, const char *password);

struct dlock_handle *dlt_lock_new(struct dlock_client *client, const char *name);

/* Renews as the renewing thread does: until the store answers, or 10 s are over. */
enum dlock_status dlt_renew_until_answered(struct dlock_handle *lock, struct dlock_error *err);

#endif
