/* SPDX-License-Identifier: MIT */
/* entry.h - the queue entries of an attempt: one on each node, with the same ticket. */
#ifndef REDLOCK_ENTRY_H
#define REDLOCK_ENTRY_H

#include "attempt.h"
#include "round.h"

/* A round for them, and what it borrows. Has 14 KB, most of which is never used. */
struct redlock_entry {
    const struct dlock_request *req;
    struct redlock_request request;
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], ticket[RESP_DIGITS], lasts[RESP_DIGITS];
    struct redlock_round round;
};

/* entry->round, when it is run, enqueues the attempt on all nodes for lasts_ms, or refreshes its
 * entries. */
void redlock_entry_begin(struct redlock_entry *entry, struct redlock_session *session,
                         const struct dlock_request *req, int64_t lasts_ms);
/* Bits of the nodes that are free for it; after the round. */
unsigned redlock_entry_free_nodes(const struct redlock_entry *entry);

/* Does all that for one attempt. */
unsigned redlock_entry_take(struct redlock_session *session, const struct dlock_request *req,
                            int64_t lasts_ms);

/* When to ask again while some nodes are free, but too few: the holder on another node may go
 * without a message. */
int64_t redlock_entry_recheck_ns(const struct redlock_session *session,
                                 const struct redlock_attempt *attempt);

#endif
