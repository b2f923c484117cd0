/* SPDX-License-Identifier: MIT */
/* row_lease.h - what a lease of strategies row and insert (row.h) and many of them share. */
#ifndef MY_ROW_LEASE_H
#define MY_ROW_LEASE_H

#include "shared.h"

/* The slots trylock and unlock, by a connection; trylock after my_connection_enter. */
enum dlock_status my_row_lease_try(struct my_connection *conn, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_row_lease_unlock(struct my_connection *conn, const struct dlock_request *req,
                                      struct dlock_error *err);
/* What a trylock leaves in its slot. */
void my_row_lease_tried(struct my_slot *slot, enum dlock_status status);
/* BUSY: holder_ms from what the exclusive holder and the readers have left. */
int64_t my_row_lease_left_ms(int64_t exclusive_us, int64_t readers_us);

#endif
