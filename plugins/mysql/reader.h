/* SPDX-License-Identifier: MIT */
/* reader.h - strategies row and insert: shared mode. */
#ifndef MY_READER_H
#define MY_READER_H

#include "connection.h"

enum dlock_status my_reader_try(struct my_connection *conn, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
/* conn->input is the request's. at_once: UNAVAILABLE (my_errmap_contention) if another transaction
 * has locked the row. */
enum dlock_status my_reader_renew(struct my_connection *conn, struct dlock_lease_op *op,
                                  bool at_once, struct dlock_error *err);
enum dlock_status my_reader_unlock(struct my_connection *conn, struct dlock_error *err);
/* The reader of the token in conn->input or, with a number there, all. *count: so many. */
enum dlock_status my_reader_break(struct my_connection *conn, uint64_t *count,
                                  struct dlock_error *err);

#endif
