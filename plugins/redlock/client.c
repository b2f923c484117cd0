/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <stdlib.h>

static void nodes_free(const struct redlock_client *client, struct redlock_node *nodes)
{
    for (unsigned i = 0; nodes != NULL && i < client->config.count; i++)
        redlock_node_close(&nodes[i]);
    free(nodes);
}

static void client_free(struct redlock_client *client)
{
    resp_subscriber_fini(&client->subscriber);
    for (unsigned i = 0; i < client->spare_count; i++)
        nodes_free(client, client->spare[i]);
    redlock_pending_fini(&client->pending);
    tls_free(client->tls);
    redlock_config_free(&client->config);
    (void)pthread_mutex_destroy(&client->mutex);
    free(client);
}

/* Loads the certificates, if a node wants TLS. */
static bool certificates_load(struct redlock_client *client, struct dlock_error *err)
{
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_OK;

    for (unsigned i = 0; i < client->config.count && client->tls == NULL; i++) {
        if (!client->config.nodes[i].secure)
            continue;
        client->tls = tls_new(&client->config.nodes[i].tls, &status, why, sizeof why);
        if (client->tls == NULL) {
            (void)redlock_config_fail(err, &client->config, status, "%s", why);
            return false;
        }
    }
    return true;
}

static enum dlock_status read_secret(struct resp_subscriber *subscriber, unsigned node,
                                     char **secret, struct dlock_error *err)
{
    const struct redlock_client *client = subscriber->owner;

    return redlock_config_secret(&client->config, node, subscriber->target, secret, err);
}

/* The node keeps the name for this waiter. */
static void on_message(struct resp_waiter *waiter, unsigned node, const char *text)
{
    (void)text;
    waiter->recheck |= 1u << node;
}

static bool client_fill(struct redlock_client *client, const struct dlock_host *host,
                        const struct dlock_target *target, struct dlock_error *err)
{
    static const struct resp_subscriber_user user = {read_secret, on_message, NULL};

    client->subscriber.user = &user;
    client->subscriber.owner = client;
    return redlock_config_init(&client->config, target, err) == DLOCK_OK &&
           certificates_load(client, err) &&
           resp_subscriber_init(&client->subscriber, client->config.nodes, client->config.count,
                                client->tls, host, err) == DLOCK_OK;
}

/* What a client is made of, and why it could not be made. */
struct origin {
    const struct dlock_target *target;
    struct dlock_error *err;
};

static struct client *client_make(const struct dlock_host *host, const void *arg)
{
    const struct origin *origin = arg;
    struct redlock_client *client = calloc(1, sizeof *client);

    if (client == NULL) {
        (void)dlock_fail(origin->err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a client");
        return NULL;
    }
    (void)pthread_mutex_init(&client->mutex, NULL);
    redlock_pending_init(&client->pending);
    if (client_fill(client, host, origin->target, origin->err))
        return &client->client;
    client_free(client);
    return NULL;
}

static struct clients clients = {.make = client_make};

bool redlock_client_init(void)
{
    return clients_init(&clients);
}

struct redlock_client *redlock_client_join(const struct dlock_host *host,
                                           const struct dlock_target *target,
                                           struct dlock_error *err)
{
    const struct origin origin = {target, err};

    return (struct redlock_client *)(void *)clients_find(&clients, host, &origin);
}

void redlock_client_ref(struct redlock_client *client)
{
    clients_ref(&client->client);
}

void redlock_client_unref(struct redlock_client *client)
{
    if (clients_unref(&clients, &client->client))
        client_free(client);
}

void redlock_client_after_fork(struct redlock_client *client)
{
    resp_subscriber_after_fork(&client->subscriber);
    for (unsigned at = 0; at < client->spare_count; at++)
        for (unsigned i = 0; i < client->config.count; i++)
            resp_connection_after_fork(&client->spare[at][i].connection);
}

bool redlock_client_first(struct redlock_client *client)
{
    return !atomic_exchange(&client->opened, true);
}

/* ---- names ---- */

/* FNV-1a */
static size_t name_hash(const unsigned char *name, uint32_t name_len)
{
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < name_len; i++)
        hash = (hash ^ name[i]) * 16777619u;
    return hash % REDLOCK_CLIENT_NAMES;
}

bool redlock_client_was_busy(struct redlock_client *client, const unsigned char *name,
                             uint32_t name_len)
{
    return atomic_load_explicit(&client->busy[name_hash(name, name_len)], memory_order_relaxed) !=
           0;
}

void redlock_client_note_busy(struct redlock_client *client, const unsigned char *name,
                              uint32_t name_len, bool busy)
{
    atomic_store_explicit(&client->busy[name_hash(name, name_len)], busy, memory_order_relaxed);
}

/* ---- connections that no session uses ---- */

bool redlock_client_keep_nodes(struct redlock_client *client, struct redlock_node *nodes)
{
    bool kept = false;

    (void)pthread_mutex_lock(&client->mutex);
    kept = client->spare_count < REDLOCK_CLIENT_SPARE;
    if (kept) {
        client->spare[client->spare_count] = nodes;
        client->spare_count++;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return kept;
}

struct redlock_node *redlock_client_take_nodes(struct redlock_client *client)
{
    struct redlock_node *nodes = NULL;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->spare_count > 0) {
        client->spare_count--;
        nodes = client->spare[client->spare_count];
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return nodes;
}
