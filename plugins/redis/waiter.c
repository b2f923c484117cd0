/* SPDX-License-Identifier: MIT */
#include "waiter.h"
#include "redis/guard/guard.h"
#include "redis/link/config.h"
#include "redis/servers/cluster.h"
#include "redis/servers/sentinels.h"
#include "redis/servers/session.h"
#include "resp/config.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

struct redis_waiter {
    struct resp_waiter base; /* the first member; its mutex guards the rest */
    bool unheard;            /* no subscription at the last request: a grant may be missed */
    uint64_t counter;        /* the last fence in the last answer "queued" [WAT-4] */
    uint64_t fence;          /* of the last grant that arrived; 0: none */
    int64_t lease_ms;        /* of the same grant */
    uint32_t permit;         /* ... if it is of a semaphore */
    char granted_by[REDIS_REPLID_SIZE]; /* the promotion that the same grant names; "": none */
    char queued_by[REDIS_REPLID_SIZE];  /* of the last answer "queued" */
};

/* ---- the leader ---- */

static enum dlock_status read_secret(struct resp_subscriber *subscriber, unsigned server,
                                     char **secret, struct dlock_error *err)
{
    (void)server;
    return resp_config_read_secret(subscriber->target, REDIS_ORIGIN, secret, err);
}

/* [FO-9] The grant is one of the server that answered "queued". */
static bool is_of(const struct redis_waiter *waiter, const char *promotion)
{
    return waiter->queued_by[0] == '\0' || strcmp(promotion, waiter->queued_by) == 0;
}

/* The rest of a message: "", or " @<promotion>". NULL: neither. */
static const char *promotion_read(const char *rest)
{
    if (*rest == '\0')
        return rest;
    return strncmp(rest, " @", 2) == 0 && strlen(rest + 2) < REDIS_REPLID_SIZE ? rest + 2 : NULL;
}

/* " <fence> <lease>", then " <permit>" of a semaphore, then with the failover guard
 * " @<promotion>"; or " ?": ask. With the mutex. */
static void on_message(struct resp_waiter *base, unsigned server, const char *text)
{
    struct redis_waiter *waiter = (struct redis_waiter *)base;
    char *end = NULL;
    uint64_t fence = 0;
    int64_t lease_ms = 0;
    uint64_t permit = 0;
    const char *promotion = NULL;

    if (strcmp(text, " ?") == 0)
        base->recheck |= 1u << server;
    if (*text != ' ')
        return;
    fence = strtoull(text + 1, &end, 10);
    if (*end != ' ')
        return;
    lease_ms = strtoll(end + 1, &end, 10);
    if (*end == ' ' && end[1] != '@')
        permit = strtoull(end + 1, &end, 10);
    promotion = promotion_read(end);
    if (permit > REDIS_LIMIT_MAX || promotion == NULL || !is_of(waiter, promotion) ||
        base->base.interrupted || fence <= waiter->fence || lease_ms <= 0 ||
        lease_ms > RESP_LEASE_MAX_MS)
        return;
    waiter->fence = fence;
    waiter->lease_ms = lease_ms;
    waiter->permit = (uint32_t)permit;
    (void)snprintf(waiter->granted_by, sizeof waiter->granted_by, "%s", promotion);
}

/* Any server of a cluster brings the messages: when one fails, the next connection goes to the next
 * one. */
static void subscribe_elsewhere(struct redis_session *session)
{
    struct resp_config *config = &session->subscriber_config;
    struct redis_shard *shard = NULL;

    if (!resp_subscriber_is_down(&session->subscriber, 0))
        return;
    shard = redis_cluster_master(session->cluster, session->subscriber_next++);
    if (shard == NULL) {
        session->subscriber_next = 0;
        shard = redis_cluster_master(session->cluster, 0);
    }
    if (shard == NULL)
        return;
    config->address = shard->config.address;
    redis_cluster_put(session->cluster, shard);
    address_format(&config->address, config->endpoint, sizeof config->endpoint);
}

/* The connections for requests find the master; the subscription follows them. */
static bool moved(struct resp_subscriber *subscriber, unsigned server)
{
    struct redis_session *session = subscriber->owner;
    struct resp_config *config = &session->subscriber_config;

    (void)server;
    if (session->cluster != NULL)
        subscribe_elsewhere(session);
    if (session->sentinels == NULL ||
        !redis_sentinels_moved(session->sentinels, &session->subscriber_version, &config->address))
        return false;
    address_format(&config->address, config->endpoint, sizeof config->endpoint);
    return true;
}

const struct resp_subscriber_user redis_waiter_user = {read_secret, on_message, moved};

/* ---- waiters ---- */

bool redis_waiter_expect(struct resp_subscriber *subscriber, const struct dlock_request *req)
{
    struct redis_slot *slot = req->attempt;
    struct redis_waiter *waiter = slot->waiter;

    if (waiter == NULL)
        waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL)
        return false;
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    if (slot->waiter == NULL) {
        resp_subscriber_add_locked(subscriber, &waiter->base, req->token);
        waiter->base.base.interrupted = slot->interrupted;
        waiter->base.base.number = req->waiter;
        slot->waiter = waiter;
    }
    resp_subscriber_catch_up_locked(subscriber);
    waiter->unheard = subscriber->subscribed == 0;
    waiter->base.recheck = 0;
    waiters_news_clear_locked(&waiter->base.base);
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
    return true;
}

void redis_waiter_queued(struct resp_subscriber *subscriber, struct redis_slot *slot,
                         uint64_t counter, const char *promotion)
{
    struct redis_waiter *waiter = slot->waiter;

    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    waiter->counter = counter;
    (void)snprintf(waiter->queued_by, sizeof waiter->queued_by, "%s", promotion);
    if (!is_of(waiter, waiter->granted_by))
        waiter->fence = 0; /* it came before this answer */
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
        grant->permit = waiter->permit;
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
    const struct redis_session *session = subscriber->owner;
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
        resp_subscriber_sleep_locked(subscriber, &waiter->base.base, session->config.target,
                                     req->deadline_ns);
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
    const struct redis_session *session = subscriber->owner;
    const struct resp_config *config = &session->config;
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

enum dlock_status redis_waiter_any(struct resp_subscriber *subscriber, uint32_t *numbers,
                                   size_t *count, int64_t deadline_ns, struct dlock_error *err)
{
    const struct redis_session *session = subscriber->owner;
    struct waiters *waiters = &subscriber->waiters;
    size_t room = *count;
    bool interrupted = false, over = false;

    (void)pthread_mutex_lock(&waiters->mutex);
    resp_subscriber_advance_locked(subscriber, session->config.target);
    waiters->any.watching = true;
    while (!over) {
        interrupted = waiters->any.interrupted;
        waiters->any.interrupted = false;
        *count = waiters_news_take_locked(waiters, numbers, room);
        over = *count > 0 || interrupted ||
               subscriber->host->now_ns(subscriber->host->ctx) >= deadline_ns;
        if (!over)
            resp_subscriber_sleep_locked(subscriber, &waiters->any, session->config.target,
                                         deadline_ns);
    }
    waiters->any.watching = false;
    resp_subscriber_hand_over_locked(subscriber);
    (void)pthread_mutex_unlock(&waiters->mutex);
    if (*count > 0)
        return DLOCK_OK;
    return resp_error_fail(&session->config, err, interrupted ? DLOCK_CANCELED : DLOCK_TIMEOUT,
                           "the watch ended before a name was granted");
}
