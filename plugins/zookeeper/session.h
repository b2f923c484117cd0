/* SPDX-License-Identifier: MIT */
/*
 * session.h - `self` of the slots of plugin.h: the client's session with the servers.
 *
 * Every holder and every waiter of a name has a node of its own below the node of the name: an
 * ephemeral one, which ends with the session, and sequential, so that the sequences are the queue.
 * take.h makes it, unlock.h deletes it, renew.h asks whether it is there, watch.h waits for the end
 * of the one before it, leftover.h deletes what a lost answer may have left.
 */
#ifndef ZK_SESSION_H
#define ZK_SESSION_H

#include "exchange.h"
#include "leftover.h"
#include "node.h"

struct zk_session {
    const struct dlock_host *host;
    struct zk_config config;
    struct zk_servers servers;
    int64_t tick_ms;
    struct zk_link *link;
    struct zk_leftovers leftovers;
};

/* dlock_request.attempt: zeroed by core. slot.h has what is done with it. */
struct zk_slot {
    int64_t session_id;         /* in which the node was made; 0: no request was sent */
    char node[ZK_NODE_MAX + 1]; /* its name, without the parent; "": there is none, or it is not
                                   known */
    int64_t czxid;              /* of the node; 0: not known */
    char *predecessor;          /* name of the node to wait for; malloced; NULL: not known */
    int64_t queued_ns; /* when the last call began that was answered QUEUED; 0: there was none */
    unsigned doubts; /* creates without an answer: each may have made one more node of the token */
    bool holds;
    bool front;                 /* of a semaphore: waits for any of its holders */
    uint32_t permit;            /* of a semaphore, if it holds */
    struct zk_watcher *watcher; /* of the predecessor, or of all contenders; NULL: none */
    struct zk_wait *wait;       /* in slot watch; under the mutex of the link */
    bool interrupted;           /* sticky [INT-2]; under the mutex of the link */
};

/* One call of a slot of plugin.h. */
struct zk_attempt {
    struct zk_session *session;
    const struct dlock_request *req;
    struct zk_slot *slot;
    struct dlock_error *err;
    struct zk_path path; /* of the name */
    char token[ZK_TOKEN_HEX + 1];
    bool shared;
    bool claims;         /* slot trylock: a permit that is free is taken */
    int64_t start_ns;    /* of the call */
    int64_t deadline_ns; /* of the requests; that of req, if nobody changes it */
};

#endif
