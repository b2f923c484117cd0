/* SPDX-License-Identifier: MIT */
/* A node's way to a connection: the host's name, TCP, TLS, and what a new connection is told. */
#include "node_private.h"
#include "redlock.h"

#include <poll.h>
#include <string.h>

#define REPLY_MAX ((size_t)1024 * 1024)     /* bytes of one answer: a page of a list */
#define LIMIT_NS  (5 * INT64_C(1000000000)) /* to become READY */

void redlock_node_set_up_end(struct redlock_node *node)
{
    resp_setup_end(&node->setup);
    redlock_secret_free(node->secret);
    node->secret = NULL;
}

bool redlock_node_is_rotated(const struct redlock_node *node)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    const char *told = node->secret != NULL ? node->secret : "";
    char *secret = NULL;
    bool rotated =
        redlock_place_secret(node->all, node->index, node->target, &secret, &err) == DLOCK_OK &&
        strcmp(secret != NULL ? secret : "", told) != 0;

    redlock_secret_free(secret);
    return rotated;
}

/* With the password as it is now. */
static void set_up_begin(struct redlock_node *node)
{
    struct resp_config place = *node->place;
    struct dlock_error err = DLOCK_ERROR_INIT;
    bool begun = false;

    if (redlock_place_secret(node->all, node->index, node->target, &node->secret, &err) !=
        DLOCK_OK) {
        redlock_node_drop(node, err.status, "%.95s", err.message);
        return;
    }
    place.password = node->secret;
    begun =
        resp_setup_begin(&node->setup, &place, true, node->channel == NULL ? &node->facts : NULL);
    node->setup.config = node->place;
    if (!begun || !redlock_node_add(node, node->setup.bytes, node->setup.len)) {
        redlock_node_drop(node, DLOCK_NOMEM, "no memory for a command");
        return;
    }
    node->state = NODE_SETTING_UP;
    (void)redlock_node_flush(node);
}

static void connected(struct redlock_node *node)
{
    const char *name = node->place->sni != NULL ? node->place->sni : node->place->address.host;

    if (!resp_reader_init(&node->reader)) {
        redlock_node_drop(node, DLOCK_NOMEM, "no memory for a reader of answers");
        return;
    }
    node->reader.reply_max = REPLY_MAX;
    if (!node->place->secure) {
        set_up_begin(node);
    } else if (stream_secure_begin(&node->stream, node->tls, name) != STREAM_OK) {
        redlock_node_drop_stream(node, STREAM_FAILED, node->stream.why);
    } else {
        node->state = NODE_SECURING;
        node->events = POLLOUT;
    }
}

/* The next address, or the last one's failure. */
static void connect_next(struct redlock_node *node)
{
    while (node->at != NULL) {
        const struct addrinfo *to = node->at;

        node->at = to->ai_next;
        if (stream_connect_begin(&node->stream, to) == STREAM_OK) {
            node->state = NODE_CONNECTING;
            node->events = POLLOUT;
            return;
        }
    }
    redlock_node_drop_stream(node, STREAM_FAILED, node->stream.why);
}

void redlock_node_connect_step(struct redlock_node *node)
{
    enum stream_result result = stream_connect_step(&node->stream, &node->events);

    if (result == STREAM_OK)
        connected(node);
    else if (result != STREAM_TIMEOUT)
        connect_next(node);
}

void redlock_node_secure_step(struct redlock_node *node)
{
    const char *name = node->place->sni != NULL ? node->place->sni : node->place->address.host;
    enum stream_result result = stream_secure_step(&node->stream, node->tls, name, &node->events);

    if (result == STREAM_OK)
        set_up_begin(node);
    else if (result != STREAM_TIMEOUT)
        redlock_node_drop_stream(node, result, node->stream.why);
}

static void resolved(struct redlock_node *node, int failure)
{
    node->job = NULL;
    if (failure != 0) {
        redlock_node_drop(node, DLOCK_UNAVAILABLE, "looking up the host: %s",
                          gai_strerror(failure));
        return;
    }
    node->at = node->addresses;
    (void)snprintf(node->stream.why, sizeof node->stream.why, "the host has no address");
    connect_next(node);
}

void redlock_node_resolve_step(struct redlock_node *node)
{
    int failure = 0;

    if (resolve_look(node->job, &failure, &node->addresses))
        resolved(node, failure);
}

void redlock_node_begin(struct redlock_node *node, int64_t now_ns)
{
    const struct address *address = &node->place->address;

    node->limit_ns = now_ns + LIMIT_NS;
    if (resolve_number(address->host, address->port, &node->addresses) == 0) {
        resolved(node, 0);
        return;
    }
    node->job = resolve_begin(address->host, address->port);
    if (node->job == NULL)
        redlock_node_drop(node, DLOCK_NOMEM, "no memory to look up the host");
    else
        node->state = NODE_RESOLVING;
}
