/* SPDX-License-Identifier: MIT */
/* lease.h - strategies row and insert: a lease is taken, renewed, given back, broken. */
#ifndef MY_LEASE_H
#define MY_LEASE_H

#include "connection.h"

enum dlock_status my_lease_try(struct my_connection *conn, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_lease_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                 struct dlock_error *err);
enum dlock_status my_lease_unlock(struct my_connection *conn, const struct dlock_request *req,
                                  struct dlock_error *err);
/* Of the name in conn->input; owner NULL: of all owners. */
enum dlock_status my_lease_break(struct my_connection *conn, const char *owner,
                                 struct dlock_error *err);

#endif
