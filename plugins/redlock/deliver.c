/* SPDX-License-Identifier: MIT */
/* What becomes of an answer: the vote of a round, or what a late answer leaves to be given back. */
#include "hub.h"
#include "lib/time.h"
#include "redlock.h"

#include <string.h>

#define REFUSED_NS   DL_NS_PER_S /* until a node is told again */
#define REFUSALS_MAX 30          /* of one release; then it is left to the lease's end */

static bool gives_back(const struct redlock_ask *release, const struct redlock_ask *ask)
{
    return release->kind == ASK_RELEASE && release->what != REDLOCK_LEAVE &&
           release->round >= ask->round &&
           memcmp(release->token, ask->token, sizeof ask->token) == 0;
}

/* What gives it back is under way to the node behind it, or about to be sent by the present round.
 * One more would be in its way: it would find nothing to give back. */
static bool is_followed(const struct redlock_session *session, const struct redlock_node *node,
                        const struct redlock_ask *ask)
{
    const struct redlock_round *round = session->round;

    for (unsigned i = 0; i < node->count; i++)
        if (gives_back(&node->asks[(node->first + i) % NODE_ASKS_MAX], ask))
            return true;
    return round != NULL && node->connection.state == RESP_READY && gives_back(&round->ask, ask) &&
           round->answers[node->index].state == ANSWER_NOT_SENT;
}

/* A request for a lock may have been granted: if the attempt is over, nobody else gives that back.
 * True: *release does. */
static bool is_in_vain(const struct redlock_session *session, const struct redlock_node *node,
                       const struct redlock_ask *ask, struct redlock_ask *release)
{
    if (is_followed(session, node, ask) || redlock_hub_lives(session->hub, ask->token))
        return false;
    redlock_ask_fill(release, ask->name, ask->name_len, ask->token, ask->round, REDLOCK_UNLOCK);
    release->sent_ns = redlock_now(session);
    return true;
}

static bool undoes(const struct redlock_ask *release, const struct redlock_ask *ask)
{
    return release->what == REDLOCK_UNDO && release->round == ask->round &&
           memcmp(release->token, ask->token, sizeof ask->token) == 0;
}

/* Only a number says that a release was executed. */
static void release_answered(struct redlock_session *session, const struct redlock_node *node,
                             const struct redlock_ask *ask, const redisReply *reply)
{
    struct redlock_ask release = *ask;
    struct redlock_round *round = session->round;

    if (reply == NULL)
        redlock_release_later(session, node->index, ask);
    else if (reply->type != REDIS_REPLY_INTEGER && ++release.refusals < REFUSALS_MAX)
        redlock_pending_add(session->pending, node->index, &release,
                            redlock_now(session) + REFUSED_NS);
    else if (round != NULL && reply->type == REDIS_REPLY_INTEGER && undoes(ask, &round->ask))
        round->answers[node->index].undone_life = node->connection.life;
}

/* Of an earlier call. */
static void late_answer(struct redlock_session *session, struct redlock_node *node,
                        const struct redlock_ask *ask, const redisReply *reply)
{
    int64_t taken = reply->type == REDIS_REPLY_STATUS; /* of SET */
    bool fits = ask->kind == ASK_ANY || reply->type == REDIS_REPLY_ERROR;
    struct redlock_ask release;

    if (ask->kind == ASK_RELEASE)
        fits |= reply->type == REDIS_REPLY_INTEGER;
    if (ask->kind == ASK_ACQUIRE)
        fits |= taken == 1 || reply->type == REDIS_REPLY_NIL || reply->type == REDIS_REPLY_ARRAY;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        (void)resp_reply_int(reply, 0, 0, 1, &taken);
    if (ask->kind == ASK_ACQUIRE && (taken == 1 || !fits) &&
        is_in_vain(session, node, ask, &release))
        (void)redlock_release_send(session, node, &release);
    if (!fits)
        resp_connection_drop(&node->connection, DLOCK_PROTOCOL, "not an answer to this question");
}

void redlock_deliver(struct redlock_node *node, const struct redlock_ask *ask,
                     const redisReply *reply)
{
    struct redlock_session *session = node->owner;
    struct redlock_ask release;

    if (ask->kind == ASK_RELEASE && reply != NULL && resp_error_is(reply, "NOSCRIPT")) {
        node->knows_release = false;
        release = *ask;
        release.sent_ns = redlock_now(session);
        (void)redlock_release_send(session, node, &release);
        return;
    }
    if (ask->kind == ASK_RELEASE)
        release_answered(session, node, ask, reply);
    if (reply == NULL) {
        if (ask->kind == ASK_ACQUIRE && is_in_vain(session, node, ask, &release))
            redlock_release_later(session, node->index, &release);
    } else if (session->round != NULL && session->round->ask.call == ask->call) {
        redlock_round_answer(session->round, node, reply);
    } else {
        late_answer(session, node, ask, reply);
    }
}
