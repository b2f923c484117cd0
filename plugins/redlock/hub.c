/* SPDX-License-Identifier: MIT */
#include "hub.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HUB_SPARE 4
#define HUB_NAMES 256 /* a power of 2 */

struct redlock_hub {
    struct redlock_hub *next;      /* under the registry's mutex, as users */
    unsigned users;                /* sessions and attempts */
    const struct dlock_host *host; /* the client [HST-1] */
    struct redlock_place place;
    struct tls *tls;
    struct redlock_pending pending;
    struct resp_subscriber subscriber;
    _Atomic unsigned char busy[HUB_NAMES]; /* by names' hashes; a hint */
    _Atomic bool opened;                   /* by redlock_hub_first */

    pthread_mutex_t mutex; /* guards the rest */
    struct redlock_node *spare[HUB_SPARE];
    _Atomic unsigned spare_count; /* a forked child looks at them without the mutex */
};

static struct redlock_hub *hubs; /* of this process; under registry_mutex */
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

/* A child's clients may be where the parent's were: nothing of them may be found. */
static void registry_child(void)
{
    (void)pthread_mutex_init(&registry_mutex, NULL);
    hubs = NULL;
}

static void registry_lock(void)
{
    (void)pthread_mutex_lock(&registry_mutex);
}

static void registry_unlock(void)
{
    (void)pthread_mutex_unlock(&registry_mutex);
}

static void registry_start(void)
{
    (void)pthread_atfork(registry_lock, registry_unlock, registry_child);
}

/* ---- one hub ---- */

static void nodes_free(const struct redlock_hub *hub, struct redlock_node *nodes)
{
    for (unsigned i = 0; nodes != NULL && i < hub->place.count; i++)
        redlock_node_close(&nodes[i]);
    free(nodes);
}

static void hub_free(struct redlock_hub *hub)
{
    resp_subscriber_fini(&hub->subscriber);
    for (unsigned i = 0; i < hub->spare_count; i++)
        nodes_free(hub, hub->spare[i]);
    redlock_pending_fini(&hub->pending);
    tls_free(hub->tls);
    redlock_place_free(&hub->place);
    (void)pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

/* The certificates, if any node wants them. */
static bool certificates_load(struct redlock_hub *hub, struct dlock_error *err)
{
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_OK;

    for (unsigned i = 0; i < hub->place.count && hub->tls == NULL; i++) {
        if (!hub->place.nodes[i].secure)
            continue;
        hub->tls = tls_new(&hub->place.nodes[i].tls, &status, why, sizeof why);
        if (hub->tls == NULL) {
            (void)redlock_fail(err, &hub->place, status, "%s", why);
            return false;
        }
    }
    return true;
}

static enum dlock_status read_secret(struct resp_subscriber *subscriber, unsigned node,
                                     char **secret, struct dlock_error *err)
{
    const struct redlock_hub *hub = subscriber->owner;

    return redlock_place_secret(&hub->place, node, subscriber->target, secret, err);
}

/* It is the turn of this waiter. */
static void on_message(struct resp_waiter *waiter, unsigned node, const char *text)
{
    (void)text;
    waiter->recheck |= 1u << node;
}

static bool hub_fill(struct redlock_hub *hub, const struct dlock_target *target,
                     struct dlock_error *err)
{
    static const struct resp_subscriber_user user = {read_secret, on_message};

    hub->subscriber.user = &user;
    hub->subscriber.owner = hub;
    return redlock_place_init(&hub->place, target, err) == DLOCK_OK &&
           certificates_load(hub, err) &&
           resp_subscriber_init(&hub->subscriber, hub->place.nodes, hub->place.count, hub->tls,
                                hub->host, err) == DLOCK_OK;
}

static struct redlock_hub *hub_new(const struct dlock_host *host, const struct dlock_target *target,
                                   struct dlock_error *err)
{
    struct redlock_hub *hub = calloc(1, sizeof *hub);

    if (hub == NULL) {
        (void)dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a client");
        return NULL;
    }
    (void)pthread_mutex_init(&hub->mutex, NULL);
    redlock_pending_init(&hub->pending);
    hub->host = host;
    if (hub_fill(hub, target, err))
        return hub;
    hub_free(hub);
    return NULL;
}

struct redlock_hub *redlock_hub_join(const struct dlock_host *host,
                                     const struct dlock_target *target, struct dlock_error *err)
{
    struct redlock_hub *hub = NULL;

    (void)pthread_once(&registry_once, registry_start);
    registry_lock();
    for (hub = hubs; hub != NULL && hub->host != host; hub = hub->next)
        ;
    if (hub == NULL) {
        hub = hub_new(host, target, err);
        if (hub != NULL) {
            hub->next = hubs;
            hubs = hub;
        }
    }
    if (hub != NULL)
        hub->users++;
    registry_unlock();
    return hub;
}

void redlock_hub_leave(struct redlock_hub *hub)
{
    struct redlock_hub **at = &hubs;
    bool last = false;

    registry_lock();
    last = --hub->users == 0;
    while (last && *at != hub)
        at = &(*at)->next;
    if (last)
        *at = hub->next;
    registry_unlock();
    if (last)
        hub_free(hub);
}

void redlock_hub_abandon(struct redlock_hub *hub)
{
    resp_subscriber_after_fork(&hub->subscriber);
    for (unsigned at = 0; at < hub->spare_count; at++)
        for (unsigned i = 0; i < hub->place.count; i++)
            resp_connection_after_fork(&hub->spare[at][i].connection);
}

bool redlock_hub_first(struct redlock_hub *hub)
{
    return !atomic_exchange(&hub->opened, true);
}

const struct redlock_place *redlock_hub_place(const struct redlock_hub *hub)
{
    return &hub->place;
}

struct redlock_pending *redlock_hub_pending(struct redlock_hub *hub)
{
    return &hub->pending;
}

const struct tls *redlock_hub_tls(const struct redlock_hub *hub)
{
    return hub->tls;
}

/* ---- names ---- */

/* FNV-1a */
static size_t name_hash(const unsigned char *name, uint32_t name_len)
{
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < name_len; i++)
        hash = (hash ^ name[i]) * 16777619u;
    return hash % HUB_NAMES;
}

bool redlock_hub_was_busy(struct redlock_hub *hub, const unsigned char *name, uint32_t name_len)
{
    return atomic_load_explicit(&hub->busy[name_hash(name, name_len)], memory_order_relaxed) != 0;
}

void redlock_hub_note_busy(struct redlock_hub *hub, const unsigned char *name, uint32_t name_len,
                           bool busy)
{
    atomic_store_explicit(&hub->busy[name_hash(name, name_len)], busy, memory_order_relaxed);
}

/* ---- connections of sessions that sleep ---- */

bool redlock_hub_keep(struct redlock_hub *hub, struct redlock_node *nodes)
{
    bool kept = false;

    (void)pthread_mutex_lock(&hub->mutex);
    kept = hub->spare_count < HUB_SPARE;
    if (kept) {
        hub->spare[hub->spare_count] = nodes;
        hub->spare_count++;
    }
    (void)pthread_mutex_unlock(&hub->mutex);
    return kept;
}

struct redlock_node *redlock_hub_take(struct redlock_hub *hub)
{
    struct redlock_node *nodes = NULL;

    (void)pthread_mutex_lock(&hub->mutex);
    if (hub->spare_count > 0) {
        hub->spare_count--;
        nodes = hub->spare[hub->spare_count];
    }
    (void)pthread_mutex_unlock(&hub->mutex);
    return nodes;
}

/* ---- attempts ---- */

struct resp_subscriber *redlock_hub_subscriber(struct redlock_hub *hub)
{
    return &hub->subscriber;
}

void redlock_hub_begin(struct redlock_hub *hub, struct redlock_attempt *attempt,
                       const unsigned char *token)
{
    if (attempt->waiter.subscriber != NULL)
        return;
    registry_lock(); /* after a failure there may be no session for a while */
    hub->users++;
    registry_unlock();
    (void)pthread_mutex_lock(&hub->subscriber.mutex);
    resp_subscriber_add_locked(&hub->subscriber, &attempt->waiter, token);
    (void)pthread_mutex_unlock(&hub->subscriber.mutex);
}

void redlock_hub_end(struct redlock_attempt *attempt)
{
    struct redlock_hub *hub = NULL;

    if (attempt->waiter.subscriber == NULL)
        return;
    hub = attempt->waiter.subscriber->owner;
    resp_subscriber_remove(&attempt->waiter);
    redlock_hub_leave(hub);
}

bool redlock_hub_lives(struct redlock_hub *hub, const unsigned char *token)
{
    return resp_subscriber_has(&hub->subscriber, token);
}
