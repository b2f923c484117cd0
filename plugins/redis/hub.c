/* SPDX-License-Identifier: MIT */
#include "hub_private.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum dlock_status redis_hub_init(struct redis_hub *hub, const struct dlock_host *host,
                                 const struct redis_place *place, const struct tls *tls,
                                 struct dlock_error *err)
{
    unsigned char id[DLOCK_TOKEN_SIZE];
    char hex[REDIS_HEX_SIZE];

    (void)pthread_mutex_init(&hub->mutex, NULL);
    hub->host = host;
    hub->place = place;
    hub->tls = tls;
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (hub->wake_fd < 0 || host->random(host->ctx, id, sizeof id) != 0)
        return redis_fail(place, err, DLOCK_NOMEM,
                          "no descriptor for an event, or no random bytes");
    redis_hex(hex, id);
    (void)snprintf(hub->channel, sizeof hub->channel, "%s%s", place->prefix, hex);
    return DLOCK_OK;
}

static void waiter_unlist(struct redis_waiter *waiter)
{
    waiter->hub = NULL;
    (void)pthread_cond_destroy(&waiter->wake);
}

void redis_hub_fini(struct redis_hub *hub)
{
    if (hub->host == NULL)
        return;
    for (struct redis_waiter *waiter = hub->waiters; waiter != NULL; waiter = waiter->next)
        waiter_unlist(waiter);
    redis_link_close(&hub->link);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd);
    (void)pthread_mutex_destroy(&hub->mutex);
}

void redis_hub_abandon(struct redis_hub *hub)
{
    if (hub->host == NULL)
        return;
    redis_link_leave(&hub->link);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd);
}

/* ---- waiters ---- */

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
    (void)pthread_mutex_lock(&hub->mutex);
    if (waiter->hub == NULL)
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
    waiter_unlist(waiter);
    (void)pthread_mutex_unlock(&hub->mutex);
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
