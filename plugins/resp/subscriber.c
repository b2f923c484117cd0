/* SPDX-License-Identifier: MIT */
#include "resp/subscriber.h"
#include "lib/text.h"
#include "lib/time.h"
#include "resp/command.h"
#include "resp/connection.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a connection on which a server sends the messages of one channel ---- */

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

#define LASTS_NS DL_NS_PER_S       /* a shorter subscription counts as a failure */
#define PING_NS  (5 * DL_NS_PER_S) /* the silence before a ping */
#define STUCK_NS (2 * DL_NS_PER_S) /* the most time for the answer to a ping */

static enum dlock_status secret_of(struct resp_connection *connection, char **secret,
                                   struct dlock_error *err)
{
    struct resp_subscription *subscription = (struct resp_subscription *)connection;

    return subscription->user->read_secret(subscription, secret, err);
}

static int64_t connection_now(const struct resp_connection *connection)
{
    return connection->host->now_ns(connection->host->ctx);
}

static void on_ready(struct resp_connection *connection)
{
    struct resp_subscription *subscription = (struct resp_subscription *)connection;
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;

    subscription->heard_ns = connection_now(connection);
    resp_command_begin(&command);
    resp_command_text(&command, "SUBSCRIBE");
    resp_command_text(&command, subscription->channel);
    bytes = resp_command_format(&command, &len);
    if (bytes != NULL && resp_connection_add(connection, bytes, len))
        (void)resp_connection_flush(connection);
    else
        resp_connection_drop(connection, DLOCK_NOMEM, "no memory for a command");
    free(bytes);
}

/* A server that refuses the ping is alive, too. */
static bool is_pong(const struct resp_subscription *subscription, const redisReply *reply)
{
    const redisReply *kind = resp_reply_array(reply, 2) ? resp_reply_text(reply, 0) : NULL;

    return subscription->pinged_ns != 0 &&
           (reply->type == REDIS_REPLY_ERROR || (kind != NULL && strcmp(kind->str, "pong") == 0));
}

static void refused(struct resp_connection *connection, const redisReply *reply)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (reply->type != REDIS_REPLY_ERROR) {
        resp_connection_drop(connection, DLOCK_PROTOCOL, "the server's messages make no sense");
        return;
    }
    (void)resp_error_take(connection->config, reply, &err);
    resp_connection_drop_with(connection, &err);
}

static void on_reply(struct resp_connection *connection, const redisReply *reply)
{
    struct resp_subscription *subscription = (struct resp_subscription *)connection;
    const redisReply *kind = NULL, *text = NULL;

    subscription->heard_ns = connection_now(connection);
    if (is_pong(subscription, reply)) {
        subscription->pinged_ns = 0;
        return;
    }
    if (resp_reply_array(reply, 3)) {
        kind = resp_reply_text(reply, 0);
        text = resp_reply_text(reply, 2);
    }
    if (kind != NULL && text != NULL && strcmp(kind->str, "message") == 0) {
        subscription->user->on_message(subscription, text->str);
    } else if (kind != NULL && strcmp(kind->str, "subscribe") == 0) {
        subscription->subscribed = true;
        subscription->since_ns = subscription->heard_ns;
    } else {
        refused(connection, reply);
    }
}

static void on_end(struct resp_connection *connection)
{
    struct resp_subscription *subscription = (struct resp_subscription *)connection;

    if (subscription->subscribed && connection_now(connection) - subscription->since_ns >= LASTS_NS)
        connection->failures = 0;
    subscription->subscribed = false;
    subscription->pinged_ns = 0;
}

static void subscription_init(struct resp_subscription *subscription,
                              const struct resp_config *config, const struct tls *tls,
                              const struct dlock_host *host)
{
    static const struct resp_connection_user connection_user = {
        .read_secret = secret_of,
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_end = on_end,
        .reply_max = RESP_REPLY_MAX,
    };

    resp_connection_init(&subscription->connection, config, tls, host, &connection_user);
}

static void subscription_restart(struct resp_subscription *subscription)
{
    struct resp_connection *connection = &subscription->connection;

    if (connection->state != RESP_DOWN)
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "the master is another server now");
    connection->failures = 0;
    connection->retry_ns = 0;
}

static int64_t subscription_due_ns(const struct resp_subscription *subscription, int64_t now_ns)
{
    if (subscription->connection.state != RESP_READY)
        return resp_connection_due_ns(&subscription->connection, now_ns);
    return subscription->pinged_ns != 0 ? subscription->pinged_ns + STUCK_NS
                                        : subscription->heard_ns + PING_NS;
}

static void subscription_advance(struct resp_subscription *subscription, int64_t now_ns)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    struct resp_connection *connection = &subscription->connection;

    resp_connection_advance(connection, now_ns);
    if (connection->state != RESP_READY || now_ns < subscription_due_ns(subscription, now_ns))
        return;
    if (subscription->pinged_ns != 0) {
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "no answer to a ping");
        return;
    }
    subscription->pinged_ns = now_ns;
    if (resp_connection_add(connection, ping, sizeof ping - 1))
        (void)resp_connection_flush(connection);
}

/* ---- the subscriptions of a client ---- */

#define LOG_WARNING 1  /* DLOCK_LOG_WARNING of dlock.h */
#define SERVERS_MAX 32 /* bits of a mask */

static int64_t now(const struct resp_subscriber *subscriber)
{
    return subscriber->host->now_ns(subscriber->host->ctx);
}

/* Messages of these servers may have been lost. */
static void recheck_all_locked(struct resp_subscriber *subscriber, unsigned servers)
{
    for (struct waiter *at = subscriber->waiters.first; at != NULL; at = at->next) {
        ((struct resp_waiter *)at)->recheck |= servers;
        if (at->number == 0 || servers != 0)
            waiters_wake_locked(at, false);
    }
}

/* ---- the leader, without the mutex ---- */

static enum dlock_status read_secret(struct resp_subscription *subscription, char **secret,
                                     struct dlock_error *err)
{
    struct resp_subscriber *subscriber = subscription->owner;

    return subscriber->user->read_secret(subscriber, subscription->index, secret, err);
}

/* "<token>", and what the plugin reads. The waiter may be gone. */
static void on_message(struct resp_subscription *subscription, const char *text)
{
    struct resp_subscriber *subscriber = subscription->owner;
    unsigned char token[DLOCK_TOKEN_SIZE];
    char hex[RESP_HEX_SIZE];
    struct waiter *waiter = NULL;

    (void)snprintf(hex, sizeof hex, "%s", text);
    if (!dl_hex_decode(token, sizeof token, hex))
        return;
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    waiter = waiters_find_locked(&subscriber->waiters, token);
    if (waiter != NULL) {
        subscriber->user->on_message((struct resp_waiter *)waiter, subscription->index,
                                     text + RESP_HEX_SIZE - 1);
        waiters_wake_locked(waiter, false);
    }
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

static void advance(struct resp_subscriber *subscriber)
{
    int64_t now_ns = now(subscriber);

    for (unsigned i = 0; i < subscriber->count; i++) {
        struct resp_subscription *at = &subscriber->subscriptions[i];

        if (subscriber->user->moved != NULL && subscriber->user->moved(subscriber, i))
            subscription_restart(at);
        subscription_advance(at, now_ns);
    }
}

/* Sleeps until a subscription has work, until the leader is woken, or until until_ns. */
static void await(const struct resp_subscriber *subscriber, int64_t until_ns)
{
    struct pollfd fds[SERVERS_MAX + 1] = {{.fd = subscriber->waiters.wake_fd, .events = POLLIN}};
    struct timespec timeout;
    nfds_t count = 1;
    uint64_t wakes = 0;
    int64_t now_ns = now(subscriber);

    for (unsigned i = 0; i < subscriber->count; i++) {
        const struct resp_subscription *subscription = &subscriber->subscriptions[i];
        short events = resp_connection_events(&subscription->connection);
        int64_t due_ns = subscription_due_ns(subscription, now_ns);

        if (events != 0)
            fds[count++] =
                (struct pollfd){.fd = subscription->connection.stream.fd, .events = events};
        if (due_ns < until_ns)
            until_ns = due_ns;
    }
    timeout = dl_deadline_cond_slice(until_ns - now_ns);
    if (ppoll(fds, count, &timeout, NULL) > 0 && fds[0].revents != 0)
        (void)!read(subscriber->waiters.wake_fd, &wakes, sizeof wakes);
}

static void report(struct resp_subscriber *subscriber)
{
    const struct resp_connection *connection = &subscriber->subscriptions[0].connection;
    char line[300];

    (void)snprintf(line, sizeof line, "waiters have to ask: %s: %s", connection->config->endpoint,
                   connection->why);
    subscriber->host->log(subscriber->host->ctx, LOG_WARNING, line);
}

/* ---- leading; with the mutex ---- */

/* The time until which no subscription is about to begin; 0: one is about to begin. */
static int64_t settled_until(const struct resp_subscriber *subscriber)
{
    int64_t now_ns = now(subscriber), until_ns = INT64_MAX;

    for (unsigned i = 0; i < subscriber->count; i++) {
        const struct resp_subscription *at = &subscriber->subscriptions[i];

        if (at->subscribed)
            continue;
        if (at->connection.state == RESP_READY || resp_connection_coming(&at->connection, now_ns))
            return 0;
        if (at->connection.retry_ns < until_ns)
            until_ns = at->connection.retry_ns;
    }
    return until_ns;
}

/* Publishes the leader's view. Wakes the waiters also when no subscription will begin soon. */
static void publish_locked(struct resp_subscriber *subscriber)
{
    bool was_settled = subscriber->settled_ns != 0;
    unsigned subscribed = 0, changed = 0;

    for (unsigned i = 0; i < subscriber->count; i++)
        if (subscriber->subscriptions[i].subscribed)
            subscribed |= 1u << i;
    changed = subscribed ^ subscriber->subscribed;
    subscriber->subscribed = subscribed;
    subscriber->settled_ns = settled_until(subscriber);
    if (changed != 0 || (!was_settled && subscriber->settled_ns != 0))
        recheck_all_locked(subscriber, changed);
}

/* True, once: no server can be subscribed to now. */
static bool is_silent_locked(struct resp_subscriber *subscriber)
{
    bool silent = subscriber->subscribed == 0 && subscriber->settled_ns != 0;
    bool first = silent && !subscriber->reported;

    if (silent || subscriber->subscribed != 0)
        subscriber->reported = silent;
    return first;
}

/* With the lead. */
static void lead_locked(struct resp_subscriber *subscriber, int64_t until_ns)
{
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
    if (until_ns > 0)
        await(subscriber, until_ns);
    advance(subscriber);
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    publish_locked(subscriber);
    if (is_silent_locked(subscriber)) {
        (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
        report(subscriber);
        (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    }
}

void resp_subscriber_catch_up_locked(struct resp_subscriber *subscriber)
{
    if (subscriber->subscribed != 0)
        resp_subscriber_advance_locked(subscriber, subscriber->target);
}

void resp_subscriber_advance_locked(struct resp_subscriber *subscriber,
                                    const struct dlock_target *target)
{
    if (!waiters_lead_locked(&subscriber->waiters))
        return;
    subscriber->target = target;
    lead_locked(subscriber, 0);
    subscriber->waiters.led = false;
    resp_subscriber_hand_over_locked(subscriber);
}

void resp_subscriber_sleep_locked(struct resp_subscriber *subscriber, struct waiter *waiter,
                                  const struct dlock_target *target, int64_t until_ns)
{
    if (!waiters_lead_or_sleep_locked(waiter, until_ns - now(subscriber)))
        return;
    subscriber->target = target;
    lead_locked(subscriber, until_ns);
    waiters_led_locked(waiter);
}

void resp_subscriber_hand_over_locked(struct resp_subscriber *subscriber)
{
    waiters_hand_over_locked(&subscriber->waiters);
}

/* ---- waiters ---- */

void resp_subscriber_add_locked(struct resp_subscriber *subscriber, struct resp_waiter *waiter,
                                const unsigned char *token)
{
    waiters_add_locked(&subscriber->waiters, &waiter->base, token);
    waiter->subscriber = subscriber;
}

void resp_subscriber_remove(struct resp_waiter *waiter)
{
    struct resp_subscriber *subscriber = waiter->subscriber;

    if (subscriber == NULL)
        return;
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    waiters_remove_locked(&waiter->base);
    waiter->subscriber = NULL;
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

bool resp_subscriber_has(struct resp_subscriber *subscriber, const unsigned char *token)
{
    bool has = false;

    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    has = waiters_find_locked(&subscriber->waiters, token) != NULL;
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
    return has;
}

void resp_subscriber_interrupt_locked(struct resp_subscriber *subscriber,
                                      struct resp_waiter *waiter)
{
    (void)subscriber;
    waiter->base.interrupted = true;
    if (waiter->subscriber != NULL)
        waiters_wake_locked(&waiter->base, true);
}

/* ---- the begin and the end ---- */

enum dlock_status resp_subscriber_init(struct resp_subscriber *subscriber,
                                       const struct resp_config *configs, unsigned count,
                                       const struct tls *tls, const struct dlock_host *host,
                                       struct dlock_error *err)
{
    static const struct resp_subscription_user subscription_user = {read_secret, on_message};
    unsigned char id[DLOCK_TOKEN_SIZE];
    char hex[RESP_HEX_SIZE];
    const bool equipped = waiters_init(&subscriber->waiters);

    subscriber->host = host;
    subscriber->count = count;
    subscriber->subscriptions = calloc(count, sizeof *subscriber->subscriptions);
    for (unsigned i = 0; subscriber->subscriptions != NULL && i < count; i++) {
        subscriber->subscriptions[i] = (struct resp_subscription){
            .user = &subscription_user,
            .owner = subscriber,
            .index = i,
            .channel = subscriber->channel,
        };
        subscription_init(&subscriber->subscriptions[i], &configs[i], tls, host);
    }
    if (subscriber->subscriptions == NULL || !equipped ||
        host->random(host->ctx, id, sizeof id) != 0)
        return resp_error_fail(&configs[0], err, DLOCK_NOMEM,
                               "no memory, no descriptor for an event, or no random bytes");
    dl_hex_encode(hex, id, DLOCK_TOKEN_SIZE);
    (void)snprintf(subscriber->channel, sizeof subscriber->channel, "%s%s", configs[0].prefix, hex);
    return DLOCK_OK;
}

void resp_subscriber_fini(struct resp_subscriber *subscriber)
{
    if (subscriber->host == NULL)
        return;
    for (struct waiter *at = subscriber->waiters.first; at != NULL; at = at->next)
        ((struct resp_waiter *)at)->subscriber = NULL;
    for (unsigned i = 0; subscriber->subscriptions != NULL && i < subscriber->count; i++)
        resp_connection_close(&subscriber->subscriptions[i].connection);
    free(subscriber->subscriptions);
    waiters_fini(&subscriber->waiters);
}

void resp_subscriber_after_fork(struct resp_subscriber *subscriber)
{
    if (subscriber->host == NULL)
        return;
    for (unsigned i = 0; subscriber->subscriptions != NULL && i < subscriber->count; i++)
        resp_connection_after_fork(&subscriber->subscriptions[i].connection);
    waiters_after_fork(&subscriber->waiters);
}

bool resp_subscriber_is_down(const struct resp_subscriber *subscriber, unsigned index)
{
    return subscriber->subscriptions[index].connection.state == RESP_DOWN;
}
