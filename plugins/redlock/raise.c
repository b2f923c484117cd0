/* SPDX-License-Identifier: MIT */
#include "raise.h"
#include "resp/reply.h"

/* The token holds the name there. */
static enum redlock_quorum_vote raise_read(struct redlock_round *round, unsigned i,
                                           const redisReply *reply)
{
    struct redlock_take *taking = round->data;
    int64_t taken = 0, number = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4 ||
        !resp_reply_int(reply, 0, 0, 1, &taken))
        return QUORUM_REFUSED;
    if (taken == 0)
        return QUORUM_NO;
    if (!resp_reply_int(reply, 2, 1, REDLOCK_FENCE_MOST, &number))
        return QUORUM_REFUSED;
    taking->fences[i].number = number;
    return QUORUM_YES;
}

static enum redlock_quorum_verdict raise_judge(const struct redlock_round *round)
{
    const struct redlock_take *taking = round->data;
    struct redlock_fence_choice choice = redlock_take_choose(taking);

    if (choice.number == 0)
        return QUORUM_LOST;
    if (choice.agreed >= round->tally.need)
        return QUORUM_WON;
    return round->tally.open > 0 ? QUORUM_WAIT : QUORUM_UNSURE;
}

/* The nodes whose number is smaller are to raise it. */
static void raise_begin(struct redlock_take *taking, const struct redlock_fence_choice *choice)
{
    const struct dlock_request *req = taking->req;

    taking->raise = (struct redlock_round){
        .session = taking->session,
        .request = &taking->script,
        .sent = taking->round.sent,
        .node_timeout_ns = taking->round.node_timeout_ns,
        .deadline_ns = req->deadline_ns,
        .strict = true,
        .new_lock = true,
        .only = choice->behind,
        .judge = raise_judge,
        .read = raise_read,
        .data = taking,
    };
    taking->attempt->round++;
    (void)resp_command_number(taking->number, taking->attempt->round);
    (void)resp_command_number(taking->fence, choice->number);
    redlock_take_write(taking);
    taking->raise.sent.round = taking->round.sent.round = taking->attempt->round;
}

/* True: nodes have to be asked. */
static bool needs_raise(struct redlock_take *taking, struct redlock_fence_choice *choice)
{
    *choice = redlock_take_choose(taking);
    if (choice->number == 0)
        taking->verdict = QUORUM_SHORT;
    return choice->number != 0 && choice->agreed < taking->session->config->need;
}

void redlock_raise_fences(struct redlock_take *const *takes, size_t n)
{
    struct redlock_round *rounds[REDLOCK_BATCH_MOST] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        struct redlock_fence_choice choice;

        if (!takes[i]->won || !redlock_take_wants_fence(takes[i]) ||
            !needs_raise(takes[i], &choice))
            continue;
        raise_begin(takes[i], &choice);
        rounds[count++] = &takes[i]->raise;
    }
    redlock_round_run_all(rounds, count);
    for (size_t i = 0; i < count; i++) {
        struct redlock_take *taking = rounds[i]->data;

        taking->verdict = taking->raise.verdict == QUORUM_WON ? QUORUM_WON : QUORUM_UNSURE;
    }
    for (size_t i = 0; i < n; i++)
        if (takes[i]->verdict == QUORUM_WON && redlock_take_wants_fence(takes[i]))
            takes[i]->attempt->number = redlock_take_choose(takes[i]).number;
}

/* Clocks that were set back pass the numbers some time; clocks that are apart may stay so. */
enum dlock_status redlock_raise_fail(const struct redlock_take *taking, struct dlock_error *err)
{
    const struct redlock_config *config = taking->session->config;
    const long long ttl_ms = taking->req->ttl_ms;
    long long apart_ms =
        redlock_fence_spread_us(taking->fences, config->count, config->need) / 1000;
    long long ahead_ms = redlock_fence_ahead_us(taking->fences, config->count, config->need) / 1000;

    if (apart_ms > ttl_ms)
        return redlock_config_fail(err, config, DLOCK_CONFIG,
                                   "no fencing token: the clocks of the nodes are %lld ms apart, "
                                   "and the ttl is %lld ms; set the clocks, or leave fence=on out",
                                   apart_ms, ttl_ms);
    return redlock_config_fail(err, config, DLOCK_UNAVAILABLE,
                               "no fencing token: the last one of this name is %lld ms ahead of "
                               "the clocks of the nodes, which are %lld ms apart, and the ttl is "
                               "%lld ms; were clocks set back? They have to catch up",
                               ahead_ms, apart_ms, ttl_ms);
}
