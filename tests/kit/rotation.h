/* SPDX-License-Identifier: MIT */
/* rotation.h - a password is changed under a holder: what the tests of that share. They abort if
 * something of their own fails. */
#ifndef DLT_ROTATION_H
#define DLT_ROTATION_H

#include <dlock/dlock.h>

/* A new file with the password takes the place of the old one. */
void dlt_password_write(const char *file, const char *password);

struct dlock *dlt_lock_new(struct dlock_client *client, const char *name);

/* Renews as the renewing thread does: until the store answers, or 10 s are over. */
enum dlock_status dlt_renew_until_answered(struct dlock *lock, struct dlock_error *err);

#endif
