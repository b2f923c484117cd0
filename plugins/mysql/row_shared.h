/* SPDX-License-Identifier: MIT */
/*
 * row_shared.h - strategies row and insert: semaphores and kept names.
 *
 * {permits} has a row for each permit that is held or kept; a kept lock is a kept permit of the
 * limit
 * 1. While a name has such rows, its row in {names} has no token and until_us of the last of them,
 * so that readers and exclusive contenders, also of programs that know no permits, find the name
 * taken.
 */
#ifndef MY_ROW_SHARED_H
#define MY_ROW_SHARED_H

#include "connection.h"

/* True: the lease of this request is a permit. */
static inline bool my_permit_is(const struct dlock_request *req)
{
    return dlock_request_limit(req) > 1;
}

enum dlock_status my_permit_try(struct my_connection *conn, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
/* conn->input is the request's, from here on. at_once: as my_reader_renew. */
enum dlock_status my_permit_renew(struct my_connection *conn, bool at_once,
                                  struct dlock_error *err);
enum dlock_status my_permit_unlock(struct my_connection *conn, struct dlock_error *err);
/* Ends a permit, or an exclusive lease, and keeps it for nobody. */
enum dlock_status my_permit_keep(struct my_connection *conn, const struct dlock_request *req,
                                 struct dlock_error *err);
/* The permit of the token in conn->input or, with a number there, all, also what is kept. *count:
 * so many. */
enum dlock_status my_permit_break(struct my_connection *conn, uint64_t *count,
                                  struct dlock_error *err);

/* Why a request for a lock does not get a name that has permits: CONFIG [LIM-1]; BUSY: it is kept,
 * or this user may not read {permits}. */
enum dlock_status my_permit_refuse(struct my_connection *conn, struct dlock_error *err);

#endif
