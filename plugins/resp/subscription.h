/* SPDX-License-Identifier: MIT */
/*
 * subscription.h - a connection on which a server sends the messages of one channel.
 *
 * A connection that dies in silence is found by a ping.
 */
#ifndef RESP_SUBSCRIPTION_H
#define RESP_SUBSCRIPTION_H

#include "resp/connection.h"

struct resp_subscription;

struct resp_subscription_user {
    /* As resp_connection_user.read_secret. */
    enum dlock_status (*read_secret)(struct resp_subscription *subscription, char **secret,
                                     struct dlock_error *err);
    void (*on_message)(struct resp_subscription *subscription, const char *text);
};

struct resp_subscription {
    struct resp_connection connection; /* the first member */
    const struct resp_subscription_user *user;
    void *owner; /* for the user */
    unsigned index;
    const char *channel;
    bool subscribed;
    int64_t since_ns;  /* subscribed since then */
    int64_t heard_ns;  /* the last reply */
    int64_t pinged_ns; /* the ping without an answer; 0: none */
};

/* A zeroed subscription whose user, owner, index and channel are set. */
void resp_subscription_init(struct resp_subscription *subscription,
                            const struct resp_config *config, const struct tls *tls,
                            const struct dlock_host *host);

/* Ends the connection, which begins again at once. */
void resp_subscription_restart(struct resp_subscription *subscription);

/* As those of connection.h. */
void resp_subscription_advance(struct resp_subscription *subscription, int64_t now_ns);
int64_t resp_subscription_due_ns(const struct resp_subscription *subscription, int64_t now_ns);

#endif
