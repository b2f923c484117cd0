/* SPDX-License-Identifier: MIT */
#include "hub.h"
#include "redlock.h"

#include <stdlib.h>
#include <string.h>

#define REFUSED_NS   DL_NS_PER_S /* until a node is told again */
#define REFUSALS_MAX 30          /* of one release; then it is left to the lease's end */

void redlock_ask_fill(struct redlock_ask *ask, const unsigned char *name, uint32_t name_len,
                      const unsigned char *token, uint32_t last_round, enum redlock_release what)
{
    *ask = (struct redlock_ask){
        .kind = ASK_RELEASE, .what = (int)what, .round = last_round, .name_len = name_len};
    memcpy(ask->token, token, sizeof ask->token);
    memcpy(ask->name, name, name_len);
}

/* ---- owed ---- */

void redlock_debt_add(struct redlock_debt *debt, const struct redlock_ask *ask)
{
    struct redlock_ask *to = debt->owed;

    while (to < debt->owed + debt->count &&
           (to->what != ask->what || memcmp(to->token, ask->token, sizeof to->token) != 0))
        to++;
    if (to < debt->owed + debt->count && to->round >= ask->round)
        return;
    if (to == debt->owed + REDLOCK_OWED_MAX) { /* the oldest one ends by itself soonest */
        memmove(debt->owed, debt->owed + 1, (REDLOCK_OWED_MAX - 1) * sizeof *to);
        to--;
    } else if (to == debt->owed + debt->count) {
        debt->count++;
    }
    *to = *ask;
    to->call = 0;
}

bool redlock_debts_move(struct redlock_debt *to, struct redlock_debt *from, unsigned nodes)
{
    bool moved = false;

    for (unsigned node = 0; node < nodes; node++) {
        for (unsigned i = 0; i < from[node].count; i++)
            redlock_debt_add(&to[node], &from[node].owed[i]);
        moved |= from[node].count > 0;
        from[node].count = 0;
    }
    return moved;
}

void redlock_release_owe(struct redlock_session *session, unsigned node,
                         const struct redlock_ask *ask)
{
    redlock_debt_add(&session->debts[node], ask);
}

void redlock_release_refused(struct redlock_session *session, unsigned node,
                             const struct redlock_ask *ask)
{
    struct redlock_ask again = *ask;

    if (++again.refusals < REFUSALS_MAX)
        redlock_release_owe(session, node, &again);
}

bool redlock_release_is_owed(const struct redlock_session *session, unsigned node,
                             const unsigned char *token)
{
    const struct redlock_debt *debt = &session->debts[node];

    for (unsigned i = 0; i < debt->count; i++)
        if (debt->owed[i].what != REDLOCK_LEAVE &&
            memcmp(debt->owed[i].token, token, DLOCK_TOKEN_SIZE) == 0)
            return true;
    return false;
}

/* By the connection that it has now; owed, if there is none. The first on a connection goes out
 * with the text of its script: nobody may look whether the node knew it. */
static void release_send(struct redlock_session *session, unsigned i, const struct redlock_ask *ask,
                         bool whole)
{
    REDLOCK_NOT_ZEROED struct redlock_release_request release;
    struct redlock_node *node = &session->nodes[i];
    struct redlock_debt *debt = &session->debts[i];
    char hex[RESP_HEX_SIZE], *bytes = NULL;
    size_t len = 0;

    whole |= debt->knowing_life != node->life;
    resp_keys_hex(hex, ask->token);
    redlock_release_make(&release, session->place, ask->name, ask->name_len, hex, ask->round,
                         (enum redlock_release)ask->what);
    bytes = redlock_request_format(&release.request, whole, &len);
    if (bytes != NULL && redlock_node_send(node, bytes, len, ask))
        debt->knowing_life = node->life;
    else
        redlock_release_owe(session, i, ask);
    free(bytes);
}

void redlock_release_owed(struct redlock_session *session, unsigned node)
{
    struct redlock_debt *debt = &session->debts[node];
    struct redlock_ask owed[REDLOCK_OWED_MAX];
    unsigned count = debt->count;
    int64_t now_ns = redlock_now(session);

    if (session->nodes[node].state != NODE_READY)
        return;
    memcpy(owed, debt->owed, count * sizeof *owed);
    debt->count = 0;
    for (unsigned i = 0; i < count; i++) {
        if (owed[i].refusals > 0 && now_ns - owed[i].sent_ns < REFUSED_NS) {
            redlock_release_owe(session, node, &owed[i]);
            continue;
        }
        owed[i].sent_ns = now_ns;
        release_send(session, node, &owed[i], false);
    }
}

void redlock_session_release(struct redlock_session *session, unsigned nodes,
                             const unsigned char *name, uint32_t name_len,
                             const unsigned char *token, uint32_t last_round,
                             enum redlock_release what)
{
    struct redlock_ask ask;

    redlock_ask_fill(&ask, name, name_len, token, last_round, what);
    ask.sent_ns = redlock_now(session);
    for (unsigned i = 0; i < session->place->count; i++)
        if ((nodes & 1u << i) != 0)
            release_send(session, i, &ask, false);
}

/* ---- late answers ---- */

static bool gives_back(const struct redlock_ask *later, const struct redlock_ask *ask)
{
    return later->kind == ASK_RELEASE && later->what != REDLOCK_LEAVE &&
           later->round >= ask->round && memcmp(later->token, ask->token, sizeof ask->token) == 0;
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
    return round != NULL && node->state == NODE_READY && gives_back(&round->ask, ask) &&
           round->answers[node->index].state == ANSWER_NOT_SENT;
}

/* A request for a lock may have been granted: if the attempt is over, nobody else gives that back.
 * True: *release does. */
static bool is_in_vain(const struct redlock_session *session, const struct redlock_node *node,
                       const struct redlock_ask *ask, struct redlock_ask *release)
{
    if (ask->kind != ASK_ACQUIRE || is_followed(session, node, ask) ||
        redlock_hub_lives(session->hub, ask->token))
        return false;
    *release = *ask;
    release->call = 0;
    release->kind = ASK_RELEASE;
    release->what = REDLOCK_UNLOCK;
    release->sent_ns = redlock_now(session);
    return true;
}

static bool fits(const struct redlock_ask *ask, const redisReply *reply)
{
    switch (ask->kind) {
    case ASK_ACQUIRE:
        return reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_NIL ||
               reply->type == REDIS_REPLY_ARRAY || reply->type == REDIS_REPLY_ERROR;
    case ASK_RELEASE:
        return reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_ERROR;
    default:
        return true;
    }
}

void redlock_release_late(struct redlock_session *session, struct redlock_node *node,
                          const struct redlock_ask *ask, const redisReply *reply)
{
    int64_t taken = reply->type == REDIS_REPLY_STATUS; /* of SET */
    struct redlock_ask again = *ask;

    if (!fits(ask, reply)) {
        redlock_release_unanswered(session, node, ask);
        redlock_node_drop(node, DLOCK_PROTOCOL, "not an answer to this question");
        return;
    }
    again.call = 0;
    again.sent_ns = redlock_now(session);
    if (ask->kind == ASK_RELEASE && resp_error_is(reply, "NOSCRIPT"))
        release_send(session, node->index, &again, true);
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        (void)resp_reply_int(reply, 0, 0, 1, &taken);
    if (taken == 1 && is_in_vain(session, node, ask, &again))
        release_send(session, node->index, &again, false);
}

void redlock_release_unanswered(struct redlock_session *session, const struct redlock_node *node,
                                const struct redlock_ask *ask)
{
    struct redlock_ask release;

    if (ask->kind == ASK_RELEASE)
        redlock_release_owe(session, node->index, ask);
    else if (is_in_vain(session, node, ask, &release))
        redlock_release_owe(session, node->index, &release);
}
