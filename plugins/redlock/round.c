/* SPDX-License-Identifier: MIT */
#include "round.h"
#include "client.h"
#include "lib/time.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic uint64_t last_round_id; /* of this process */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

__attribute__((format(printf, 3, 4))) static void
refuse(struct redlock_answer *answer, enum dlock_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(answer->why, sizeof answer->why, format, args);
    va_end(args);
    answer->state = ANSWER_REFUSED;
    answer->status = status;
}

/* ---- sending ---- */

/* True: the oldest missing answer is overdue. */
static bool is_behind(const struct redlock_round *round, const struct redlock_node *node,
                      int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    return since_ns != 0 && now_ns - since_ns > round->node_timeout_ns;
}

/* The node that was asked already and is the same server; NULL: none. A server has one vote, and an
 * address may lead to another server with each new connection. */
static const struct redlock_node *duplicate_of(const struct redlock_round *round,
                                               const struct redlock_node *node)
{
    for (unsigned i = 0; i < round->session->config->count; i++)
        if (strcmp(round->answers[i].server, node->connection.info.run_id) == 0)
            return &round->session->nodes[i];
    return NULL;
}

/* [restart_guard] */
static void refuse_guarded(struct redlock_answer *answer, const struct redlock_node *node,
                           int64_t now_ns)
{
    answer->guard_ms = (node->votes_ns - now_ns) / DL_NS_PER_MS + 1;
    refuse(answer, DLOCK_BUSY, "restart_guard is %g s; no vote for %lld s more",
           (double)node->connection.config->restart_guard_ms / 1000,
           (long long)answer->guard_ms / 1000 + 1);
}

/* False: the answer is REFUSED. */
static bool may_be_asked(const struct redlock_round *round, const struct redlock_node *node,
                         struct redlock_answer *answer, int64_t now_ns)
{
    const struct redlock_node *duplicate = duplicate_of(round, node);

    if (duplicate != NULL)
        refuse(answer, DLOCK_CONFIG, "refused: the same server as %.60s",
               duplicate->connection.config->endpoint);
    else if (round->new_lock && node->votes_ns > now_ns)
        refuse_guarded(answer, node, now_ns);
    else if (round->strict && ((round->session->backlog_mask & 1u << node->index) != 0 ||
                               is_behind(round, node, now_ns)))
        refuse(answer, DLOCK_UNAVAILABLE, "timed out: still owes the answer to an earlier request");
    return answer->state != ANSWER_REFUSED;
}

/* The first release on a connection is sent with the text of its script: if other nodes decide the
 * round, possibly nobody reads for long that this node does not know it. */
static bool request_send(struct redlock_round *round, struct redlock_node *node)
{
    bool whole =
        round->sent.kind == SENT_RELEASE && !redlock_node_has_text(node, REDLOCK_SCRIPT_RELEASE);
    size_t len = round->len;
    char *bytes = whole ? redlock_node_request_format(round->request, true, &len) : round->bytes;
    bool sent = bytes != NULL && redlock_node_send(node, bytes, len, &round->sent);

    if (sent && whole)
        redlock_node_text_sent(node, REDLOCK_SCRIPT_RELEASE);
    if (whole)
        free(bytes);
    return sent;
}

static void send_to(struct redlock_round *round, unsigned i, int64_t now_ns)
{
    struct redlock_node *node = &round->session->nodes[i];
    struct redlock_answer *answer = &round->answers[i];

    if (!may_be_asked(round, node, answer, now_ns))
        return;
    answer->straggler = is_behind(round, node, now_ns);
    round->sent.sent_ns = now_ns;
    if (!request_send(round, node)) {
        refuse(answer, DLOCK_UNAVAILABLE, "not sent: %.80s", node->connection.why);
        return;
    }
    answer->state = ANSWER_PENDING;
    answer->request = node->requests;
    answer->life = node->connection.life;
    memcpy(answer->server, node->connection.info.run_id, sizeof answer->server);
    answer->until_ns = round->deadline_ns;
    if (round->strict)
        answer->until_ns = earlier(round->deadline_ns, now_ns + round->node_timeout_ns);
}

static bool is_asked(const struct redlock_round *round, unsigned i)
{
    return round->only == 0 || (round->only & 1u << i) != 0;
}

/* Sends to the nodes that are ready now, and gives up nodes that will not answer. */
static void nodes_update(struct redlock_round *round)
{
    struct redlock_session *session = round->session;
    int64_t now_ns = redlock_session_now(session);

    for (unsigned i = 0; i < session->config->count; i++) {
        struct redlock_answer *answer = &round->answers[i];
        const struct redlock_node *node = &session->nodes[i];

        if (answer->state == ANSWER_NOT_SENT && node->connection.state == RESP_READY)
            send_to(round, i, now_ns);
        if (answer->state != ANSWER_PENDING)
            continue;
        if (node->connection.state != RESP_READY || node->connection.life != answer->life) {
            answer->state = ANSWER_SILENT;
            (void)snprintf(answer->why, sizeof answer->why, "lost: %.80s", node->connection.why);
        } else if (now_ns >= answer->until_ns) {
            answer->state = ANSWER_SILENT;
            (void)snprintf(answer->why, sizeof answer->why, "timed out: no answer in %lld ms",
                           (long long)(now_ns - node->sent[node->first].sent_ns) / DL_NS_PER_MS);
        }
    }
}

/* ---- answers ---- */

/* The request that the node was sent last. */
static struct redlock_request *present_request(struct redlock_round *round, unsigned node)
{
    return round->answers[node].again ? round->next : round->request;
}

/* Sends that request again. whole: with the text of the script. */
static void send_again(struct redlock_round *round, struct redlock_node *node, bool whole)
{
    size_t len = 0;
    struct redlock_request *request = present_request(round, node->index);
    char *bytes = redlock_node_request_format(request, whole, &len);
    bool sent = bytes != NULL && redlock_node_send(node, bytes, len, &round->sent);

    if (sent && whole)
        redlock_node_text_sent(node, redlock_request_script(request));
    round->answers[node->index].request = node->requests;
    if (!sent)
        refuse(&round->answers[node->index], DLOCK_UNAVAILABLE, "a second request cannot be sent");
    free(bytes);
}

/* The node has executed nothing so far. If its time or the round is over, a release may be under
 * way already, and what the node does now would come after it. */
static bool may_ask_again(const struct redlock_round *round, struct redlock_answer *answer)
{
    if (!round->over && answer->state == ANSWER_PENDING)
        return true;
    refuse(answer, DLOCK_UNAVAILABLE, "timed out");
    return false;
}

static void next_send(struct redlock_round *round, struct redlock_node *node)
{
    struct redlock_answer *answer = &round->answers[node->index];

    if (!may_ask_again(round, answer))
        return;
    answer->again = true;
    send_again(round, node, false);
}

/* The node does not know the script. Of many requests only the first one brings the text. */
static void text_send(struct redlock_round *round, struct redlock_node *node,
                      const struct redlock_sent_request *sent)
{
    enum redlock_script_id script = redlock_request_script(present_request(round, node->index));

    redlock_node_text_unknown(node, script, sent);
    if (may_ask_again(round, &round->answers[node->index]))
        send_again(round, node, !redlock_node_has_text(node, script));
}

static void error_take(struct redlock_round *round, struct redlock_node *node,
                       const struct redlock_sent_request *sent, const redisReply *reply)
{
    struct redlock_answer *answer = &round->answers[node->index];
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_INTERNAL;
    const char *text = NULL;

    if (resp_error_is(reply, "NOSCRIPT") && present_request(round, node->index)->script != NULL) {
        text_send(round, node, sent);
        return;
    }
    status = resp_error_take(node->connection.config, reply, &err);
    text = strstr(err.message, ": ");
    refuse(answer, status, "%.95s", text != NULL ? text + 2 : err.message);
    if (status == DLOCK_UNKNOWN) /* the script may have done a part of its work */
        answer->state = ANSWER_SILENT;
}

static void round_answer(struct redlock_round *round, struct redlock_node *node,
                         const struct redlock_sent_request *sent, const redisReply *reply)
{
    struct redlock_answer *answer = &round->answers[node->index];

    if (answer->state != ANSWER_PENDING && answer->state != ANSWER_SILENT)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        error_take(round, node, sent, reply);
        return;
    }
    answer->vote = round->read(round, node->index, reply);
    if (answer->vote == QUORUM_OPEN) {
        next_send(round, node);
        return;
    }
    answer->voted = sent->rechecks && answer->vote == QUORUM_YES;
    answer->state = answer->voted ? ANSWER_PENDING : ANSWER_GIVEN;
    if (answer->vote == QUORUM_REFUSED)
        resp_connection_drop(&node->connection, DLOCK_PROTOCOL, "not an answer to this request");
    if (answer->vote == QUORUM_REFUSED) { /* nobody knows what the node did */
        answer->state = ANSWER_SILENT;
        (void)snprintf(answer->why, sizeof answer->why, "%s", node->connection.why);
    }
}

/* A look found that the node is what it was: what it answered before counts. */
static void round_recheck(const struct redlock_session *session, const struct redlock_node *node,
                          uint64_t number)
{
    for (size_t i = 0; i < session->round_count; i++) {
        struct redlock_answer *answer = &session->rounds[i]->answers[node->index];

        if (answer->state == ANSWER_PENDING && answer->voted && answer->request <= number &&
            answer->life == node->connection.life)
            answer->state = ANSWER_GIVEN;
    }
}

/* ---- the verdict ---- */

static enum redlock_quorum_vote vote_of(const struct redlock_round *round, unsigned i,
                                        bool connections, int64_t now_ns)
{
    const struct redlock_answer *answer = &round->answers[i];

    switch (answer->state) {
    case ANSWER_NOT_SENT:
        return connections && resp_connection_coming(&round->session->nodes[i].connection, now_ns)
                   ? QUORUM_OPEN
                   : QUORUM_REFUSED;
    case ANSWER_PENDING:
        return QUORUM_OPEN;
    case ANSWER_SILENT:
        return QUORUM_SILENT;
    case ANSWER_GIVEN:
        return answer->vote;
    case ANSWER_REFUSED:
        break;
    }
    return QUORUM_REFUSED;
}

static unsigned nodes_sent(const struct redlock_round *round)
{
    unsigned sent = 0;

    for (unsigned i = 0; i < round->session->config->count; i++)
        sent += round->answers[i].state != ANSWER_NOT_SENT;
    return sent;
}

/* Waits for connections only while fewer nodes than a majority were asked. */
static enum redlock_quorum_verdict verdict(struct redlock_round *round)
{
    const struct redlock_config *config = round->session->config;
    int64_t now_ns = redlock_session_now(round->session);
    bool connections = nodes_sent(round) < config->need && now_ns < round->deadline_ns;

    for (unsigned i = 0; i < config->count; i++)
        round->votes[i] = vote_of(round, i, connections, now_ns);
    round->tally = redlock_quorum_count(round->votes, config->count);
    return round->judge(round);
}

/* A round with `all` goes on while an answer of a node that is usually in time is missing. */
static bool is_over(const struct redlock_round *round)
{
    if (round->verdict == QUORUM_WAIT)
        return false;
    if (!round->all ||
        redlock_session_now(round->session) >= round->start_ns + round->node_timeout_ns)
        return true;
    for (unsigned i = 0; i < round->session->config->count; i++)
        if (round->answers[i].state == ANSWER_PENDING && !round->answers[i].straggler)
            return false;
    return true;
}

static int64_t wake_at(const struct redlock_round *round)
{
    int64_t at_ns = round->deadline_ns;

    for (unsigned i = 0; i < round->session->config->count; i++)
        if (round->answers[i].state == ANSWER_PENDING)
            at_ns = earlier(at_ns, round->answers[i].until_ns);
    return round->verdict == QUORUM_WAIT ? at_ns
                                         : earlier(at_ns, round->start_ns + round->node_timeout_ns);
}

/* The least number of further answers that can decide the round. */
static unsigned answers_needed(const struct redlock_round *round)
{
    const struct redlock_quorum_tally *tally = &round->tally;
    unsigned heard = tally->yes + tally->no, lost = tally->no + tally->refused + tally->silent;
    unsigned yes = tally->need > heard ? tally->need - heard : 0;
    unsigned no = tally->nodes - tally->need + 1 > lost ? tally->nodes - tally->need + 1 - lost : 0;

    return yes < no ? yes : no;
}

/* Bits of the nodes whose answers need not wake the thread: if n answers are needed, the first n -
 * 1 nodes are read when an answer of another node has arrived. */
static unsigned nodes_deferred(const struct redlock_round *round)
{
    unsigned needed = answers_needed(round), bits = 0;

    for (unsigned i = 0; i < round->tally.nodes && needed > 1; i++) {
        if (round->answers[i].state == ANSWER_PENDING) {
            bits |= 1u << i;
            needed--;
        }
    }
    return bits;
}

static void leave_out(struct redlock_round *round)
{
    for (unsigned i = 0; i < round->session->config->count; i++)
        if (!is_asked(round, i))
            refuse(&round->answers[i], DLOCK_OK, "not asked");
}

/* ---- running ---- */

static bool round_begin(struct redlock_round *round, int64_t now_ns)
{
    round->bytes = redlock_node_request_format(round->request, false, &round->len);
    round->no_memory = round->bytes == NULL;
    round->sent.round_id = ++last_round_id;
    round->sent.rechecks = round->new_lock;
    round->start_ns = now_ns;
    round->verdict = QUORUM_WAIT;
    leave_out(round);
    return !round->no_memory;
}

static void round_end(struct redlock_round *round)
{
    round->ended = true;
    free(round->bytes);
    round->bytes = NULL;
}

static void all_update(struct redlock_session *session)
{
    redlock_session_cork(session);
    for (size_t i = 0; i < session->round_count; i++)
        if (!session->rounds[i]->ended)
            nodes_update(session->rounds[i]);
    redlock_session_uncork(session);
}

/* Ends the rounds that have a verdict. False: the others go on until *until_ns, and the nodes of
 * *deferred need not wake the thread. */
static bool all_judge(const struct redlock_session *session, int64_t *until_ns, unsigned *deferred)
{
    bool over = true;

    *until_ns = INT64_MAX;
    *deferred = UINT32_MAX;
    for (size_t i = 0; i < session->round_count; i++) {
        struct redlock_round *round = session->rounds[i];

        if (round->ended)
            continue;
        round->verdict = verdict(round);
        if (is_over(round)) {
            round_end(round);
            continue;
        }
        over = false;
        *until_ns = earlier(*until_ns, wake_at(round));
        *deferred &= nodes_deferred(round);
    }
    return over;
}

/* The requests of these rounds do not count, nor those of a batch before. */
static void backlog_note(struct redlock_session *session)
{
    size_t few = REDLOCK_NODE_SENT_FEW;

    if (session->rounds_before > 1)
        few += REDLOCK_NODE_SENT_BATCH * session->rounds_before;
    session->rounds_before = session->round_count;
    session->backlog_mask = 0;
    for (unsigned i = 0; i < session->config->count; i++)
        if (session->nodes[i].count >= few)
            session->backlog_mask |= 1u << i;
}

static void all_run(struct redlock_session *session)
{
    int64_t until_ns = 0;
    unsigned deferred = 0;

    redlock_release_advance(session);
    backlog_note(session);
    for (;;) {
        all_update(session);
        if (all_judge(session, &until_ns, &deferred))
            return;
        session->deferred_mask = deferred;
        redlock_session_sleep(session, until_ns);
        session->deferred_mask = 0;
        redlock_release_advance(session);
    }
}

/* Answers to many requests take too long to poll for them. */
void redlock_round_run_all(struct redlock_round *const *rounds, size_t n)
{
    struct redlock_session *session = n > 0 ? rounds[0]->session : NULL;
    int64_t now_ns = n > 0 ? redlock_session_now(session) : 0;

    for (size_t i = 0; i < n; i++) {
        rounds[i]->ended = !round_begin(rounds[i], now_ns);
        if (rounds[i]->ended)
            rounds[i]->verdict = QUORUM_SHORT;
    }
    if (n == 0)
        return;
    session->rounds = rounds;
    session->round_count = n;
    if (n == 1)
        spin_begin(&session->spin, dl_time_now_ns(CLOCK_MONOTONIC));
    all_run(session);
    if (n == 1)
        spin_end(&session->spin, dl_time_now_ns(CLOCK_MONOTONIC), rounds[0]->verdict == QUORUM_WON);
    session->rounds = NULL;
    session->round_count = 0;
}

enum redlock_quorum_verdict redlock_round_run(struct redlock_round *round)
{
    redlock_round_run_all(&round, 1);
    return round->verdict;
}

static struct redlock_round *round_find(const struct redlock_session *session, uint64_t round_id)
{
    for (size_t i = 0; i < session->round_count; i++)
        if (!session->rounds[i]->ended && session->rounds[i]->sent.round_id == round_id)
            return session->rounds[i];
    return NULL;
}

enum redlock_quorum_verdict redlock_round_judge_heard(const struct redlock_round *round)
{
    const struct redlock_quorum_tally *tally = &round->tally;

    if (tally->yes + tally->no >= tally->need)
        return QUORUM_WON;
    return tally->open > 0 ? QUORUM_WAIT : QUORUM_SHORT;
}

/* ---- the lines of an error ---- */

static const char *vote_text(const struct redlock_answer *answer)
{
    switch (answer->state) {
    case ANSWER_GIVEN:
        return answer->vote == QUORUM_YES ? "granted" : "busy: held by another owner";
    case ANSWER_PENDING:
        return "not waited for any more";
    case ANSWER_NOT_SENT:
        return NULL;
    default:
        return answer->why;
    }
}

static enum dlock_status vote_status(const struct redlock_answer *answer)
{
    switch (answer->state) {
    case ANSWER_GIVEN:
        return answer->vote == QUORUM_YES ? DLOCK_OK : DLOCK_BUSY;
    case ANSWER_REFUSED:
        return answer->status;
    default:
        return DLOCK_UNKNOWN;
    }
}

void redlock_round_report(struct dlock_error *err, const struct redlock_round *round)
{
    redlock_session_report(err, round->session);
    for (unsigned i = 0; i < err->node_count; i++) {
        const char *text = vote_text(&round->answers[i]);

        if (text == NULL)
            continue;
        err->nodes[i].status = vote_status(&round->answers[i]);
        (void)snprintf(err->nodes[i].message, sizeof err->nodes[i].message, "%.95s", text);
    }
}

/* ---- what becomes of an answer: it is the vote of a round, or it comes after its round ---- */

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
    if (is_followed(session, node, sent) ||
        redlock_client_attempt_lives(session->client, sent->token))
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
        redlock_client_pending_add(&session->client->pending, node->index, &release,
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

void redlock_round_deliver(struct redlock_node *node, const struct redlock_sent_request *sent,
                           const redisReply *reply)
{
    struct redlock_session *session = node->owner;
    struct redlock_round *round = round_find(session, sent->round_id);
    struct redlock_sent_request release;

    if (sent->kind == SENT_RECHECK) {
        if (reply != NULL)
            round_recheck(session, node, sent->number);
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
        round_answer(round, node, sent, reply);
    } else {
        answer_after_round(session, node, sent, reply);
    }
}
