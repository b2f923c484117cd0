/* SPDX-License-Identifier: MIT */
#include "hub_private.h"
#include "lib/deadline_cond.h"
#include "lib/hex.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
    nodes_free(hub, hub->ears);
    for (unsigned i = 0; i < hub->spare_count; i++)
        nodes_free(hub, hub->spare[i]);
    redlock_pending_fini(&hub->pending);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd);
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

static bool hub_fill(struct redlock_hub *hub, const struct dlock_target *target,
                     struct dlock_error *err)
{
    unsigned char id[DLOCK_TOKEN_SIZE];
    char hex[RESP_HEX_SIZE];

    if (redlock_place_init(&hub->place, target, err) != DLOCK_OK)
        return false;
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (hub->wake_fd < 0 || hub->host->random(hub->host->ctx, id, sizeof id) != 0) {
        (void)redlock_fail(err, &hub->place, DLOCK_NOMEM, "no descriptor, or no random bytes");
        return false;
    }
    dl_hex_encode(hex, id, DLOCK_TOKEN_SIZE);
    (void)snprintf(hub->channel, sizeof hub->channel, "%s%s", hub->place.nodes[0].prefix, hex);
    return certificates_load(hub, err);
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
    hub->wake_fd = -1;
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
    for (unsigned i = 0; hub->ears != NULL && i < hub->place.count; i++)
        redlock_node_leave(&hub->ears[i]);
    for (unsigned at = 0; at < hub->spare_count; at++)
        for (unsigned i = 0; i < hub->place.count; i++)
            redlock_node_leave(&hub->spare[at][i]);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd);
    hub->wake_fd = -1;
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

struct redlock_attempt **redlock_hub_bucket(struct redlock_hub *hub, const unsigned char *token)
{
    return &hub->attempts[token[0] % HUB_BUCKETS];
}

static void attempt_list(struct redlock_hub *hub, struct redlock_attempt *attempt,
                         const unsigned char *token)
{
    struct redlock_attempt **bucket = redlock_hub_bucket(hub, token);

    (void)dl_deadline_cond_init(&attempt->wake);
    memcpy(attempt->token, token, sizeof attempt->token);
    attempt->hub = hub;
    attempt->next = *bucket;
    *bucket = attempt;
}

void redlock_hub_begin(struct redlock_hub *hub, struct redlock_attempt *attempt,
                       const unsigned char *token)
{
    if (attempt->hub != NULL)
        return;
    registry_lock(); /* after a failure there may be no session for a while */
    hub->users++;
    registry_unlock();
    (void)pthread_mutex_lock(&hub->mutex);
    attempt_list(hub, attempt, token);
    (void)pthread_mutex_unlock(&hub->mutex);
}

void redlock_hub_end(struct redlock_attempt *attempt)
{
    struct redlock_hub *hub = attempt->hub;
    struct redlock_attempt **at = NULL;

    if (hub == NULL)
        return;
    (void)pthread_mutex_lock(&hub->mutex);
    for (at = redlock_hub_bucket(hub, attempt->token); *at != attempt; at = &(*at)->next)
        ;
    *at = attempt->next;
    attempt->hub = NULL;
    (void)pthread_cond_destroy(&attempt->wake);
    (void)pthread_mutex_unlock(&hub->mutex);
    redlock_hub_leave(hub);
}

bool redlock_hub_lives(struct redlock_hub *hub, const unsigned char *token)
{
    const struct redlock_attempt *attempt = NULL;

    (void)pthread_mutex_lock(&hub->mutex);
    attempt = *redlock_hub_bucket(hub, token);
    while (attempt != NULL && memcmp(attempt->token, token, DLOCK_TOKEN_SIZE) != 0)
        attempt = attempt->next;
    (void)pthread_mutex_unlock(&hub->mutex);
    return attempt != NULL;
}
