/* SPDX-License-Identifier: MIT */
#include "hub_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static struct redis_hub *hubs; /* of this process; under registry_mutex */
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

static void hub_free(struct redis_hub *hub)
{
    redis_link_close(&hub->link);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd);
    tls_free(hub->tls);
    (void)pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

static struct redis_hub *hub_new(const struct dlock_host *host, const struct redis_place *place,
                                 struct dlock_error *err)
{
    struct redis_hub *hub = calloc(1, sizeof *hub);
    unsigned char id[DLOCK_TOKEN_SIZE];
    char hex[REDIS_HEX_SIZE], why[160];

    if (hub == NULL || host->random(host->ctx, id, sizeof id) != 0) {
        free(hub);
        (void)redis_fail(place, err, DLOCK_NOMEM, "no memory, or no random bytes");
        return NULL;
    }
    (void)pthread_mutex_init(&hub->mutex, NULL);
    hub->host = host;
    hub->place = *place;
    redis_hex(hex, id);
    (void)snprintf(hub->channel, sizeof hub->channel, "%s%s", place->prefix, hex);
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (hub->wake_fd < 0) {
        (void)redis_fail(place, err, DLOCK_NOMEM, "no descriptor for an event");
    } else if (place->secure) {
        hub->tls = tls_new(&place->tls, why, sizeof why);
        if (hub->tls == NULL)
            (void)redis_fail(place, err, DLOCK_INVALID, "%s", why);
    }
    if (hub->wake_fd >= 0 && (!place->secure || hub->tls != NULL))
        return hub;
    hub_free(hub);
    return NULL;
}

struct redis_hub *redis_hub_join(const struct dlock_host *host, const struct redis_place *place,
                                 struct dlock_error *err)
{
    struct redis_hub *hub = NULL;

    (void)pthread_once(&registry_once, registry_start);
    registry_lock();
    for (hub = hubs; hub != NULL && hub->host != host; hub = hub->next)
        ;
    if (hub == NULL) {
        hub = hub_new(host, place, err);
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

void redis_hub_leave(struct redis_hub *hub)
{
    struct redis_hub **at = &hubs;
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

void redis_hub_abandon(struct redis_hub *hub)
{
    redis_link_leave(&hub->link);
    hub->link.stream.fd = -1;
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd);
    hub->wake_fd = -1;
}

const struct tls *redis_hub_tls(const struct redis_hub *hub)
{
    return hub->tls;
}

/* ---- waiters ---- */

/* Uses the hub: after a failure there may be no session for a while. */
static void hub_hold(struct redis_hub *hub)
{
    registry_lock();
    hub->users++;
    registry_unlock();
}

static void waiter_list(struct redis_hub *hub, struct redis_waiter *waiter,
                        const unsigned char *token)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waiter->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    redis_hex(waiter->token, token);
    waiter->hub = hub;
    waiter->next = hub->waiters;
    hub->waiters = waiter;
}

const char *redis_hub_expect(struct redis_hub *hub, struct redis_waiter *waiter,
                             const unsigned char *token)
{
    bool is_new = waiter->hub == NULL;

    if (is_new)
        hub_hold(hub);
    (void)pthread_mutex_lock(&hub->mutex);
    if (is_new)
        waiter_list(hub, waiter, token);
    redis_hub_drain(hub);
    waiter->round = hub->up ? hub->round : 0;
    (void)pthread_mutex_unlock(&hub->mutex);
    return hub->channel;
}

void redis_hub_queued(struct redis_hub *hub, struct redis_waiter *waiter, uint64_t counter)
{
    (void)pthread_mutex_lock(&hub->mutex);
    waiter->seen = counter;
    (void)pthread_mutex_unlock(&hub->mutex);
}

void redis_hub_forget(struct redis_waiter *waiter)
{
    struct redis_hub *hub = waiter->hub;
    struct redis_waiter **at = NULL;

    if (hub == NULL)
        return;
    (void)pthread_mutex_lock(&hub->mutex);
    for (at = &hub->waiters; *at != waiter; at = &(*at)->next)
        ;
    *at = waiter->next;
    waiter->hub = NULL;
    (void)pthread_cond_destroy(&waiter->wake);
    (void)pthread_mutex_unlock(&hub->mutex);
    redis_hub_leave(hub);
}

void redis_hub_interrupt(struct redis_hub *hub, struct redis_waiter *waiter)
{
    static const uint64_t one = 1;

    (void)pthread_mutex_lock(&hub->mutex);
    waiter->interrupted = true;
    if (waiter->reading)
        (void)!write(hub->wake_fd, &one, sizeof one);
    else if (waiter->watching)
        (void)pthread_cond_signal(&waiter->wake);
    (void)pthread_mutex_unlock(&hub->mutex);
}
