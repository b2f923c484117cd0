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
#include "pending.h"
#include "resp/subscriber.h"

#define REDLOCK_CLIENT_SPARE 4
#define REDLOCK_CLIENT_NAMES 256 /* a power of 2 */

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

#endif
