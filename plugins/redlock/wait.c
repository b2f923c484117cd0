/* SPDX-License-Identifier: MIT */
#include "wait.h"
#include "client.h"
#include "lib/text.h"
#include "resp/reply.h"
#include "round.h"
#include "slots.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- the queue entries of an attempt: one on each node, with the same ticket ---- */

/* A round for them, and what it borrows. Has 14 KB, most of which is never used. */
struct entry {
    const struct dlock_request *req;
    struct redlock_request request;
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], ticket[RESP_DIGITS], lasts[RESP_DIGITS];
    struct redlock_round round;
};

#define RECHECK_FIRST_NS (DL_NS_PER_S / 4)
#define RECHECK_DOUBLED  4

/* The answer is { free, left }. */
static enum redlock_quorum_vote wait_read(struct redlock_round *round, unsigned i,
                                          const redisReply *reply)
{
    int64_t free_here = 0;

    (void)i;
    (void)round;
    if (!resp_reply_array(reply, 2) || !resp_reply_int(reply, 0, 0, 1, &free_here))
        return QUORUM_REFUSED;
    return free_here == 1 ? QUORUM_YES : QUORUM_NO;
}

/* Waits for every node that can answer, unless a majority is free. */
static enum redlock_quorum_verdict wait_judge(const struct redlock_round *round)
{
    if (round->tally.yes >= round->tally.need)
        return QUORUM_WON;
    return round->tally.open > 0 ? QUORUM_WAIT : QUORUM_LOST;
}

static void round_begin(struct entry *entry, struct redlock_session *session)
{
    const struct dlock_request *req = entry->req;
    int64_t now_ns = redlock_session_now(session);
    int64_t timeout_ns = redlock_config_timeout_ns(session->config, req->ttl_ms);

    entry->round = (struct redlock_round){
        .session = session,
        .request = &entry->request,
        .node_timeout_ns = timeout_ns,
        .deadline_ns =
            now_ns + timeout_ns < req->deadline_ns ? now_ns + timeout_ns : req->deadline_ns,
        .strict = true,
        .new_lock = true,
        .judge = wait_judge,
        .read = wait_read,
    };
}

/* entry->round, when it is run, enqueues the attempt on all nodes for lasts_ms, or refreshes its
 * entries. */
static void entry_begin(struct entry *entry, struct redlock_session *session,
                        const struct dlock_request *req, int64_t lasts_ms)
{
    struct redlock_attempt *attempt = req->attempt;
    struct resp_command *command = &entry->request.command;

    entry->req = req;
    round_begin(entry, session);
    if (attempt->ticket_ms == 0)
        attempt->ticket_ms = attempt->clock_ms > 0 ? attempt->clock_ms : 1;
    resp_keys_make(&entry->keys, &session->config->nodes[0], req->name, req->name_len);
    dl_hex_encode(entry->token, req->token, DLOCK_TOKEN_SIZE);
    redlock_node_request_begin(&entry->request, REDLOCK_SCRIPT_WAIT, 1);
    redlock_node_request_name(&entry->request, &entry->keys);
    resp_command_text(command, entry->token);
    resp_command_text(command, resp_command_number(entry->ticket, attempt->ticket_ms));
    resp_command_text(command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(command, resp_command_number(entry->lasts, lasts_ms));
    resp_command_text(command, session->client->subscriber.channel);
}

/* Bits of the nodes that are free for it; after the round. */
static unsigned entry_free_nodes(const struct entry *entry)
{
    const struct redlock_round *round = &entry->round;
    unsigned free_nodes = 0;

    for (unsigned i = 0; i < round->session->config->count; i++)
        if (round->answers[i].state == ANSWER_GIVEN && round->answers[i].vote == QUORUM_YES)
            free_nodes |= 1u << i;
    return free_nodes;
}

static unsigned entry_take(struct redlock_session *session, const struct dlock_request *req,
                           int64_t lasts_ms)
{
    REDLOCK_NOT_ZEROED struct entry entry;

    entry_begin(&entry, session, req, lasts_ms);
    (void)redlock_round_run(&entry.round);
    return entry_free_nodes(&entry);
}

/* When to ask again while some nodes are free, but too few: the holder on another node may go
 * without a message. */
static int64_t entry_recheck_ns(const struct redlock_session *session,
                                const struct redlock_attempt *attempt)
{
    unsigned doubled = attempt->rechecks < RECHECK_DOUBLED ? attempt->rechecks : RECHECK_DOUBLED;
    int64_t whole_ns = RECHECK_FIRST_NS << doubled;
    uint32_t chance = 0;

    (void)session->host->random(session->host->ctx, &chance, sizeof chance);
    return redlock_session_now(session) + whole_ns / 2 + chance % (whole_ns / 2);
}

/* ---- attempts that wait without a thread ---- */

/* Longer than poll_max of all but few programs; a dead waiter delays the others by the time of one
 * reservation, and not by this one. */
#define ENTRY_MS 60000

static struct redlock_attempt *attempt_of(struct waiter *waiter)
{
    return (struct redlock_attempt *)(void *)((char *)waiter -
                                              offsetof(struct redlock_attempt, waiter.base));
}

void redlock_wait_ask(struct redlock_session *session, const struct dlock_request *req)
{
    struct waiters *waiters = &session->client->subscriber.waiters;
    struct redlock_attempt *attempt = req->attempt;

    if (req->waiter == 0)
        return;
    (void)pthread_mutex_lock(&waiters->mutex);
    attempt->waiter.base.number = req->waiter;
    attempt->waiter.recheck = 0;
    attempt->recheck_ns = 0;
    attempt->waits = attempt->due = false;
    waiters_news_clear_locked(&attempt->waiter.base);
    (void)pthread_mutex_unlock(&waiters->mutex);
}

/* Subscriptions begin, and the attempts wait. */
static void waits_begin(struct redlock_session *session, const struct entry *entries, size_t n)
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

static void free_nodes_note(struct redlock_session *session, const struct entry *entries, size_t n)
{
    struct waiters *waiters = &session->client->subscriber.waiters;

    (void)pthread_mutex_lock(&waiters->mutex);
    for (size_t i = 0; i < n; i++) {
        struct redlock_attempt *attempt = entries[i].req->attempt;

        attempt->waiter.recheck |= entry_free_nodes(&entries[i]);
        if (attempt->waiter.recheck != 0)
            waiters_wake_locked(&attempt->waiter.base, true);
    }
    (void)pthread_mutex_unlock(&waiters->mutex);
}

void redlock_wait_enqueue(struct redlock_session *session, const struct dlock_request *const *reqs,
                          struct dlock_grant *const *grants, size_t n)
{
    struct entry *entries = malloc(n * sizeof *entries);
    struct redlock_round *rounds[REDLOCK_BATCH_MOST] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (entries == NULL || redlock_session_now(session) >= reqs[i]->deadline_ns) {
            grants[i]->flags |= DLOCK_GRANT_UNREPORTED;
            continue;
        }
        entry_begin(&entries[count], session, reqs[i], ENTRY_MS);
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
        attempt->recheck_ns = entry_recheck_ns(session, attempt);
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

/* ---- an attempt that waits in a thread ---- */

#define ENTRY_SPARE_MS 2000 /* by which a queue entry outlasts the watch */

static unsigned count_bits(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

void redlock_wait_interrupt(void *self, const struct dlock_request *req)
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
            recheck_ns = entry_recheck_ns(session, attempt);
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
        free_nodes = entry_take(session, req,
                                (req->deadline_ns - redlock_session_now(session)) / DL_NS_PER_MS +
                                    ENTRY_SPARE_MS);
        if (count_bits(free_nodes) < session->config->need)
            redlock_session_lend(session);
        (void)pthread_mutex_lock(&subscriber->waiters.mutex);
        waiter->recheck |= free_nodes;
    }
    return sleep_locked(session, attempt, req->deadline_ns);
}

enum dlock_status redlock_wait_watch(void *self, const struct dlock_request *req,
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
