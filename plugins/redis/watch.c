/* SPDX-License-Identifier: MIT */
/* Waiting for a grant: one thread reads for all who wait in a client. */
#include "hub_private.h"
#include "lib/deadline_cond.h"
#include "lib/time.h"

/* OK, or how the wait ends. INTERNAL: it does not. */
static enum dlock_status verdict(struct redis_hub *hub, struct redis_waiter *waiter,
                                 struct dlock_grant *grant)
{
    if (waiter->fence > waiter->seen) {
        grant->fence = waiter->fence;
        grant->fence_room = REDIS_FENCE_ROOM;
        grant->lease_ms = waiter->lease_ms;
        waiter->seen = waiter->fence; /* told once */
        return DLOCK_OK;
    }
    if (waiter->interrupted)
        return DLOCK_CANCELED;
    if (!hub->up || waiter->round != hub->round)
        return DLOCK_BUSY;
    return DLOCK_INTERNAL;
}

static enum dlock_status wait_locked(struct redis_hub *hub, struct redis_waiter *waiter,
                                     int64_t deadline_ns, struct dlock_grant *grant)
{
    for (;;) {
        enum dlock_status status = verdict(hub, waiter, grant);
        int64_t left_ns = deadline_ns - hub->host->now_ns(hub->host->ctx);

        if (status != DLOCK_INTERNAL)
            return status;
        if (left_ns <= 0)
            return DLOCK_TIMEOUT;
        if (hub->reading) {
            dl_deadline_cond_wait(&waiter->wake, &hub->mutex, left_ns);
            continue;
        }
        waiter->reading = true;
        redis_hub_read(hub, deadline_ns);
        waiter->reading = false;
    }
}

/*
 * Nobody can tell now. It says nothing about the session, so that it is not UNAVAILABLE, which
 * would end that and all that idle with it, once for each waiter and look. BUSY: somebody can tell
 * now.
 */
static enum dlock_status wait_untold(struct redis_hub *hub, struct redis_waiter *waiter,
                                     int64_t deadline_ns, struct dlock_grant *grant)
{
    for (;;) {
        enum dlock_status status = verdict(hub, waiter, grant);
        int64_t left_ns = deadline_ns - hub->host->now_ns(hub->host->ctx);

        if (status != DLOCK_BUSY || hub->up)
            return status;
        if (left_ns <= 0)
            return DLOCK_TIMEOUT;
        dl_deadline_cond_wait(&waiter->wake, &hub->mutex, left_ns);
    }
}

/* Whoever was not subscribed when asking may have been granted the name unheard. */
static enum dlock_status watch_locked(struct redis_hub *hub, const struct dlock_request *req,
                                      struct dlock_grant *grant)
{
    const struct redis_slot *slot = req->attempt;
    struct redis_waiter *waiter = slot->waiter;
    int64_t now_ns = hub->host->now_ns(hub->host->ctx);
    int64_t connect_by_ns = now_ns + req->op_timeout_ms * DL_NS_PER_MS;
    enum dlock_status status = DLOCK_INTERNAL;
    bool told = true;

    if (waiter == NULL) /* no place, nothing to be told */
        return DLOCK_UNAVAILABLE;
    if (waiter->hub == NULL) /* none either, and interrupted */
        return DLOCK_CANCELED;
    waiter->reading = true;
    if (waiter->round == 0 && !waiter->interrupted)
        told = redis_hub_subscribe(hub, connect_by_ns < req->deadline_ns ? connect_by_ns
                                                                         : req->deadline_ns);
    waiter->reading = false;
    waiter->watching = true;
    status = told ? wait_locked(hub, waiter, req->deadline_ns, grant)
                  : wait_untold(hub, waiter, req->deadline_ns, grant);
    waiter->watching = false;
    if (status == DLOCK_OK)
        grant->lease_ms = resp_reply_lease_ms(grant->lease_ms, req->ttl_ms);
    redis_hub_hand_over(hub);
    return status;
}

enum dlock_status redis_hub_watch(struct redis_hub *hub, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&hub->mutex);
    status = watch_locked(hub, req, grant);
    (void)pthread_mutex_unlock(&hub->mutex);
    if (status == DLOCK_UNAVAILABLE)
        return resp_error_fail(hub->place, err, status,
                               "nothing tells of grants: no place in a queue");
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        return resp_error_fail(hub->place, err, status,
                               "the wait ended before the name was granted");
    return status;
}
