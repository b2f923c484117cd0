/* SPDX-License-Identifier: MIT */
/*
 * guard.h - strategies row and insert: a change of readers or permits, which begins with a lock on
 * the row of the name. A contender that comes during the change waits for the row, and then finds
 * what was committed.
 */
#ifndef MY_GUARD_H
#define MY_GUARD_H

#include "connection.h"

/* What MY_GUARD reads of the row, in conn->row.number. */
enum my_guard_number {
    MY_GUARD_FENCE,
    MY_GUARD_IS_OURS,    /* the last exclusive owner has the token of conn->input */
    MY_GUARD_LEFT_US,    /* of the exclusive lease, or of the permits; <= 0: it has ended */
    MY_GUARD_READERS_US, /* of the readers */
    MY_GUARD_MAY_TAKE,   /* 0: the name is reserved for another waiter */
    MY_GUARD_HAS_PERMITS /* the name has live permits, or is kept: there is no exclusive holder */
};

/* MY_GUARD or MY_GUARD_NOW. OK: inside a transaction; *found: with the row of the name locked and
 * in conn->row. */
enum dlock_status my_guard_begin(struct my_connection *conn, enum my_statement which, bool *found,
                                 struct dlock_error *err);
/* The same for a name that may be new: OK means found. */
enum dlock_status my_guard_begin_any(struct my_connection *conn, struct dlock_error *err);

/* Ends the change: with `update`, which stores in the row what contenders read there, and a commit
 * if status is OK, else with a rollback. */
enum dlock_status my_guard_end(struct my_connection *conn, enum dlock_status status,
                               enum my_statement update, struct dlock_error *err);

#endif
