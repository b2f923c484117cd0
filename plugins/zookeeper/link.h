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
 * so that `heard` is never older than two ticks while the servers answer.
 *
 * The mutex is never held in poll, nor while a slot of core is called. Every callback of a call
 * runs with it held, in the thread of the link or of a caller.
 */
#ifndef ZK_LINK_H
#define ZK_LINK_H

#include "config.h"
#include "greet.h"
#include "heard.h"

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
 * connected. Names are looked up by then (greeting). Statuses of zk_greet; AUTH.
 * *out is set whenever the link must be closed, also on failure.
 */
enum dlock_status zk_link_open(struct zk_link **out, const struct zk_config *config,
                               const struct zk_greeting *greeting, int64_t tick_ms,
                               const struct dlock_host *host, int64_t deadline_ns,
                               struct dlock_error *err);
/* Ends the session, without waiting for the servers: the thread of the link tells them and ends. No
 * thread uses the link any more. NULL is fine. */
void zk_link_close(struct zk_link *link);
/* In a forked child, instead: closes descriptors, takes no mutex, frees nothing. */
void zk_link_after_fork(struct zk_link *link);

/* Ends the present session now, with all its nodes, as if the servers had: the link makes a new
 * one. With the mutex held. */
void zk_link_end(struct zk_link *link);

void zk_link_state(struct zk_link *link, struct zk_session_state *state);
int64_t zk_link_now(const struct zk_link *link);

/* The mutex of the link, for what a client keeps beside it (slots, leftovers). */
void zk_link_lock(struct zk_link *link);
void zk_link_unlock(struct zk_link *link);

/* ---- calls ---- */

enum zk_op { ZK_CREATE, ZK_DELETE, ZK_CHILDREN, ZK_EXISTS, ZK_GET, ZK_SYNC };

/* One request. A call belongs to a flight, lives in its memory, and is not moved. */
struct zk_call {
    /* Set by zk_flight_add and what follows it. */
    enum zk_op op;
    char *path;       /* malloced with the flight */
    const char *data; /* ZK_CREATE: the value; borrowed until the call is begun */
    size_t data_len;
    int flags;                  /* of ZK_CREATE: ZOO_EPHEMERAL ... */
    struct zk_watcher *watcher; /* ZK_EXISTS: hears of the node; NULL: none */

    /* The answer. */
    bool done;
    int rc; /* ZOK, or an error of zookeeper.h */
    struct Stat stat;
    char *text; /* ZK_CREATE: the path with the sequence; ZK_GET: the value; malloced; or NULL */
    size_t text_len;
    struct String_vector children; /* ZK_CHILDREN: a copy */

    struct zk_flight *flight; /* the link's */
    int64_t sent_ns;
};

#define ZK_FLIGHT_MOST 128

/*
 * Calls that leave together, and are executed in this order. A flight that was given up at its
 * deadline lives on until its last answer is there.
 */
struct zk_flight;

/* NULL: no memory. `most` calls at most. */
struct zk_flight *zk_flight_new(struct zk_link *link, size_t most);
/* The answers may be read until then. Calls without an answer go on. NULL is fine. */
void zk_flight_free(struct zk_flight *flight);
/* NULL: no memory. */
struct zk_call *zk_flight_add(struct zk_flight *flight, enum zk_op op, const char *path);
/* "PARENT/CHILD" */
struct zk_call *zk_flight_add_child(struct zk_flight *flight, enum zk_op op, const char *parent,
                                    const char *child);

/*
 * Waits for a connection (inside the deadline), sends the calls, and waits for all answers.
 *
 * OK: each call has an answer; its rc says which. ZNONODE and the like are answers.
 * UNAVAILABLE: nothing was sent, or only calls that change nothing were without an answer.
 * UNKNOWN: a create or delete has no answer. It may be executed later in the same session.
 * AUTH: the servers refused the credentials. NOMEM: nothing was sent. PROTOCOL.
 * LOST: *session_id is not 0 and not the present session: that one is over, nothing was sent.
 * *session_id 0 gets the id of the session that the calls were sent in.
 */
enum dlock_status zk_flight_run(struct zk_flight *flight, int64_t *session_id, int64_t deadline_ns,
                                struct dlock_error *err);

/*
 * The same without waiting: on_end is called once, with the mutex held, when each call has an
 * answer or an error (ZCONNECTIONLOSS and the like), and must free the flight. False: not sent, and
 * on_end is not called. With the mutex held.
 */
bool zk_flight_begin(struct zk_flight *flight, void (*on_end)(struct zk_flight *flight, void *arg),
                     void *arg);
struct zk_call *zk_flight_call(struct zk_flight *flight, size_t i);

/* ---- watchers ---- */

/*
 * Hears of the next change of a node. The library keeps it until then, or until the session ends;
 * so it has memory of its own and outlives its user.
 */
struct zk_watcher {
    struct zk_watcher *next, **link; /* the link's list */
    bool fired;                      /* the node changed, or the session ended; under the mutex */
    bool pending;                    /* the library has it */
    struct zk_wait *wait;            /* woken by it; NULL: nobody. Under the mutex */
};

/* NULL: no memory. */
struct zk_watcher *zk_watcher_new(struct zk_link *link);
/* Nobody waits for it any more. NULL is fine. */
void zk_watcher_free(struct zk_link *link, struct zk_watcher *watcher);

/* A thread that waits for a watcher or an interrupt. */
struct zk_wait {
    pthread_cond_t cond;
    bool interrupted;
};
/* Sleeps until the watcher has fired (OK), the wait is interrupted (CANCELED) or the deadline
 * (TIMEOUT). wait->cond is made and destroyed by it. *where: under the mutex, set to wait
 * meanwhile, for the one who interrupts. *interrupted: sticky, under the mutex. */
enum dlock_status zk_watcher_await(struct zk_link *link, struct zk_watcher *watcher,
                                   struct zk_wait **where, const bool *interrupted,
                                   int64_t deadline_ns);
/* Wakes it. Waits for nothing but the mutex. */
void zk_wait_interrupt(struct zk_wait *wait);

/* ---- leftovers ---- */

/* Called by the thread of the link every half tick while it is connected, and after each
 * connection, with the mutex held; waits for nothing. Set once after open. */
void zk_link_on_turn(struct zk_link *link, void (*fn)(struct zk_link *link, void *arg), void *arg);

#endif
