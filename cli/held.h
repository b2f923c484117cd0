/* SPDX-License-Identifier: MIT */
/* held.h - what a command holds: the lock of one name, or a set of names. */
#ifndef CLI_HELD_H
#define CLI_HELD_H

#include <dlock/dlock.h>

/* At most one of them; neither: nothing was made so far. */
struct held {
    struct dlock_handle *lock;
    struct dlock_set *set;
};

/* As the functions of dlock.h of these names. */
enum dlock_status held_acquire(const struct held *held, enum dlock_mode mode, int64_t timeout_ms,
                               struct dlock_error *err);
enum dlock_status held_unlock(const struct held *held, struct dlock_error *err);
enum dlock_state held_state(const struct held *held);
int64_t held_remaining_ms(const struct held *held);
void held_cancel(const struct held *held);

/* The handle of the index'th name; NULL: there are not as many. */
const struct dlock_handle *held_member(const struct held *held, size_t index);

/* True: the lock is one of them. */
bool held_has(const struct held *held, const struct dlock_handle *lock);

/* Frees what was made. */
void held_free(struct held *held);

#endif
