/* SPDX-License-Identifier: MIT */
/* row_lease.h - strategies row and insert: a lease is taken, renewed, given back, broken. */
#ifndef MY_ROW_LEASE_H
#define MY_ROW_LEASE_H

#include "session.h"

enum dlock_status my_lease_try(struct my_connection *conn, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_lease_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                 struct dlock_error *err);
enum dlock_status my_lease_unlock(struct my_connection *conn, const struct dlock_request *req,
                                  struct dlock_error *err);
/* What a trylock leaves in its slot. */
void my_lease_tried(struct my_slot *slot, enum dlock_status status);
/* BUSY: holder_ms from what the exclusive holder and the readers have left. */
int64_t my_lease_left_ms(int64_t exclusive_us, int64_t readers_us);
/* Of the name in conn->input; owner NULL: of all owners. */
enum dlock_status my_lease_break(struct my_connection *conn, const char *owner,
                                 struct dlock_error *err);

#endif
