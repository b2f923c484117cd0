/* SPDX-License-Identifier: MIT */
/* renew.h - strategies row and insert: many leases are renewed together. */
#ifndef MY_RENEW_H
#define MY_RENEW_H

#include "connection.h"

/* Each element gets a status of its own. */
void my_renew(struct my_connection *conn, struct dlock_lease_op *const *ops, size_t n,
              struct dlock_error *err);

#endif
