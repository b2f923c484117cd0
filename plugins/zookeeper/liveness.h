/* SPDX-License-Identifier: MIT */
/*
 * liveness.h - since when the leader of the servers has certainly heard of the session. Pure.
 *
 * The leader alone ends sessions: a timeout after it last heard of one. It hears of a session when
 * that is made (which is a change) or moved to another server. Later a follower tells it which
 * sessions were active, in its answers to the leader's pings, which come twice a tick. So a request
 * that was answered does not prove that the leader has heard of the session now: if the follower is
 * cut off at once, the session ends a timeout after what the leader heard before.
 *
 * The proof: a request A was answered; a tick or more later a request B was sent that goes to
 * the leader (create, delete, sync), and B was answered, too. The follower has answered a ping
 * between the two, on the same connection to the leader and before it passed B on. So the leader
 * knew of A when it answered B, and does not end the session before a timeout after A was sent.
 * (The assumption: the leader's pings are late by less than half a tick.)
 *
 * A server that takes over a session asks the leader first. That may be one which was stopped,
 * while the others have a new leader, and which does not know that yet. It lives a tick at most
 * then, and cannot change anything. So the connection counts like a request; an answered change
 * that was sent on it is of a majority, and proves it at once.
 *
 * If the client is connected to the leader, or the server is alone, more is true; the client cannot
 * know that it is.
 */
#ifndef ZK_LIVENESS_H
#define ZK_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#define ZK_LIVENESS_MOST 16

struct zk_liveness {
    int64_t tick_ns;
    int64_t proven_ns; /* the leader has heard of the session at this moment or later; 0: never */
    int64_t moved_ns;  /* when the present connection was begun; 0: it is proven */
    struct zk_liveness_request {
        int64_t sent_ns, answered_ns;
    } requests[ZK_LIVENESS_MOST]; /* a ring: requests that are not proven yet, at least tick/4 apart
                                   */
    unsigned first, count;
};

void zk_liveness_init(struct zk_liveness *liveness, int64_t tick_ns);
/* The server that gave an answer, as far as the answer tells. */
enum zk_liveness_of {
    ZK_LIVENESS_SERVER,  /* any server */
    ZK_LIVENESS_LEADER,  /* the leader, or one that was it */
    ZK_LIVENESS_MAJORITY /* the leader, after a majority of the servers */
};

/* A connection, begun and answered then, made the session, or moved it to another server. */
void zk_liveness_session(struct zk_liveness *liveness, int64_t begun_ns, int64_t answered_ns);
/* A request was answered. */
void zk_liveness_answer(struct zk_liveness *liveness, int64_t sent_ns, int64_t answered_ns,
                        enum zk_liveness_of of);

#endif
