/* SPDX-License-Identifier: MIT */
/* The connections on which a client is told of releases: one a node, read by one thread for all. */
#include "hub_private.h"
#include "lib/deadline_cond.h"
#include "lib/hex.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void attempt_wake(struct redlock_attempt *attempt)
{
    if (attempt->watching && !attempt->reading)
        (void)pthread_cond_signal(&attempt->wake);
}

void redlock_hub_hand_over(struct redlock_hub *hub)
{
    for (size_t i = 0; i < HUB_BUCKETS && !hub->reading; i++) {
        for (struct redlock_attempt *next = hub->attempts[i]; next != NULL; next = next->next) {
            if (next->watching) {
                (void)pthread_cond_signal(&next->wake);
                return;
            }
        }
    }
}

/* What a node says of releases may have been missed: it may be free for anybody. */
static void missed(struct redlock_hub *hub, unsigned bit)
{
    for (size_t i = 0; i < HUB_BUCKETS; i++) {
        for (struct redlock_attempt *at = hub->attempts[i]; at != NULL; at = at->next) {
            at->free |= bit;
            attempt_wake(at);
        }
    }
}

/* ---- messages ---- */

/* It is the turn of one of ours, or of one who has gone. */
static void told(struct redlock_hub *hub, unsigned bit, const redisReply *text)
{
    unsigned char token[DLOCK_TOKEN_SIZE];
    struct redlock_attempt *attempt = NULL;

    if (!dl_hex_decode(token, DLOCK_TOKEN_SIZE, text->str))
        return;
    attempt = *redlock_hub_bucket(hub, token);
    while (attempt != NULL && memcmp(attempt->token, token, sizeof token) != 0)
        attempt = attempt->next;
    if (attempt == NULL)
        return;
    attempt->free |= bit;
    attempt_wake(attempt);
}

static void subscribed(struct redlock_hub *hub, unsigned bit)
{
    hub->hears |= bit;
    missed(hub, bit);
}

/* In ears_advance. Requests on these connections are pings alone: nothing becomes of them. */
static void heard(struct redlock_node *node, const struct redlock_ask *ask, const redisReply *reply)
{
    struct redlock_hub *hub = node->owner;
    const redisReply *kind = NULL, *text = NULL;
    unsigned bit = 1u << node->index;

    if (ask != NULL)
        return;
    if (resp_reply_array(reply, 3))
        kind = resp_reply_text(reply, 0);
    if (kind != NULL && strcmp(kind->str, "message") == 0)
        text = resp_reply_text(reply, 2);
    (void)pthread_mutex_lock(&hub->mutex);
    if (text != NULL)
        told(hub, bit, text);
    else if (kind != NULL && strcmp(kind->str, "subscribe") == 0)
        subscribed(hub, bit);
    else
        kind = NULL;
    (void)pthread_mutex_unlock(&hub->mutex);
    if (kind == NULL)
        redlock_node_drop(node, reply->type == REDIS_REPLY_ERROR ? DLOCK_AUTH : DLOCK_PROTOCOL,
                          "not what a subscriber is told");
}

/* ---- connections ---- */

bool redlock_hub_listen(struct redlock_hub *hub)
{
    if (hub->ears != NULL)
        return true;
    hub->ears = calloc(hub->place.count, sizeof *hub->ears);
    if (hub->ears == NULL)
        return false;
    for (unsigned i = 0; i < hub->place.count; i++) {
        redlock_node_init(&hub->ears[i], &hub->place, i, hub->tls, hub->host, heard, hub);
        hub->ears[i].channel = hub->channel;
    }
    return true;
}

/* Without the mutex: connecting takes its time, with TLS above all. The ears are ours by `reading`.
 */
static void ears_advance(struct redlock_hub *hub, const struct dlock_target *target)
{
    int64_t now_ns = hub->host->now_ns(hub->host->ctx);

    for (unsigned i = 0; i < hub->place.count; i++) {
        hub->ears[i].target = target;
        redlock_node_advance(&hub->ears[i], now_ns);
    }
}

/* Until when nothing better is to be had than what is heard now; 0: an ear is about to hear. */
static int64_t settled_until(const struct redlock_hub *hub)
{
    int64_t now_ns = hub->host->now_ns(hub->host->ctx), until_ns = INT64_MAX;

    for (unsigned i = 0; i < hub->place.count; i++) {
        const struct redlock_node *ear = &hub->ears[i];

        if ((hub->hears & 1u << i) != 0)
            continue;
        if (ear->state == NODE_READY || redlock_node_coming(ear, now_ns))
            return 0;
        if (ear->retry_ns < until_ns)
            until_ns = ear->retry_ns;
    }
    return until_ns;
}

/* With the mutex. Threads that wait for ears are woken when there is nothing more to wait for. */
static void ears_publish(struct redlock_hub *hub)
{
    bool was_settled = hub->settled_ns != 0;

    for (unsigned i = 0; i < hub->place.count; i++) {
        if (hub->ears[i].state != NODE_READY && (hub->hears & 1u << i) != 0) {
            hub->hears &= ~(1u << i);
            missed(hub, 1u << i);
        }
    }
    hub->settled_ns = settled_until(hub);
    if (!was_settled && hub->settled_ns != 0)
        missed(hub, 0);
}

/* Without the mutex; the ears are ours by `reading`. */
static void ears_poll(const struct redlock_hub *hub, int64_t until_ns)
{
    struct pollfd fds[REDLOCK_NODES_MAX + 1] = {{.fd = hub->wake_fd, .events = POLLIN}};
    struct timespec timeout;
    nfds_t count = 1;
    uint64_t wakes = 0;
    int64_t now_ns = hub->host->now_ns(hub->host->ctx);

    for (unsigned i = 0; i < hub->place.count; i++) {
        short events = redlock_node_events(&hub->ears[i]);
        int64_t due_ns = redlock_node_due_ns(&hub->ears[i], now_ns);

        if (events != 0)
            fds[count++] = (struct pollfd){.fd = hub->ears[i].stream.fd, .events = events};
        if (due_ns < until_ns)
            until_ns = due_ns;
    }
    timeout = dl_deadline_cond_slice(until_ns - now_ns);
    if (ppoll(fds, count, &timeout, NULL) > 0 && fds[0].revents != 0)
        (void)!read(hub->wake_fd, &wakes, sizeof wakes);
}

void redlock_hub_sleep(const struct redlock_session *session, struct redlock_attempt *attempt,
                       int64_t until_ns)
{
    struct redlock_hub *hub = session->hub;

    if (hub->host->now_ns(hub->host->ctx) >= until_ns)
        return;
    if (hub->reading) {
        dl_deadline_cond_wait(&attempt->wake, &hub->mutex,
                              until_ns - hub->host->now_ns(hub->host->ctx));
        return;
    }
    hub->reading = attempt->reading = true;
    (void)pthread_mutex_unlock(&hub->mutex);
    ears_poll(hub, until_ns);
    ears_advance(hub, session->target);
    (void)pthread_mutex_lock(&hub->mutex);
    ears_publish(hub);
    hub->reading = attempt->reading = false;
}
