/* SPDX-License-Identifier: MIT */
#include "waiter.h"
#include "config.h"
#include "resp/error.h"
#include "resp/reply.h"
#include "resp/secret.h"

#include <stdlib.h>

struct redis_waiter {
    struct resp_waiter base; /* the first member; its mutex guards the rest */
    bool unheard;            /* no subscription at the last request: a grant may be missed */
    uint64_t counter;        /* the last fence in the last answer "queued" [WAT-4] */
    uint64_t fence;          /* of the last grant that arrived; 0: none */
    int64_t lease_ms;        /* of the same grant */
};

/* ---- the leader ---- */

static enum dlock_status read_secret(struct resp_subscriber *subscriber, unsigned server,
                                     char **secret, struct dlock_error *err)
{
    (void)server;
    return resp_secret_read(subscriber->target, REDIS_ORIGIN, secret, err);
}

/* " <fence> <lease>". With the mutex. */
static void on_message(struct resp_waiter *base, unsigned server, const char *text)
{
    struct redis_waiter *waiter = (struct redis_waiter *)base;
    char *end = NULL;
    uint64_t fence = 0;
    int64_t lease_ms = 0;

    (void)server;
    if (*text != ' ')
        return;
    fence = strtoull(text + 1, &end, 10);
    if (*end != ' ')
        return;
    lease_ms = strtoll(end + 1, &end, 10);
    if (*end != '\0' || base->base.interrupted || fence <= waiter->fence || lease_ms <= 0 ||
        lease_ms > RESP_LEASE_MAX_MS)
        return;
    waiter->fence = fence;
    waiter->lease_ms = lease_ms;
}

const struct resp_subscriber_user redis_waiter_user = {read_secret, on_message};

/* ---- waiters ---- */

bool redis_waiter_expect(struct resp_subscriber *subscriber, struct redis_slot *slot,
                         const unsigned char *token)
{
    struct redis_waiter *waiter = slot->waiter;

    if (waiter == NULL)
        waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL)
        return false;
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    if (slot->waiter == NULL) {
        resp_subscriber_add_locked(subscriber, &waiter->base, token);
        waiter->base.base.interrupted = slot->interrupted;
        slot->waiter = waiter;
    }
    resp_subscriber_catch_up_locked(subscriber);
    waiter->unheard = subscriber->subscribed == 0;
    waiter->base.recheck = 0;
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
    return true;
}

void redis_waiter_queued(struct resp_subscriber *subscriber, struct redis_slot *slot,
                         uint64_t counter)
{
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    slot->waiter->counter = counter;
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

void redis_waiter_free(struct redis_slot *slot)
{
    struct redis_waiter *waiter = slot->waiter;

    slot->waiter = NULL;
    if (waiter == NULL)
        return;
    resp_subscriber_remove(&waiter->base);
    free(waiter);
}

void redis_waiter_interrupt(struct resp_subscriber *subscriber, struct redis_slot *slot)
{
    struct redis_waiter *waiter = NULL;

    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    slot->interrupted = true;
    waiter = slot->waiter;
    if (waiter != NULL)
        resp_subscriber_interrupt_locked(subscriber, &waiter->base);
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

/* ---- watching ---- */

/* The status with which the wait ends. INTERNAL: it goes on. A request that was sent without a
 * subscription is repeated when the subscription begins; any other request when it ends or begins.
 */
static enum dlock_status verdict(const struct resp_subscriber *subscriber,
                                 struct redis_waiter *waiter, struct dlock_grant *grant)
{
    bool subscribed = subscriber->subscribed != 0;

    if (waiter->fence > waiter->counter) {
        grant->fence = waiter->fence;
        grant->fence_room = REDIS_FENCE_ROOM;
        grant->lease_ms = waiter->lease_ms;
        waiter->counter = waiter->fence; /* a grant is reported once */
        return DLOCK_OK;
    }
    if (waiter->base.base.interrupted)
        return DLOCK_CANCELED;
    if (waiter->unheard ? subscribed : waiter->base.recheck != 0)
        return DLOCK_BUSY;
    return DLOCK_INTERNAL;
}

static enum dlock_status watch_locked(struct resp_subscriber *subscriber,
                                      const struct dlock_request *req, struct dlock_grant *grant)
{
    const struct redis_slot *slot = req->attempt;
    const struct resp_config *config = subscriber->owner;
    struct redis_waiter *waiter = slot->waiter;
    enum dlock_status status = DLOCK_INTERNAL;

    if (waiter == NULL)
        return slot->interrupted ? DLOCK_CANCELED : DLOCK_UNAVAILABLE;
    waiter->base.base.watching = true;
    while ((status = verdict(subscriber, waiter, grant)) == DLOCK_INTERNAL) {
        if (subscriber->host->now_ns(subscriber->host->ctx) >= req->deadline_ns) {
            status = DLOCK_TIMEOUT;
            break;
        }
        resp_subscriber_sleep_locked(subscriber, &waiter->base, config->target, req->deadline_ns);
    }
    waiter->base.base.watching = false;
    if (status == DLOCK_OK)
        grant->lease_ms = resp_reply_lease_ms(grant->lease_ms, req->ttl_ms);
    resp_subscriber_hand_over_locked(subscriber);
    return status;
}

enum dlock_status redis_waiter_watch(struct resp_subscriber *subscriber,
                                     const struct dlock_request *req, struct dlock_grant *grant,
                                     struct dlock_error *err)
{
    const struct resp_config *config = subscriber->owner;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    status = watch_locked(subscriber, req, grant);
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
    if (status == DLOCK_UNAVAILABLE)
        return resp_error_fail(config, err, status, "nothing tells of grants: no queue entry");
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        return resp_error_fail(config, err, status, "the wait ended before the name was granted");
    return status;
}
