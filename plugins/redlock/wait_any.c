/* SPDX-License-Identifier: MIT */
#include "wait_any.h"
#include "entry.h"

#include <stddef.h>
#include <stdlib.h>

/* Longer than poll_max of all but few programs; a dead waiter delays the others by the time of one
 * reservation, and not by this one. */
#define ENTRY_MS 60000

static struct redlock_attempt *attempt_of(struct waiter *waiter)
{
    return (struct redlock_attempt *)(void *)((char *)waiter -
                                              offsetof(struct redlock_attempt, waiter.base));
}

void redlock_wait_any_ask(struct redlock_session *session, const struct dlock_request *req)
{
    struct waiters *waiters = &session->client->subscriber.waiters;
    struct redlock_attempt *attempt = req->attempt;

    if (dlock_request_waiter(req) == 0)
        return;
    (void)pthread_mutex_lock(&waiters->mutex);
    attempt->waiter.base.number = dlock_request_waiter(req);
    attempt->waiter.recheck = 0;
    attempt->recheck_ns = 0;
    attempt->waits = attempt->due = false;
    waiters_news_clear_locked(&attempt->waiter.base);
    (void)pthread_mutex_unlock(&waiters->mutex);
}

/* Subscriptions begin, and the attempts wait. */
static void waits_begin(struct redlock_session *session, const struct redlock_entry *entries,
                        size_t n)
{
    struct resp_subscriber *subscriber = &session->client->subscriber;

    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    resp_subscriber_advance_locked(subscriber, session->target);
    for (size_t i = 0; i < n; i++) {
        struct redlock_attempt *attempt = entries[i].req->attempt;

        attempt->waits = true;
    }
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

static void free_nodes_note(struct redlock_session *session, const struct redlock_entry *entries,
                            size_t n)
{
    struct waiters *waiters = &session->client->subscriber.waiters;

    (void)pthread_mutex_lock(&waiters->mutex);
    for (size_t i = 0; i < n; i++) {
        struct redlock_attempt *attempt = entries[i].req->attempt;

        attempt->waiter.recheck |= redlock_entry_free_nodes(&entries[i]);
        if (attempt->waiter.recheck != 0)
            waiters_wake_locked(&attempt->waiter.base, true);
    }
    (void)pthread_mutex_unlock(&waiters->mutex);
}

void redlock_wait_any_enqueue(struct redlock_session *session,
                              const struct dlock_request *const *reqs,
                              struct dlock_grant *const *grants, size_t n)
{
    struct redlock_entry *entries = malloc(n * sizeof *entries);
    struct redlock_round *rounds[REDLOCK_BATCH_MOST] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (entries == NULL || redlock_session_now(session) >= reqs[i]->deadline_ns) {
            grants[i]->flags |= DLOCK_GRANT_UNREPORTED;
            continue;
        }
        redlock_entry_begin(&entries[count], session, reqs[i], ENTRY_MS);
        rounds[count] = &entries[count].round;
        count++;
    }
    if (count > 0) {
        waits_begin(session, entries, count);
        redlock_round_run_all(rounds, count);
        free_nodes_note(session, entries, count);
    }
    free(entries);
}

/* Of an attempt that was woken: whether another try is worth it now. */
static bool is_worth(const struct redlock_session *session, struct redlock_attempt *attempt)
{
    unsigned free_nodes = (unsigned)__builtin_popcount(attempt->waiter.recheck);

    if (!attempt->waits || attempt->due)
        return attempt->waits;
    if (free_nodes >= session->config->need) {
        attempt->rechecks = 0;
        return true;
    }
    if (free_nodes > 0 && attempt->recheck_ns == 0)
        attempt->recheck_ns = redlock_entry_recheck_ns(session, attempt);
    return false;
}

/* Wakes the attempts whose time has come. Returns when the next one's comes. */
static int64_t due_locked(const struct redlock_session *session, int64_t until_ns)
{
    int64_t now_ns = redlock_session_now(session);

    for (struct waiter *at = session->client->subscriber.waiters.first; at != NULL; at = at->next) {
        struct redlock_attempt *attempt = attempt_of(at);

        if (at->number == 0 || attempt->recheck_ns == 0)
            continue;
        if (attempt->recheck_ns <= now_ns) {
            attempt->rechecks++;
            attempt->recheck_ns = 0;
            attempt->due = true;
            waiters_wake_locked(at, false);
        } else if (attempt->recheck_ns < until_ns) {
            until_ns = attempt->recheck_ns;
        }
    }
    return until_ns;
}

static size_t news_take_locked(struct redlock_session *session, uint32_t *numbers, size_t room)
{
    struct waiters *waiters = &session->client->subscriber.waiters;
    struct waiter *waiter = NULL;
    size_t count = 0;

    while (count < room && (waiter = waiters_news_next_locked(waiters)) != NULL)
        if (is_worth(session, attempt_of(waiter)))
            numbers[count++] = waiter->number;
    return count;
}

enum dlock_status redlock_wait_any(void *self, uint32_t *numbers, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct resp_subscriber *subscriber = &session->client->subscriber;
    struct waiters *waiters = &subscriber->waiters;
    size_t room = *count;
    bool interrupted = false, over = false;

    (void)pthread_mutex_lock(&waiters->mutex);
    resp_subscriber_advance_locked(subscriber, session->target);
    waiters->any.watching = true;
    while (!over) {
        int64_t until_ns = due_locked(session, deadline_ns);

        interrupted = waiters->any.interrupted;
        waiters->any.interrupted = false;
        *count = news_take_locked(session, numbers, room);
        over = *count > 0 || interrupted || redlock_session_now(session) >= deadline_ns;
        if (!over)
            resp_subscriber_sleep_locked(subscriber, &waiters->any, session->target, until_ns);
    }
    waiters->any.watching = false;
    resp_subscriber_hand_over_locked(subscriber);
    (void)pthread_mutex_unlock(&waiters->mutex);
    if (*count > 0)
        return DLOCK_OK;
    return redlock_config_fail(err, session->config, interrupted ? DLOCK_CANCELED : DLOCK_TIMEOUT,
                               "the watch ended before a name was free");
}
