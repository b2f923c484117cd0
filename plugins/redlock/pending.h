/* SPDX-License-Identifier: MIT */
/*
 * pending.h - the releases that nodes have yet to be told.
 *
 * One list a node, for all sessions of a client: a release gets into the list when it cannot be
 * sent, when its connection ends without an answer, or when the node refuses it. Any session that
 * has a connection to the node takes it out and sends it. The lists survive the session.
 *
 * Thread-safe. The mutex is a leaf.
 */
#ifndef REDLOCK_PENDING_H
#define REDLOCK_PENDING_H

#include "node.h"

#include <pthread.h>
#include <stdatomic.h>

struct redlock_pending_release;

struct redlock_pending_list {
    struct redlock_pending_release *first; /* the oldest */
    unsigned count;
    _Atomic int64_t due_ns; /* none is due before */
};

struct redlock_pending {
    pthread_mutex_t mutex;
    struct redlock_pending_list nodes[DLOCK_NODE_ERRORS_MAX];
};

void redlock_pending_init(struct redlock_pending *pending);
void redlock_pending_fini(struct redlock_pending *pending);

/*
 * The node is to be told of this release at due_ns or later. Of the same release for two rounds the
 * later round is kept. If there is no memory, or the list is full, one release is forgotten (the
 * oldest of a full list): the lease that it is about ends by itself.
 */
void redlock_pending_add(struct redlock_pending *pending, unsigned node,
                         const struct redlock_ask *release, int64_t due_ns);

/* Takes out a release that is due. False: none is. */
bool redlock_pending_take(struct redlock_pending *pending, unsigned node, int64_t now_ns,
                          struct redlock_ask *release);

#endif
