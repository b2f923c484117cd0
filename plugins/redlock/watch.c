/* SPDX-License-Identifier: MIT */
/* Waiting until the name is free for this attempt on a majority of the nodes. */
#include "attempt.h"
#include "lib/hex.h"
#include "resp/reply.h"
#include "round.h"
#include "slots.h"

#define ENTRY_SPARE_MS   2000              /* by which a queue entry outlasts the watch */
#define RECHECK_FIRST_NS (DL_NS_PER_S / 4) /* while some nodes are free, but too few */
#define RECHECK_DOUBLED  4

static unsigned count_bits(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

void redlock_watch_interrupt(void *self, const struct dlock_request *req)
{
    struct redlock_session *session = self;
    struct resp_subscriber *subscriber = &session->client->subscriber;
    struct redlock_attempt *attempt = req->attempt;

    (void)pthread_mutex_lock(&subscriber->waiters.mutex);
    resp_subscriber_interrupt_locked(subscriber, &attempt->waiter);
    (void)pthread_mutex_unlock(&subscriber->waiters.mutex);
}

/* ---- a queue entry on each node ---- */

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

/* Enqueues the attempt on all nodes, or refreshes its entries. Returns bits of the nodes that are
 * free for it. */
static unsigned entries_take(struct redlock_session *session, const struct dlock_request *req)
{
    struct redlock_attempt *attempt = req->attempt;
    struct redlock_request request;
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], ticket[RESP_DIGITS], lasts[RESP_DIGITS];
    int64_t now_ns = redlock_session_now(session);
    int64_t timeout_ns = redlock_config_timeout_ns(session->config, req->ttl_ms);
    struct redlock_round round = {
        .session = session,
        .request = &request,
        .node_timeout_ns = timeout_ns,
        .deadline_ns = now_ns + timeout_ns,
        .strict = true,
        .new_lock = true,
        .judge = wait_judge,
        .read = wait_read,
    };
    unsigned free_nodes = 0;

    if (attempt->ticket_ms == 0)
        attempt->ticket_ms = attempt->clock_ms > 0 ? attempt->clock_ms : 1;
    resp_keys_make(&keys, &session->config->nodes[0], req->name, req->name_len);
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    redlock_request_begin(&request, REDLOCK_SCRIPT_WAIT, 1);
    redlock_request_name(&request, &keys);
    resp_command_text(&request.command, token);
    resp_command_text(&request.command, resp_command_number(ticket, attempt->ticket_ms));
    resp_command_text(&request.command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(
        &request.command,
        resp_command_number(lasts, (req->deadline_ns - now_ns) / DL_NS_PER_MS + ENTRY_SPARE_MS));
    resp_command_text(&request.command, session->client->subscriber.channel);
    (void)redlock_round_run(&round);
    for (unsigned i = 0; i < session->config->count; i++)
        if (round.answers[i].state == ANSWER_GIVEN && round.answers[i].vote == QUORUM_YES)
            free_nodes |= 1u << i;
    return free_nodes;
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

/* When to ask again while too few nodes are free: the holder on another node may go without a
 * message. */
static int64_t recheck_at(const struct redlock_session *session,
                          const struct redlock_attempt *attempt)
{
    unsigned doubled = attempt->rechecks < RECHECK_DOUBLED ? attempt->rechecks : RECHECK_DOUBLED;
    int64_t whole_ns = RECHECK_FIRST_NS << doubled;
    uint32_t chance = 0;

    (void)session->host->random(session->host->ctx, &chance, sizeof chance);
    return redlock_session_now(session) + whole_ns / 2 + chance % (whole_ns / 2);
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
            recheck_ns = recheck_at(session, attempt);
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
        free_nodes = entries_take(session, req);
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
