/* SPDX-License-Identifier: MIT */
/*
 * link.h - a handle of libzookeeper_st, the thread that serves it, and the requests of all threads
 * of the client.
 *
 * The single-threaded library does nothing by itself: the thread of the link polls its socket,
 * keeps the session alive, and reads the answers. A thread that asks sends its request itself, with
 * the mutex held, and sleeps until the link's thread has the answers. (Why not libzookeeper_mt:
 * ADR 0028.)
 *
 * The library connects again by itself, to whichever server answers, in the same session. When the
 * servers say that the session has ended, the link makes a new handle, and with it a new session:
 * nothing of the old one is there any more. The thread of the link asks for sync every half tick,
 * so that `liveness` is never older than two ticks while the servers answer.
 *
 * exchange.h has the requests and the changes of nodes.
 *
 * The mutex is never held in poll, nor while a slot of core is called. Every callback of a call
 * runs with it held, in the thread of the link or of a caller.
 */
#ifndef ZK_LINK_H
#define ZK_LINK_H

#include "config.h"
#include "servers.h"

#include <pthread.h>
#include <zookeeper/zookeeper.h>

#define ZK_MARGIN_TICKS 3 /* that a session lasts longer than the leases in it */

struct zk_link;

/* What the client knows of its session, at one moment. */
struct zk_session_state {
    int64_t session_id; /* 0: there is none */
    bool connected;
    int64_t timeout_ms; /* as negotiated */
    int64_t until_ns;   /* the servers do not end the session before; 0: not known */
    char server[64];    /* address of the present server; "" */
};

/*
 * Starts a link whose session is asked to last ttl + ZK_MARGIN_TICKS ticks, and waits until it is
 * connected. Names are looked up by then (servers). Statuses of zk_servers_ask; AUTH.
 * *out is set whenever the link must be closed, also on failure.
 */
enum dlock_status zk_link_open(struct zk_link **out, const struct zk_config *config,
                               const struct zk_servers *servers, int64_t tick_ms,
                               const struct dlock_host *host, int64_t deadline_ns,
                               struct dlock_error *err);
/* Ends the session, without waiting for the servers, and the thread. No thread uses the link any
 * more. NULL is fine. */
void zk_link_close(struct zk_link *link);
/* In a forked child, instead: closes descriptors, takes no mutex, frees nothing. */
void zk_link_after_fork(struct zk_link *link);

/* Ends the present session now, with all its nodes, as if the servers had: the link makes a new
 * one, which may still find the nodes for a moment. With the mutex held. */
void zk_link_end(struct zk_link *link);

void zk_link_state(struct zk_link *link, struct zk_session_state *state);
/* The same with the mutex held. */
void zk_link_state_locked(const struct zk_link *link, struct zk_session_state *state);
int64_t zk_link_now(const struct zk_link *link);

/* The mutex of the link, for what a client keeps beside it (slots, leftovers). */
void zk_link_lock(struct zk_link *link);
void zk_link_unlock(struct zk_link *link);

/* ---- leftovers ---- */

/* Called by the thread of the link every half tick while it is connected, and after each
 * connection, with the mutex held; waits for nothing. Set once after open. */
void zk_link_on_beat(struct zk_link *link, void (*fn)(struct zk_link *link, void *arg), void *arg);

#endif
