/* SPDX-License-Identifier: MIT */
#include "resp/subscription.h"
#include "lib/time.h"
#include "resp/command.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

#define LASTS_NS DL_NS_PER_S       /* a shorter subscription counts as a failure */
#define PING_NS  (5 * DL_NS_PER_S) /* the silence before a ping */
#define STUCK_NS (2 * DL_NS_PER_S) /* the most time for the answer to a ping */

static enum dlock_status read_secret(struct resp_connection *connection, char **secret,
                                     struct dlock_error *err)
{
    struct resp_subscription *subscription = (struct resp_subscription *)connection;

    return subscription->user->read_secret(subscription, secret, err);
}

static int64_t now(const struct resp_connection *connection)
{
    return connection->host->now_ns(connection->host->ctx);
}

static void on_ready(struct resp_connection *connection)
{
    struct resp_subscription *subscription = (struct resp_subscription *)connection;
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;

    subscription->heard_ns = now(connection);
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

    subscription->heard_ns = now(connection);
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

    if (subscription->subscribed && now(connection) - subscription->since_ns >= LASTS_NS)
        connection->failures = 0;
    subscription->subscribed = false;
    subscription->pinged_ns = 0;
}

void resp_subscription_init(struct resp_subscription *subscription,
                            const struct resp_config *config, const struct tls *tls,
                            const struct dlock_host *host)
{
    static const struct resp_connection_user connection_user = {
        .read_secret = read_secret,
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_end = on_end,
        .reply_max = RESP_REPLY_MAX,
    };

    resp_connection_init(&subscription->connection, config, tls, host, &connection_user);
}

void resp_subscription_restart(struct resp_subscription *subscription)
{
    struct resp_connection *connection = &subscription->connection;

    if (connection->state != RESP_DOWN)
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "the master is another server now");
    connection->failures = 0;
    connection->retry_ns = 0;
}

void resp_subscription_advance(struct resp_subscription *subscription, int64_t now_ns)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    struct resp_connection *connection = &subscription->connection;

    resp_connection_advance(connection, now_ns);
    if (connection->state != RESP_READY || now_ns < resp_subscription_due_ns(subscription, now_ns))
        return;
    if (subscription->pinged_ns != 0) {
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "no answer to a ping");
        return;
    }
    subscription->pinged_ns = now_ns;
    if (resp_connection_add(connection, ping, sizeof ping - 1))
        (void)resp_connection_flush(connection);
}

int64_t resp_subscription_due_ns(const struct resp_subscription *subscription, int64_t now_ns)
{
    if (subscription->connection.state != RESP_READY)
        return resp_connection_due_ns(&subscription->connection, now_ns);
    return subscription->pinged_ns != 0 ? subscription->pinged_ns + STUCK_NS
                                        : subscription->heard_ns + PING_NS;
}
