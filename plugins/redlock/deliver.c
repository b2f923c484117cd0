/* SPDX-License-Identifier: MIT */
#include "deliver.h"
#include "attempt.h"
#include "resp/error.h"
#include "resp/reply.h"
#include "round.h"

#include <string.h>

#define REFUSED_NS   DL_NS_PER_S /* until the release is sent again */
#define REFUSALS_MAX 30          /* of one release; then the lease is left to its end */

static bool gives_back(const struct redlock_sent_request *release,
                       const struct redlock_sent_request *sent)
{
    return release->kind == SENT_RELEASE && release->what != REDLOCK_DEQUEUE &&
           release->round >= sent->round &&
           memcmp(release->token, sent->token, sizeof sent->token) == 0;
}

static bool is_about_to_release(const struct redlock_round *round, const struct redlock_node *node,
                                const struct redlock_sent_request *sent)
{
    return !round->ended && node->connection.state == RESP_READY &&
           gives_back(&round->sent, sent) && round->answers[node->index].state == ANSWER_NOT_SENT;
}

/* True: a release of it is under way behind it on this connection, or a round in progress is about
 * to send one. A further release would be in the way: of two, the second one has nothing to
 * release. */
static bool is_followed(const struct redlock_session *session, const struct redlock_node *node,
                        const struct redlock_sent_request *sent)
{
    for (unsigned i = 0; i < node->count; i++)
        if (gives_back(&node->sent[(node->first + i) % REDLOCK_NODE_SENT_MAX], sent))
            return true;
    for (size_t i = 0; i < session->round_count; i++)
        if (is_about_to_release(session->rounds[i], node, sent))
            return true;
    return false;
}

/* Of a request that the node may have granted. True: the attempt is over and nothing else releases
 * the grant; *release does. */
static bool is_in_vain(const struct redlock_session *session, const struct redlock_node *node,
                       const struct redlock_sent_request *sent,
                       struct redlock_sent_request *release)
{
    if (is_followed(session, node, sent) || redlock_attempt_lives(session->client, sent->token))
        return false;
    redlock_release_fill(release, sent->name, sent->name_len, sent->token, sent->round,
                         REDLOCK_UNLOCK);
    release->sent_ns = redlock_session_now(session);
    return true;
}

static bool undoes(const struct redlock_sent_request *release,
                   const struct redlock_sent_request *sent)
{
    return release->what == REDLOCK_UNDO && release->round == sent->round &&
           memcmp(release->token, sent->token, sizeof sent->token) == 0;
}

/* Notes the undoing of a request in its round. */
static void undone_note(const struct redlock_session *session, const struct redlock_node *node,
                        const struct redlock_sent_request *sent)
{
    for (size_t i = 0; i < session->round_count; i++)
        if (undoes(sent, &session->rounds[i]->sent))
            session->rounds[i]->answers[node->index].undone_life = node->connection.life;
}

/* Only a number says that the node executed the release. */
static void release_answered(struct redlock_session *session, const struct redlock_node *node,
                             const struct redlock_sent_request *sent, const redisReply *reply)
{
    struct redlock_sent_request release = *sent;

    if (reply == NULL)
        redlock_release_later(session, node->index, sent);
    else if (reply->type != REDIS_REPLY_INTEGER && ++release.refusals < REFUSALS_MAX)
        redlock_pending_add(&session->client->pending, node->index, &release,
                            redlock_session_now(session) + REFUSED_NS);
    else if (reply->type == REDIS_REPLY_INTEGER)
        undone_note(session, node, sent);
}

/* The answer to a request whose round is over. */
static void answer_after_round(struct redlock_session *session, struct redlock_node *node,
                               const struct redlock_sent_request *sent, const redisReply *reply)
{
    int64_t taken = reply->type == REDIS_REPLY_STATUS; /* of SET */
    bool fits = sent->kind == SENT_ANY || reply->type == REDIS_REPLY_ERROR;
    struct redlock_sent_request release;

    if (sent->kind == SENT_RELEASE)
        fits |= reply->type == REDIS_REPLY_INTEGER;
    if (sent->kind == SENT_ACQUIRE)
        fits |= taken == 1 || reply->type == REDIS_REPLY_NIL || reply->type == REDIS_REPLY_ARRAY;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        (void)resp_reply_int(reply, 0, 0, 1, &taken);
    if (sent->kind == SENT_ACQUIRE && (taken == 1 || !fits) &&
        is_in_vain(session, node, sent, &release))
        (void)redlock_release_send(session, node, &release);
    if (!fits)
        resp_connection_drop(&node->connection, DLOCK_PROTOCOL, "not an answer to this request");
}

void redlock_deliver(struct redlock_node *node, const struct redlock_sent_request *sent,
                     const redisReply *reply)
{
    struct redlock_session *session = node->owner;
    struct redlock_round *round = redlock_round_find(session, sent->round_id);
    struct redlock_sent_request release;

    if (sent->kind == SENT_RECHECK) {
        if (reply != NULL)
            redlock_round_recheck(session, node, sent->number);
        return;
    }
    if (sent->kind == SENT_RELEASE && reply != NULL && resp_error_is(reply, "NOSCRIPT")) {
        redlock_node_text_unknown(node, REDLOCK_SCRIPT_RELEASE, sent);
        release = *sent;
        release.sent_ns = redlock_session_now(session);
        (void)redlock_release_send(session, node, &release);
        return;
    }
    if (sent->kind == SENT_RELEASE)
        release_answered(session, node, sent, reply);
    if (reply == NULL) {
        if (sent->kind == SENT_ACQUIRE && is_in_vain(session, node, sent, &release))
            redlock_release_later(session, node->index, &release);
    } else if (round != NULL) {
        redlock_round_answer(round, node, sent, reply);
    } else {
        answer_after_round(session, node, sent, reply);
    }
}
