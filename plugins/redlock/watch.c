/* SPDX-License-Identifier: MIT */
/* Waiting until the name is free for this attempt on a majority of the nodes. */
#include "attempt.h"
#include "entry.h"
#include "slots.h"

#define ENTRY_SPARE_MS 2000 /* by which a queue entry outlasts the watch */

static unsigned count_bits(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

void redlock_watch_interrupt(void *self, const struct dlock_request *req)
{
    struct redlock_session *session = self;
    struct resp_subscriber *subscriber = &session->client->subscriber;
    struct redlock_attempt *attempt = req != NULL ? req->attempt : NULL;

    if (attempt == NULL) {
        waiters_interrupt_any(&subscriber->waiters);
        return;
    }
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    resp_subscriber_interrupt_locked(subscriber, &attempt->waiter);
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

/* ---- sleeping ---- */

/* Waits until a majority of subscriptions is there, or none of the others is about to begin. */
static void subscriptions_await_locked(const struct redlock_session *session,
                                       struct redlock_attempt *attempt, int64_t until_ns)
{
    struct resp_subscriber *subscriber = &session->client->subscriber;

    while (!attempt->waiter.base.interrupted &&
           count_bits(subscriber->subscribed) < session->config->need &&
           redlock_session_now(session) >= subscriber->settled_ns &&
           redlock_session_now(session) < until_ns)
        resp_subscriber_sleep_locked(subscriber, &attempt->waiter.base, session->target, until_ns);
}

static enum dlock_status sleep_locked(const struct redlock_session *session,
                                      struct redlock_attempt *attempt, int64_t deadline_ns)
{
    struct resp_waiter *waiter = &attempt->waiter;
    int64_t recheck_ns = INT64_MAX;

    for (;;) {
        unsigned free_nodes = count_bits(waiter->recheck);
        int64_t now_ns = redlock_session_now(session);

        if (waiter->base.interrupted)
            return DLOCK_CANCELED;
        if (free_nodes >= session->config->need) {
            attempt->rechecks = 0;
            return DLOCK_BUSY;
        }
        if (now_ns >= deadline_ns)
            return DLOCK_TIMEOUT;
        if (free_nodes > 0 && recheck_ns == INT64_MAX)
            recheck_ns = redlock_entry_recheck_ns(session, attempt);
        if (now_ns >= recheck_ns) {
            attempt->rechecks++;
            return DLOCK_BUSY;
        }
        resp_subscriber_sleep_locked(&session->client->subscriber, &waiter->base, session->target,
                                     recheck_ns < deadline_ns ? recheck_ns : deadline_ns);
    }
}

static enum dlock_status watch_locked(struct redlock_session *session,
                                      const struct dlock_request *req)
{
    struct resp_subscriber *subscriber = &session->client->subscriber;
    struct redlock_attempt *attempt = req->attempt;
    struct resp_waiter *waiter = &attempt->waiter;
    int64_t hear_by_ns = redlock_session_now(session) + req->op_timeout_ms * DL_NS_PER_MS;
    unsigned free_nodes = 0;

    if (waiter->base.interrupted)
        return DLOCK_CANCELED;
    if (waiter->subscriber == NULL)
        return DLOCK_UNAVAILABLE;
    waiter->base.watching = true;
    subscriptions_await_locked(session, attempt,
                               hear_by_ns < req->deadline_ns ? hear_by_ns : req->deadline_ns);
    waiter->recheck = 0;
    if (!waiter->base.interrupted) {
        (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
        free_nodes = redlock_entry_take(
            session, req,
            (req->deadline_ns - redlock_session_now(session)) / DL_NS_PER_MS + ENTRY_SPARE_MS);
        if (count_bits(free_nodes) < session->config->need)
            redlock_session_lend(session);
        (void)pthread_mutex_lock(&subscriber->waiters.mutex);
        waiter->recheck |= free_nodes;
    }
    return sleep_locked(session, attempt, req->deadline_ns);
}

enum dlock_status redlock_watch(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct resp_subscriber *subscriber = &session->client->subscriber;
    struct redlock_attempt *attempt = req->attempt;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)grant;
    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    status = watch_locked(session, req);
    attempt->waiter.base.watching = false;
    resp_subscriber_hand_over_locked(subscriber);
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
    if (!redlock_session_borrow(session))
        return redlock_config_fail(err, session->config, DLOCK_UNAVAILABLE,
                                   "no memory for connections");
    if (status == DLOCK_UNAVAILABLE)
        return redlock_config_fail(err, session->config, status,
                                   "there are no messages about releases");
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        return redlock_config_fail(err, session->config, status,
                                   "the wait ended before the name was free");
    return status;
}
