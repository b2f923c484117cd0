/* SPDX-License-Identifier: MIT */
#include "undo.h"

/* True: the node may have granted the lock, or may grant it later. */
static bool may_hold(const struct redlock_answer *answer)
{
    return answer->state == ANSWER_PENDING || answer->state == ANSWER_SILENT ||
           (answer->state == ANSWER_GIVEN && answer->vote == QUORUM_YES);
}

/* The undoing goes over the connection of the request, so that it arrives after the request. */
void redlock_undo_send(struct redlock_take *taking)
{
    unsigned nodes = 0;

    for (unsigned i = 0; i < taking->session->config->count; i++)
        if (may_hold(&taking->round.answers[i]))
            nodes |= 1u << i;
    redlock_release_send_all(taking->session, nodes, taking->req->name, taking->req->name_len,
                             taking->req->token, taking->attempt->round, REDLOCK_UNDO);
}

/* Counts the nodes that may hold the lock, and have not confirmed the undoing. *waiting: one of
 * them may still confirm it. */
static unsigned unsettled(const struct redlock_take *taking, bool *waiting)
{
    unsigned count = 0;

    *waiting = false;
    for (unsigned i = 0; i < taking->session->config->count; i++) {
        const struct redlock_node *node = &taking->session->nodes[i];
        const struct redlock_answer *answer = &taking->round.answers[i];

        if (!may_hold(answer) || answer->undone_life == answer->life)
            continue;
        count++;
        *waiting |= node->connection.state == RESP_READY && node->connection.life == answer->life &&
                    node->count > 0;
    }
    return count;
}

bool redlock_undo_is_settled(const struct redlock_take *taking)
{
    bool waiting = false;

    return unsettled(taking, &waiting) < taking->session->config->need;
}

/* True: the take waits for a node until *until_ns. */
static bool goes_on(const struct redlock_take *taking, int64_t now_ns, int64_t *until_ns)
{
    bool waiting = false;

    if (unsettled(taking, &waiting) < taking->session->config->need || !waiting ||
        now_ns >= taking->req->deadline_ns)
        return false;
    if (taking->req->deadline_ns < *until_ns)
        *until_ns = taking->req->deadline_ns;
    return true;
}

static bool some_go_on(struct redlock_take *const *takes, size_t n, int64_t *until_ns)
{
    bool some = false;

    *until_ns = INT64_MAX;
    for (size_t i = 0; i < n; i++)
        some |= goes_on(takes[i], redlock_session_now(takes[i]->session), until_ns);
    return some;
}

void redlock_undo_await(struct redlock_take *const *takes, size_t n)
{
    struct redlock_session *session = n > 0 ? takes[0]->session : NULL;
    struct redlock_round *rounds[REDLOCK_BATCH_MOST] = {NULL};
    int64_t until_ns = 0;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        rounds[i] = &takes[i]->round;
        rounds[i]->over = true;
        rounds[i]->ended = false; /* late votes tell whether there is a holder */
    }
    session->rounds = rounds;
    session->round_count = n;
    while (some_go_on(takes, n, &until_ns)) {
        redlock_session_sleep(session, until_ns);
        redlock_release_advance(session);
    }
    session->rounds = NULL;
    session->round_count = 0;
}
