/* SPDX-License-Identifier: MIT */
/*
 * deliver.h - what becomes of an answer: it is the vote of a round, or it comes after its round.
 *
 * What a node granted after its round is given back, unless the attempt lives. A release that a
 * node did not execute becomes pending.
 */
#ifndef REDLOCK_DELIVER_H
#define REDLOCK_DELIVER_H

#include "node.h"

/* The redlock_deliver_fn of all sessions, which are the owners of their nodes. */
void redlock_deliver(struct redlock_node *node, const struct redlock_sent_request *sent,
                     const redisReply *reply);

#endif
