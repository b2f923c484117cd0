/* SPDX-License-Identifier: MIT */
/*
 * client.h - what all sessions of a client share: configuration, certificates, the subscriber,
 * pending releases, and connections that no session uses.
 *
 * A client lives as long as it has sessions and attempts.
 */
#ifndef REDLOCK_CLIENT_H
#define REDLOCK_CLIENT_H

#include "fence.h"
#include "net/clients.h"
#include "node.h"
#include "resp/subscriber.h"

#include <pthread.h>
#include <stdatomic.h>

#define REDLOCK_CLIENT_SPARE 4
#define REDLOCK_CLIENT_NAMES 256 /* a power of 2 */

/*
 * Releases that have yet to reach their nodes.
 *
 * There is one list a node, for all sessions of a client. A release gets into the list when it
 * cannot be sent, when its connection ends without an answer, and when the node refuses it. Any
 * session that has a connection to the node takes the release out and sends it, so that a list
 * outlives the session that filled it.
 *
 * Thread-safe. The mutex is a leaf.
 */
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

struct redlock_client {
    struct client client; /* first; its references are sessions and attempts */
    struct redlock_config config;
    struct tls *tls; /* NULL: no node wants TLS */
    struct redlock_pending pending;
    struct resp_subscriber subscriber;
    struct redlock_fence_clocks clocks;
    _Atomic unsigned char busy[REDLOCK_CLIENT_NAMES]; /* by hash of the name; a hint */
    _Atomic bool opened;                              /* by redlock_client_first */

    pthread_mutex_t mutex; /* guards the rest */
    struct redlock_node *spare[REDLOCK_CLIENT_SPARE];
    _Atomic unsigned spare_count; /* a forked child reads it without the mutex */
};

/* In slot init. False: no memory. */
bool redlock_client_init(void);

/* Finds the client of this host, or makes it, and takes a reference. NULL: err says why (NOMEM;
 * INVALID: the URI, certificates). */
struct redlock_client *redlock_client_join(const struct dlock_host *host,
                                           const struct dlock_target *target,
                                           struct dlock_error *err);
void redlock_client_ref(struct redlock_client *client);
/* The last one frees the client. */
void redlock_client_unref(struct redlock_client *client);
/* In a forked child, instead of unref: closes descriptors and frees nothing. */
void redlock_client_after_fork(struct redlock_client *client);

/* True for the first call alone. */
bool redlock_client_first(struct redlock_client *client);

/* True: the name, or another name with the same hash, was held when this client asked last. */
bool redlock_client_was_busy(struct redlock_client *client, const unsigned char *name,
                             uint32_t name_len);
void redlock_client_note_busy(struct redlock_client *client, const unsigned char *name,
                              uint32_t name_len, bool busy);

/* Gives connections to all nodes away, for any session. False: the client has enough, and the
 * connections stay with the caller. */
bool redlock_client_keep_nodes(struct redlock_client *client, struct redlock_node *nodes);
/* NULL: there are none. */
struct redlock_node *redlock_client_take_nodes(struct redlock_client *client);

/* ---- pending releases ---- */

/*
 * Adds a release, which is due at due_ns. If the list has the same release for
 * an earlier round, the later round replaces it. A full list forgets its oldest release, and
 * without memory the new one is forgotten: the lease then ends by itself.
 */
void redlock_client_pending_add(struct redlock_pending *pending, unsigned node,
                                const struct redlock_sent_request *release, int64_t due_ns);

/* Takes out a release that is due. False: none is. */
bool redlock_client_pending_take(struct redlock_pending *pending, unsigned node, int64_t now_ns,
                                 struct redlock_sent_request *release);

/* ---- attempts ---- */

/* One attempt to get a lock, and the lease that comes of it: dlock_request.slot. A late grant
 * belongs to an attempt that lives, or is given back. Zeroed by core. Only the thread of the
 * attempt uses it, but for the waiter. */
struct redlock_attempt {
    uint32_t round;    /* of the last request for the lock */
    int64_t number;    /* of the lease: the fencing token; 0: it has none, or is not known */
    int64_t clock_ms;  /* the latest clock that a node reported */
    int64_t ticket_ms; /* orders the waiters; 0: this one has no queue entry yet */
    unsigned rechecks; /* in a row that found no majority free */
    struct resp_waiter waiter; /* recheck: nodes that are free for it, as far as known */
    /* wait.c's; under the mutex of the waiters. */
    bool waits;         /* the last answer was BUSY */
    bool due;           /* recheck_ns has come */
    int64_t recheck_ns; /* when to ask again although too few nodes are free; 0: they are not */
};

/* The attempt lives from now on, if it does not live already. */
void redlock_client_attempt_begin(struct redlock_client *client, struct redlock_attempt *attempt,
                                  const unsigned char *token);
/* Harmless for an attempt that does not live. */
void redlock_client_attempt_end(struct redlock_attempt *attempt);
bool redlock_client_attempt_lives(struct redlock_client *client, const unsigned char *token);

#endif
