/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the queue of a name: the contenders below its node, in the order of their sequence.
 * Pure.
 *
 * A writer waits for the contender just before its own node, a reader for the last writer before
 * it. Without such a node, it holds the name. A node that holds the name does so until it is
 * deleted: every later node has a greater sequence, as long as the parent is there, and a parent
 * with children cannot be deleted.
 *
 * A node of a semaphore needs fewer contenders before it than the limit, all of this limit. Then it
 * takes a permit (slot.h).
 */
#ifndef ZK_QUEUE_H
#define ZK_QUEUE_H

#include "node.h"

#include <zookeeper/zookeeper.h>

struct zk_position {
    const char *own;         /* name of the node, in the list; NULL: it is not there */
    const char *predecessor; /* to wait for, in the list; NULL: none */
    uint32_t before;         /* contenders before the own node */
    uint32_t contenders;     /* all of them */
    uint32_t shared_first;   /* readers that come before the first writer: all hold the name */
    uint32_t limit;          /* of the own node; 1: a lock, or there is none */
    uint32_t other_limit; /* of the first contender, if the own node comes behind it and has another
                             limit; else 0 */
    uint32_t permit;      /* of a semaphore, if the node holds one: zk_slot_permit_take */
    bool holds;           /* of a semaphore, before zk_slot_permit_take: it may have a permit */
    bool room;      /* of a semaphore, after zk_slot_permit_take: a permit is free for the node */
    bool exhausted; /* a sequence is negative or at least ZK_SEQUENCE_END: the order is not sure */
};

/* own: the name of the node; NULL: find it by the token. If there are several nodes of the token (a
 * request that was executed twice), the first one counts. */
void zk_queue_judge(struct zk_position *position, const struct String_vector *children,
                    const char *own, const char *token, bool shared);

/* Calls fn for each node that holds the name, in order. Returns the number of contenders behind
 * them. */
uint32_t zk_queue_holders(const struct String_vector *children,
                          void (*fn)(void *arg, const char *name, const struct zk_node *node),
                          void *arg);

/* The contenders before the own node, in order: names in the list. *names: malloced, also after a
 * failure. False: no memory. */
bool zk_queue_before(const struct String_vector *children, const char *own, const char ***names,
                     size_t *count);

struct zk_queue_waiter {
    const char *child; /* name of the node; points into the children */
    struct zk_node node;
    bool may_hold; /* of a semaphore: it waits as long as it has no permit */
};

/* The contenders that wait, or may wait, in order. *waiters: malloced, also after a failure. False:
 * no memory. */
bool zk_queue_waiters(const struct String_vector *children, struct zk_queue_waiter **waiters,
                      size_t *count);

#endif
