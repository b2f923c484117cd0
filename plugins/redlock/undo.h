/* SPDX-License-Identifier: MIT */
/* undo.h - taking back what nodes granted, or may grant, of locks that were not won. */
#ifndef REDLOCK_UNDO_H
#define REDLOCK_UNDO_H

#include "take.h"

/* Undoes the request of a take on each node that may have granted the lock. */
void redlock_undo_send(struct redlock_take *taking);

/* Waits, after the verdict UNSURE, until the nodes have confirmed the undoing of each take, by the
 * deadline of its request. n: at most REDLOCK_BATCH_MOST, of one session. */
void redlock_undo_await(struct redlock_take *const *takes, size_t n);

/* True: so many nodes have confirmed it that no majority can have the lock. */
bool redlock_undo_is_settled(const struct redlock_take *taking);

#endif
