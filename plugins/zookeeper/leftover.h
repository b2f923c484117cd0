/* SPDX-License-Identifier: MIT */
/*
 * leftover.h - nodes that may be there although nobody needs them: a create or a delete had no
 * answer when the attempt ended.
 *
 * The session lives on, and with it such a node. So the client looks for the token among the
 * children of the name, every half tick while it is connected, and deletes what it finds. It gives
 * a token up when it was absent twice, with a session's timeout between the two: a request that was
 * on its way on an old connection has been executed, or never will be; and when the session of the
 * node has ended.
 */
#ifndef ZK_LEFTOVER_H
#define ZK_LEFTOVER_H

#include "link.h"
#include "node.h"

struct zk_leftover;

struct zk_leftovers {
    struct zk_link *link;
    struct zk_leftover *first; /* under the mutex of the link */
};

void zk_leftover_init(struct zk_leftovers *leftovers, struct zk_link *link);
/* The link has been closed. */
void zk_leftover_fini(struct zk_leftovers *leftovers);

/* A node of this token may be below parent, made in this session. Without memory for the note the
 * session is ended (zk_link_end): what must not stay does not. */
void zk_leftover_add(struct zk_leftovers *leftovers, const char *parent, const char *token,
                     int64_t session_id);
/* How many there are. */
size_t zk_leftover_count(struct zk_leftovers *leftovers);

#endif
