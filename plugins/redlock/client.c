/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <stdlib.h>
#include <string.h>

/* ---- releases that have yet to reach their nodes ---- */

#define PENDING_MAX 512 /* releases a node */

struct redlock_pending_release {
    struct redlock_pending_release *next;
    int64_t due_ns;
    struct redlock_sent_request release;
};

static void pending_init(struct redlock_pending *pending)
{
    (void)pthread_mutex_init(&pending->mutex, NULL);
    for (unsigned i = 0; i < DLOCK_NODE_ERRORS_MAX; i++)
        pending->nodes[i] = (struct redlock_pending_list){.due_ns = INT64_MAX};
}

static void entry_remove(struct redlock_pending_list *list, struct redlock_pending_release **at)
{
    struct redlock_pending_release *entry = *at;

    *at = entry->next;
    list->count--;
    free(entry);
}

static void pending_fini(struct redlock_pending *pending)
{
    for (unsigned i = 0; i < DLOCK_NODE_ERRORS_MAX; i++)
        while (pending->nodes[i].first != NULL)
            entry_remove(&pending->nodes[i], &pending->nodes[i].first);
    (void)pthread_mutex_destroy(&pending->mutex);
}

static bool is_same(const struct redlock_sent_request *one,
                    const struct redlock_sent_request *other)
{
    return one->what == other->what && memcmp(one->token, other->token, sizeof one->token) == 0;
}

static void add_locked(struct redlock_pending_list *list,
                       const struct redlock_sent_request *release, int64_t due_ns)
{
    struct redlock_pending_release **at = &list->first;

    while (*at != NULL && !is_same(&(*at)->release, release))
        at = &(*at)->next;
    if (*at != NULL && (*at)->release.round >= release->round)
        return;
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
        if (*at == NULL)
            return;
        list->count++;
    }
    (*at)->release = *release;
    (*at)->release.round_id = 0; /* its round must not get a second answer */
    (*at)->due_ns = due_ns;
    if (due_ns < list->due_ns)
        list->due_ns = due_ns;
    if (list->count > PENDING_MAX)
        entry_remove(list, &list->first);
}

void redlock_client_pending_add(struct redlock_pending *pending, unsigned node,
                                const struct redlock_sent_request *release, int64_t due_ns)
{
    (void)pthread_mutex_lock(&pending->mutex);
    add_locked(&pending->nodes[node], release, due_ns);
    (void)pthread_mutex_unlock(&pending->mutex);
}

bool redlock_client_pending_take(struct redlock_pending *pending, unsigned node, int64_t now_ns,
                                 struct redlock_sent_request *release)
{
    struct redlock_pending_list *list = &pending->nodes[node];
    struct redlock_pending_release **at = &list->first;
    int64_t due_ns = INT64_MAX;
    bool taken = false;

    if (list->due_ns > now_ns)
        return false;
    (void)pthread_mutex_lock(&pending->mutex);
    for (; *at != NULL && (*at)->due_ns > now_ns; at = &(*at)->next)
        due_ns = (*at)->due_ns < due_ns ? (*at)->due_ns : due_ns;
    taken = *at != NULL;
    if (taken) {
        *release = (*at)->release;
        entry_remove(list, at);
    } else {
        list->due_ns = due_ns;
    }
    (void)pthread_mutex_unlock(&pending->mutex);
    return taken;
}

/* ---- the client ---- */

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
    pending_fini(&client->pending);
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
    pending_init(&client->pending);
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

/* ---- attempts ---- */

void redlock_client_attempt_begin(struct redlock_client *client, struct redlock_attempt *attempt,
                                  const unsigned char *token)
{
    if (attempt->waiter.subscriber != NULL)
        return;
    redlock_client_ref(client); /* after a failure the client may have no session for a while */
    (void)pthread_mutex_lock(&client->subscriber.waiters.mutex);
    resp_subscriber_add_locked(&client->subscriber, &attempt->waiter, token);
    (void)pthread_mutex_unlock(&client->subscriber.waiters.mutex);
}

void redlock_client_attempt_end(struct redlock_attempt *attempt)
{
    struct redlock_client *client = NULL;

    if (attempt->waiter.subscriber == NULL)
        return;
    client = attempt->waiter.subscriber->owner;
    resp_subscriber_remove(&attempt->waiter);
    redlock_client_unref(client);
}

bool redlock_client_attempt_lives(struct redlock_client *client, const unsigned char *token)
{
    return resp_subscriber_has(&client->subscriber, token);
}
