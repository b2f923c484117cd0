/* SPDX-License-Identifier: MIT */
/*
 * permit.h - which permit of a semaphore a node has.
 *
 * The value of a holder's node begins with "permit 2 of 3: ", and has version 1: it is written
 * once, over the label with which the node was made. A node takes its permit when fewer contenders
 * than the limit are before it, and all of them have theirs: so no two choose at one time, and none
 * can come before them any more. A server that lags behind shows a permit later, but no other one.
 */
#ifndef ZK_PERMIT_H
#define ZK_PERMIT_H

#include "attempt.h"

/*
 * Reads the permits before the node of the slot, which standing is of (zk_queue_judge), and takes
 * the lowest one that is free if the call claims.
 *
 * OK with *known: standing.holds says whether the node has a permit, and which; if it has none,
 * standing.predecessor is what to wait for, in children. OK without: the node is gone. Statuses of
 * zk_flight_run and zk_flight_fail.
 */
enum dlock_status zk_permit_take(struct zk_attempt *attempt, const struct String_vector *children,
                                 struct zk_standing *standing, bool *known);

/* Does this node of the name have a permit? *has: false also if the node is gone. Statuses of
 * zk_flight_run, for session_id, and of zk_flight_fail. */
enum dlock_status zk_permit_ask(struct zk_attempt *attempt, int64_t session_id, const char *node,
                                bool *has);

/* The permit in a value that ZK_GET has read; -1: none. *label: where the label begins. */
int64_t zk_permit_read(const struct zk_call *get, size_t *label);

#endif
