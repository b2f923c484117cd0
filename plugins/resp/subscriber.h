/* SPDX-License-Identifier: MIT */
/*
 * subscriber.h - how messages of servers reach the waiting threads of a client.
 *
 * The client has one channel. It is subscribed to that channel with one connection to each server,
 * from the first watch on. A message names a waiter by its owner token. One of the threads that
 * watch reads for all of them (net/waiters.h).
 *
 * A lost message costs time, never a lock: after each begin and each end of a subscription all
 * waiters are told to ask the server again (`recheck`).
 */
#ifndef RESP_SUBSCRIBER_H
#define RESP_SUBSCRIBER_H

#include "net/waiters.h"
#include "resp/keys.h"

struct resp_subscriber;
struct resp_subscription;

/* One attempt that may wait. Zeroed before resp_subscriber_add_locked; guarded by the mutex of the
 * waiters. */
struct resp_waiter {
    struct waiter base;                 /* the first member */
    struct resp_subscriber *subscriber; /* its list; NULL: not listed, or closed */
    unsigned recheck;                   /* bits: servers to ask again */
};

/* The plugin provides these. */
struct resp_subscriber_user {
    /* The present password of a server, to be freed by dl_secret_free; called by the leader,
     * without the mutex. */
    enum dlock_status (*read_secret)(struct resp_subscriber *subscriber, unsigned server,
                                     char **secret, struct dlock_error *err);
    /* A message for this waiter; text: what follows the token. With the mutex. */
    void (*on_message)(struct resp_waiter *waiter, unsigned server, const char *text);
    /* NULL: servers stay where they are. True: this server is another one now, which its config
     * names already: the subscription begins again there. By the leader, without the mutex; must
     * not wait. */
    bool (*moved)(struct resp_subscriber *subscriber, unsigned server);
};

struct resp_subscriber {
    const struct dlock_host *host;
    const struct resp_subscriber_user *user;
    void *owner;                       /* for the user */
    const struct dlock_target *target; /* of the leader, for read_secret */
    char channel[RESP_PREFIX_MAX + RESP_HEX_SIZE];
    unsigned count;
    struct resp_subscription *subscriptions; /* one a server; the leader's */

    struct waiters waiters; /* its mutex guards them and the rest */
    unsigned subscribed;    /* bits: servers whose messages arrive */
    int64_t settled_ns;     /* until then no further subscription is about to begin */
    bool reported;          /* the log says that no server can be subscribed to */
};

/* configs: of `count` servers, as tls and host borrowed. OK, or NOMEM: resp_subscriber_fini is
 * harmless then, as on a zeroed one. */
enum dlock_status resp_subscriber_init(struct resp_subscriber *subscriber,
                                       const struct resp_config *configs, unsigned count,
                                       const struct tls *tls, const struct dlock_host *host,
                                       struct dlock_error *err);
/* No thread watches any more. Waiters may be left. */
void resp_subscriber_fini(struct resp_subscriber *subscriber);
/* In a forked child, instead of fini: closes descriptors and frees nothing. */
void resp_subscriber_after_fork(struct resp_subscriber *subscriber);

void resp_subscriber_add_locked(struct resp_subscriber *subscriber, struct resp_waiter *waiter,
                                const unsigned char *token);
/* Harmless for a waiter that is not listed. */
void resp_subscriber_remove(struct resp_waiter *waiter);
bool resp_subscriber_has(struct resp_subscriber *subscriber, const unsigned char *token);

/* Ends the waiter's watch, also a later one. */
void resp_subscriber_interrupt_locked(struct resp_subscriber *subscriber,
                                      struct resp_waiter *waiter);

/* Takes in messages that have arrived, and ends of subscriptions. Releases the mutex meanwhile. */
void resp_subscriber_catch_up_locked(struct resp_subscriber *subscriber);

/* The same, and begins subscriptions. Waits for nothing. */
void resp_subscriber_advance_locked(struct resp_subscriber *subscriber,
                                    const struct dlock_target *target);

/* Sleeps until something may have changed for the waiter, which is watching, or until until_ns.
 * Releases the mutex meanwhile. */
void resp_subscriber_sleep_locked(struct resp_subscriber *subscriber, struct waiter *waiter,
                                  const struct dlock_target *target, int64_t until_ns);

/* The end of a watch: another waiter leads. */
void resp_subscriber_hand_over_locked(struct resp_subscriber *subscriber);

/* True: there is no connection to this server, and none is being made. By the leader. */
bool resp_subscriber_is_down(const struct resp_subscriber *subscriber, unsigned index);

#endif
