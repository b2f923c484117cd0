/* SPDX-License-Identifier: MIT */
/*
 * A request goes to every node before the first answer is looked at. Who answers late is not waited
 * for once there is a verdict; the answer is taken when that connection is used again (session.c).
 */
#include "lib/time.h"
#include "redlock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic uint64_t calls; /* of this process */

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

/* An answer is missing for longer than one may take. */
static bool is_behind(const struct redlock_round *round, const struct redlock_node *node,
                      int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    return since_ns != 0 && now_ns - since_ns > round->node_timeout_ns;
}

/* The node that stands for the same server and was asked before; NULL: none. An address may lead
 * elsewhere each time that it is connected to, and a server has one vote. */
static const struct redlock_node *twin_of(const struct redlock_round *round,
                                          const struct redlock_node *node)
{
    for (unsigned i = 0; i < round->session->place->count; i++)
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

/* Whether it is to be asked. */
static bool may_be_asked(const struct redlock_round *round, const struct redlock_node *node,
                         struct redlock_answer *answer, int64_t now_ns)
{
    const struct redlock_node *twin = twin_of(round, node);

    if (twin != NULL)
        refuse(answer, DLOCK_CONFIG, "refused: the same server as %.60s",
               twin->connection.config->endpoint);
    else if (round->new_lock && node->votes_ns > now_ns)
        refuse_guarded(answer, node, now_ns);
    else if (round->strict && (node->count >= NODE_ASKS_FEW || is_behind(round, node, now_ns)))
        refuse(answer, DLOCK_UNAVAILABLE, "timed out: still owes the answer to an earlier request");
    return answer->state != ANSWER_REFUSED;
}

/* The first release on a connection brings the text of its script: if others decide the round,
 * nobody may look for long whether this node knew it. */
static bool request_send(struct redlock_round *round, struct redlock_node *node)
{
    bool whole = round->ask.kind == ASK_RELEASE && !node->knows_release;
    size_t len = round->len;
    char *bytes = whole ? redlock_request_format(round->request, true, &len) : round->bytes;
    bool sent = bytes != NULL && redlock_node_send(node, bytes, len, &round->ask);

    node->knows_release |= sent && whole;
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
    round->ask.sent_ns = now_ns;
    if (!request_send(round, node)) {
        refuse(answer, DLOCK_UNAVAILABLE, "not sent: %.80s", node->connection.why);
        return;
    }
    answer->state = ANSWER_PENDING;
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

/* Sends to those that are ready now, and gives up those that will not answer. */
static void nodes_look(struct redlock_round *round)
{
    struct redlock_session *session = round->session;
    int64_t now_ns = redlock_now(session);

    for (unsigned i = 0; i < session->place->count; i++) {
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
                           (long long)(now_ns - node->asks[node->first].sent_ns) / DL_NS_PER_MS);
        }
    }
}

/* ---- answers ---- */

/* The request, or `next`, once more; whole: with the script. */
static void send_again(struct redlock_round *round, struct redlock_node *node, bool whole)
{
    size_t len = 0;
    bool next = round->answers[node->index].again;
    char *bytes = redlock_request_format(next ? round->next : round->request, whole, &len);
    struct redlock_answer *answer = &round->answers[node->index];

    if (bytes == NULL || !redlock_node_send(node, bytes, len, &round->ask))
        refuse(answer, DLOCK_UNAVAILABLE, "a second request cannot be sent");
    free(bytes);
}

/* The node did nothing so far. Once its time or the round is over, a release may be on its way, and
 * what it would do now would come after that. */
static void ask_again(struct redlock_round *round, struct redlock_node *node, bool whole)
{
    struct redlock_answer *answer = &round->answers[node->index];

    if (round->over || answer->state != ANSWER_PENDING) {
        refuse(answer, DLOCK_UNAVAILABLE, "timed out");
        return;
    }
    answer->again |= !whole;
    send_again(round, node, whole);
}

static void error_take(struct redlock_round *round, struct redlock_node *node,
                       const redisReply *reply)
{
    struct redlock_answer *answer = &round->answers[node->index];
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_INTERNAL;
    const char *text = NULL;

    if (resp_error_is(reply, "NOSCRIPT")) {
        ask_again(round, node, true);
        return;
    }
    status = resp_error_take(node->connection.config, reply, &err);
    text = strstr(err.message, ": ");
    refuse(answer, status, "%.95s", text != NULL ? text + 2 : err.message);
    if (status == DLOCK_UNKNOWN) /* it may come from the middle of a script */
        answer->state = ANSWER_SILENT;
}

void redlock_round_answer(struct redlock_round *round, struct redlock_node *node,
                          const redisReply *reply)
{
    struct redlock_answer *answer = &round->answers[node->index];

    if (answer->state != ANSWER_PENDING && answer->state != ANSWER_SILENT)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        error_take(round, node, reply);
        return;
    }
    answer->vote = round->read(round, node->index, reply);
    if (answer->vote == QUORUM_OPEN) {
        ask_again(round, node, false);
        return;
    }
    answer->state = ANSWER_GIVEN;
    if (answer->vote == QUORUM_REFUSED)
        resp_connection_drop(&node->connection, DLOCK_PROTOCOL, "not an answer to this question");
    if (answer->vote == QUORUM_REFUSED) { /* whatever it did */
        answer->state = ANSWER_SILENT;
        (void)snprintf(answer->why, sizeof answer->why, "%s", node->connection.why);
    }
}

/* ---- the verdict ---- */

static enum quorum_vote vote_of(const struct redlock_round *round, unsigned i, bool connections,
                                int64_t now_ns)
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

    for (unsigned i = 0; i < round->session->place->count; i++)
        sent += round->answers[i].state != ANSWER_NOT_SENT;
    return sent;
}

/* Connections are waited for only while fewer than a majority could be asked. */
static enum quorum_verdict verdict(struct redlock_round *round)
{
    const struct redlock_place *place = round->session->place;
    int64_t now_ns = redlock_now(round->session);
    bool connections = nodes_sent(round) < place->need && now_ns < round->deadline_ns;

    for (unsigned i = 0; i < place->count; i++)
        round->votes[i] = vote_of(round, i, connections, now_ns);
    round->tally = quorum_count(round->votes, place->count);
    return round->judge(round);
}

/* A round for all goes on while one that usually is in time has not answered. */
static bool is_over(const struct redlock_round *round, enum quorum_verdict result, int64_t start_ns)
{
    if (result == QUORUM_WAIT)
        return false;
    if (!round->all || redlock_now(round->session) >= start_ns + round->node_timeout_ns)
        return true;
    for (unsigned i = 0; i < round->session->place->count; i++)
        if (round->answers[i].state == ANSWER_PENDING && !round->answers[i].straggler)
            return false;
    return true;
}

static int64_t wake_at(const struct redlock_round *round, enum quorum_verdict result,
                       int64_t start_ns)
{
    int64_t at_ns = round->deadline_ns;

    for (unsigned i = 0; i < round->session->place->count; i++)
        if (round->answers[i].state == ANSWER_PENDING)
            at_ns = earlier(at_ns, round->answers[i].until_ns);
    return result == QUORUM_WAIT ? at_ns : earlier(at_ns, start_ns + round->node_timeout_ns);
}

/* How many answers more it takes at least to decide it. */
static unsigned answers_needed(const struct redlock_round *round)
{
    const struct quorum_tally *tally = &round->tally;
    unsigned heard = tally->yes + tally->no, lost = tally->no + tally->refused + tally->silent;
    unsigned yes = tally->need > heard ? tally->need - heard : 0;
    unsigned no = tally->nodes - tally->need + 1 > lost ? tally->nodes - tally->need + 1 - lost : 0;

    return yes < no ? yes : no;
}

/* Nodes that nobody needs to be woken for: all but one of the answers that it takes may come from
 * those that were asked first. They are looked at when another one's has come. */
static unsigned nodes_quiet(const struct redlock_round *round)
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
    for (unsigned i = 0; i < round->session->place->count; i++)
        if (!is_asked(round, i))
            refuse(&round->answers[i], DLOCK_OK, "not asked");
}

static enum quorum_verdict run(struct redlock_round *round)
{
    struct redlock_session *session = round->session;
    int64_t start_ns = redlock_now(session);

    leave_out(round);
    for (;;) {
        enum quorum_verdict result = QUORUM_WAIT;

        redlock_release_advance(session);
        nodes_look(round);
        result = verdict(round);
        if (is_over(round, result, start_ns))
            return result;
        session->quiet = nodes_quiet(round);
        redlock_session_sleep(session, wake_at(round, result, start_ns));
        session->quiet = 0;
    }
}

enum quorum_verdict redlock_round_run(struct redlock_round *round)
{
    struct redlock_session *session = round->session;
    enum quorum_verdict result = QUORUM_SHORT;

    round->bytes = redlock_request_format(round->request, false, &round->len);
    round->no_memory = round->bytes == NULL;
    if (round->no_memory)
        return QUORUM_SHORT;
    round->ask.call = ++calls;
    session->round = round;
    spin_begin(&session->spin, dl_time_now_ns(CLOCK_MONOTONIC));
    result = run(round);
    free(round->bytes);
    spin_end(&session->spin, dl_time_now_ns(CLOCK_MONOTONIC), result == QUORUM_WON);
    session->round = NULL;
    return result;
}

enum quorum_verdict redlock_judge_heard(const struct redlock_round *round)
{
    const struct quorum_tally *tally = &round->tally;

    if (tally->yes + tally->no >= tally->need)
        return QUORUM_WON;
    return tally->open > 0 ? QUORUM_WAIT : QUORUM_SHORT;
}
