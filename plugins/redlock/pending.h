/* SPDX-License-Identifier: MIT */
/*
 * pending.h - releases that have yet to reach their nodes.
 *
 * There is one list a node, for all sessions of a client. A release gets into the list when it
 * cannot be sent, when its connection ends without an answer, and when the node refuses it. Any
 * session that has a connection to the node takes the release out and sends it, so that a list
 * outlives the session that filled it.
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
    _Atomic int64_t due_ns; /* no release of the list is due before */
};

struct redlock_pending {
    pthread_mutex_t mutex;
    struct redlock_pending_list nodes[REDLOCK_NODES_MAX];
};

void redlock_pending_init(struct redlock_pending *pending);
void redlock_pending_fini(struct redlock_pending *pending);

/*
 * Adds a release, which is due at due_ns. If the list has the same release for
 * an earlier round, the later round replaces it. A full list forgets its oldest release, and
 * without memory the new one is forgotten: the lease then ends by itself.
 */
void redlock_pending_add(struct redlock_pending *pending, unsigned node,
                         const struct redlock_sent_request *release, int64_t due_ns);

/* Takes out a release that is due. False: none is. */
bool redlock_pending_take(struct redlock_pending *pending, unsigned node, int64_t now_ns,
                          struct redlock_sent_request *release);

#endif
