/* SPDX-License-Identifier: MIT */
#include "hub_private.h"
#include "lib/deadline_cond.h"
#include "lib/hex.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum dlock_status redis_hub_init(struct redis_hub *hub, const struct dlock_host *host,
                                 const struct resp_config *place, const struct tls *tls,
                                 struct dlock_error *err)
{
    unsigned char id[DLOCK_TOKEN_SIZE];
    char hex[RESP_HEX_SIZE];

    (void)pthread_mutex_init(&hub->mutex, NULL);
    hub->host = host;
    hub->place = place;
    hub->tls = tls;
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (hub->wake_fd < 0 || host->random(host->ctx, id, sizeof id) != 0)
        return resp_error_fail(place, err, DLOCK_NOMEM,
                               "no descriptor for an event, or no random bytes");
    dl_hex_encode(hex, id, DLOCK_TOKEN_SIZE);
    (void)snprintf(hub->channel, sizeof hub->channel, "%s%s", place->prefix, hex);
    return DLOCK_OK;
}

/* In a slot without a place: it was interrupted, which must not be forgotten [INT-2]. */
static struct redis_waiter interrupted_only = {.interrupted = true};

static void waiter_free(struct redis_waiter *waiter)
{
    if (waiter == NULL)
        return;
    (void)pthread_cond_destroy(&waiter->wake);
    free(waiter);
}

void redis_hub_fini(struct redis_hub *hub)
{
    if (hub->host == NULL)
        return;
    for (struct redis_waiter *waiter = hub->waiters; waiter != NULL; waiter = waiter->next)
        waiter->hub = NULL;
    waiter_free(hub->spare);
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

static struct redis_waiter *waiter_new(void)
{
    struct redis_waiter *waiter = calloc(1, sizeof *waiter);

    if (waiter == NULL)
        return NULL;
    (void)dl_deadline_cond_init(&waiter->wake);
    return waiter;
}

/* A lock that is free at once takes the spare one and gives it back. */
static struct redis_waiter *waiter_list(struct redis_hub *hub, const unsigned char *token)
{
    struct redis_waiter *waiter = hub->spare != NULL ? hub->spare : waiter_new();

    if (waiter == NULL)
        return NULL;
    hub->spare = NULL;
    dl_hex_encode(waiter->token, token, DLOCK_TOKEN_SIZE);
    waiter->interrupted = waiter->watching = waiter->reading = false;
    waiter->round = waiter->seen = waiter->fence = 0;
    waiter->hub = hub;
    waiter->next = hub->waiters;
    waiter->at = &hub->waiters;
    if (waiter->next != NULL)
        waiter->next->at = &waiter->next;
    hub->waiters = waiter;
    return waiter;
}

static void waiter_unlist(struct redis_hub *hub, struct redis_waiter *waiter)
{
    *waiter->at = waiter->next;
    if (waiter->next != NULL)
        waiter->next->at = waiter->at;
    if (hub->spare == NULL)
        hub->spare = waiter;
    else
        waiter_free(waiter);
}

const char *redis_hub_expect(struct redis_hub *hub, struct redis_slot *slot,
                             const unsigned char *token)
{
    const char *channel = NULL;
    bool interrupted = slot->waiter == &interrupted_only;

    (void)pthread_mutex_lock(&hub->mutex);
    if (slot->waiter == NULL || interrupted)
        slot->waiter = waiter_list(hub, token);
    if (slot->waiter != NULL) {
        slot->waiter->interrupted |= interrupted;
        redis_hub_drain(hub);
        slot->waiter->round = hub->up ? hub->round : 0;
        channel = hub->channel;
    }
    (void)pthread_mutex_unlock(&hub->mutex);
    return channel;
}

void redis_hub_queued(struct redis_hub *hub, struct redis_slot *slot, uint64_t counter)
{
    (void)pthread_mutex_lock(&hub->mutex);
    slot->waiter->seen = counter;
    (void)pthread_mutex_unlock(&hub->mutex);
}

void redis_hub_forget(struct redis_slot *slot)
{
    struct redis_waiter *waiter = slot->waiter;
    struct redis_hub *hub = NULL;

    slot->waiter = NULL;
    if (waiter == NULL || waiter == &interrupted_only)
        return;
    hub = waiter->hub;
    if (hub == NULL) {
        waiter_free(waiter);
        return;
    }
    (void)pthread_mutex_lock(&hub->mutex);
    waiter_unlist(hub, waiter);
    (void)pthread_mutex_unlock(&hub->mutex);
}

void redis_hub_interrupt(struct redis_hub *hub, struct redis_slot *slot)
{
    static const uint64_t one = 1;
    struct redis_waiter *waiter = NULL;

    (void)pthread_mutex_lock(&hub->mutex);
    if (slot->waiter == NULL)
        slot->waiter = &interrupted_only;
    waiter = slot->waiter;
    if (waiter != &interrupted_only)
        waiter->interrupted = true;
    if (waiter->reading)
        (void)!write(hub->wake_fd, &one, sizeof one);
    else if (waiter->watching)
        (void)pthread_cond_signal(&waiter->wake);
    (void)pthread_mutex_unlock(&hub->mutex);
}
