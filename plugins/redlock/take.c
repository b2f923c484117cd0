/* SPDX-License-Identifier: MIT */
#include "take.h"
#include "lib/text.h"
#include "resp/reply.h"

#include <string.h>
#include <time.h>

bool redlock_take_wants_fence(const struct redlock_take *taking)
{
    return taking->session->config->fences && taking->req->mode == DLOCK_EXCLUSIVE;
}

/* Reads { 1, lease, number, clock }. A lease that the node had before keeps the clock of its
 * beginning. */
static enum redlock_quorum_vote grant_read(struct redlock_round *round, unsigned i,
                                           const redisReply *reply)
{
    struct redlock_take *taking = round->data;
    struct redlock_fence_vote *fence = &taking->fences[i];
    int64_t clock_us = 0;

    if (reply->elements != 4 ||
        !resp_reply_int(reply, 1, 1, RESP_LEASE_MAX_MS, &round->answers[i].number) ||
        !resp_reply_int(reply, 2, redlock_take_wants_fence(taking), REDLOCK_FENCE_MOST,
                        &fence->number) ||
        !resp_reply_int(reply, 3, redlock_take_wants_fence(taking), REDLOCK_FENCE_MOST, &clock_us))
        return QUORUM_REFUSED;
    if (fence->clock_us == 0)
        fence->clock_us = clock_us;
    if (redlock_take_wants_fence(taking) && taking->attempt->round == 1)
        redlock_fence_note(&taking->session->client->clocks, i, clock_us, round->sent.sent_ns);
    return QUORUM_YES;
}

/* SET answers OK or nil; the script answers { 1, lease, number, clock } or
 * { 0, left, owner, clock }. */
static enum redlock_quorum_vote acquire_read(struct redlock_round *round, unsigned i,
                                             const redisReply *reply)
{
    struct redlock_take *taking = round->data;
    struct redlock_answer *answer = &round->answers[i];
    const redisReply *owner = NULL;
    bool plain = round->request == &taking->plain && !answer->again;
    int64_t taken = 0, clock_ms = 0;

    answer->number = taking->req->ttl_ms;
    if (plain && reply->type == REDIS_REPLY_STATUS)
        return QUORUM_YES;
    if (plain && reply->type == REDIS_REPLY_NIL)
        return QUORUM_OPEN;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        !resp_reply_int(reply, 0, 0, 1, &taken))
        return QUORUM_REFUSED;
    if (taken == 1)
        return grant_read(round, i, reply);
    if (reply->elements != 4 || !resp_reply_int(reply, 1, -1, INT64_MAX, &answer->number) ||
        !resp_reply_int(reply, 3, 0, INT64_MAX, &clock_ms))
        return QUORUM_REFUSED;
    owner = resp_reply_text(reply, 2);
    if (owner == NULL)
        return QUORUM_REFUSED;
    (void)snprintf(taking->owners[i], REDLOCK_TAKE_OWNER, "%s", owner->str);
    if (clock_ms > taking->attempt->clock_ms)
        taking->attempt->clock_ms = clock_ms;
    return QUORUM_NO;
}

bool redlock_take_is_no(const struct redlock_round *round, unsigned i)
{
    return round->answers[i].state == ANSWER_GIVEN && round->answers[i].vote == QUORUM_NO;
}

unsigned redlock_take_noes(const struct redlock_round *round)
{
    unsigned count = 0;

    for (unsigned i = 0; i < round->session->config->count; i++)
        count += redlock_take_is_no(round, i);
    return count;
}

/* True: one owner may hold a majority, if `more` nodes have it besides the nodes that name it. */
static bool holder_with(const struct redlock_round *round, unsigned more)
{
    const struct redlock_take *taking = round->data;
    unsigned nodes = round->session->config->count;

    for (unsigned i = 0; i < nodes; i++) {
        unsigned his = 0;

        for (unsigned j = 0; j < nodes; j++)
            his += redlock_take_is_no(round, i) && redlock_take_is_no(round, j) &&
                   strcmp(taking->owners[i], taking->owners[j]) == 0;
        if (redlock_take_is_no(round, i) &&
            (taking->owners[i][0] == '\0' || his + more >= round->session->config->need))
            return true;
    }
    return false;
}

static struct redlock_fence_choice fence_choose(const struct redlock_take *taking)
{
    const struct redlock_config *config = taking->session->config;

    return redlock_fence_choose(taking->fences, config->count, config->need, taking->req->ttl_ms);
}

/* As long as no owner is known to have a majority, the round waits for all answers: a split vote is
 * repeated. */
static enum redlock_quorum_verdict acquire_judge(const struct redlock_round *round)
{
    const struct redlock_take *taking = round->data;
    enum redlock_quorum_verdict verdict = redlock_quorum_acquired(&round->tally);

    if (verdict == QUORUM_WON && round->tally.open > 0 && redlock_take_wants_fence(taking) &&
        fence_choose(taking).number == 0)
        return QUORUM_WAIT;

    if (verdict == QUORUM_LOST && round->tally.open > 0 && !holder_with(round, 0))
        return QUORUM_WAIT;
    return verdict;
}

bool redlock_take_is_split(const struct redlock_round *round)
{
    const struct redlock_quorum_tally *tally = &round->tally;

    return !holder_with(round, tally->nodes - tally->yes - tally->no);
}

static void take_write(struct redlock_take *taking)
{
    const struct dlock_request *req = taking->req;
    struct resp_command *command = &taking->script.command;

    redlock_node_request_begin(&taking->script, REDLOCK_SCRIPT_ACQUIRE, 1);
    redlock_node_request_name(&taking->script, &taking->keys);
    resp_command_text(command, taking->token);
    resp_command_text(command, taking->number);
    resp_command_text(command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(command, taking->ttl);
    resp_command_text(command, "TRY");
    resp_command_text(command, req->label != NULL ? req->label : "");
    resp_command_text(command, taking->fence);
}

static char *word_put(char *at, const char *word)
{
    while (*word != '\0')
        *at++ = *word++;
    *at++ = ' ';
    return at;
}

/* Makes the SET that does what the script does for a name without holders and waiters. The time in
 * the value is of our clock, as only people read it. */
static void plain_make(struct redlock_take *taking)
{
    const struct dlock_request *req = taking->req;
    struct resp_command *command = &taking->plain.command;
    char since[RESP_DIGITS], *at = taking->value;

    (void)resp_command_number(since, dl_time_now_ns(CLOCK_REALTIME) / DL_NS_PER_MS);
    at = word_put(word_put(word_put(at, taking->token), taking->number), "0");
    at = word_put(at, since);
    (void)snprintf(at, REDLOCK_TAKE_LABEL, "%s", req->label != NULL ? req->label : "");
    taking->plain.script = NULL;
    resp_command_begin(command);
    resp_command_text(command, "SET");
    resp_command_add(command, taking->keys.bytes[0], taking->keys.lens[0]);
    resp_command_text(command, taking->value);
    resp_command_text(command, "NX");
    resp_command_text(command, "PX");
    resp_command_text(command, taking->ttl);
}

static void fence_ask(struct redlock_take *taking)
{
    struct redlock_session *session = taking->session;
    const struct redlock_config *config = session->config;

    memset(taking->fences, 0, sizeof taking->fences);
    memcpy(taking->fence, "-", sizeof "-");
    if (!redlock_take_wants_fence(taking))
        return;
    for (unsigned i = 0; i < config->count; i++)
        if (session->nodes[i].connection.state == RESP_READY)
            redlock_fence_first(&session->client->clocks, i,
                                session->nodes[i].connection.info.clock_us,
                                session->nodes[i].ready_ns);
    (void)resp_command_number(
        taking->fence, redlock_fence_guess(&session->client->clocks, config->count, config->need,
                                           taking->req->ttl_ms, redlock_session_now(session)));
}

static void ask_begin(struct redlock_take *taking)
{
    const struct dlock_request *req = taking->req;
    struct redlock_round *round = &taking->round;
    const struct redlock_config *config = taking->session->config;
    bool plain = req->mode == DLOCK_EXCLUSIVE && !config->fences && taking->attempt->round == 0 &&
                 !redlock_client_was_busy(taking->session->client, req->name, req->name_len);

    taking->sent_ns = redlock_session_now(taking->session);
    taking->attempt->round++;
    (void)resp_command_number(taking->number, taking->attempt->round);
    (void)resp_command_number(taking->ttl, req->ttl_ms);
    fence_ask(taking);
    take_write(taking);
    if (plain)
        plain_make(taking);
    *round = (struct redlock_round){
        .session = taking->session,
        .request = plain ? &taking->plain : &taking->script,
        .next = plain ? &taking->script : NULL,
        .sent = {.kind = SENT_ACQUIRE, .round = taking->attempt->round, .name_len = req->name_len},
        .node_timeout_ns = redlock_config_timeout_ns(config, req->ttl_ms),
        .deadline_ns = req->deadline_ns,
        .strict = true,
        .new_lock = true,
        .judge = acquire_judge,
        .read = acquire_read,
        .data = taking,
    };
    memcpy(round->sent.token, req->token, sizeof round->sent.token);
    memcpy(round->sent.name, req->name, req->name_len);
}

void redlock_take_ask(struct redlock_take *const *takes, size_t n)
{
    struct redlock_round *rounds[REDLOCK_BATCH_MOST] = {NULL};

    for (size_t i = 0; i < n; i++) {
        ask_begin(takes[i]);
        rounds[i] = &takes[i]->round;
    }
    redlock_round_run_all(rounds, n);
    for (size_t i = 0; i < n; i++) {
        takes[i]->verdict = takes[i]->round.verdict;
        takes[i]->won = takes[i]->verdict == QUORUM_WON;
    }
}

void redlock_take_init(struct redlock_take *taking, struct redlock_session *session,
                       const struct dlock_request *req)
{
    memset(taking->owners, 0, sizeof taking->owners);
    taking->session = session;
    taking->req = req;
    taking->attempt = req->attempt;
    taking->status = DLOCK_INTERNAL;
    taking->retries = 0;
    resp_keys_make(&taking->keys, &session->config->nodes[0], req->name, req->name_len);
    dl_hex_encode(taking->token, req->token, DLOCK_TOKEN_SIZE);
}

/* ---- one fencing token on a majority ---- */

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
    struct redlock_fence_choice choice = fence_choose(taking);

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
    take_write(taking);
    taking->raise.sent.round = taking->round.sent.round = taking->attempt->round;
}

/* True: nodes have to be asked. */
static bool needs_raise(struct redlock_take *taking, struct redlock_fence_choice *choice)
{
    *choice = fence_choose(taking);
    if (choice->number == 0)
        taking->verdict = QUORUM_SHORT;
    return choice->number != 0 && choice->agreed < taking->session->config->need;
}

void redlock_take_raise(struct redlock_take *const *takes, size_t n)
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
            takes[i]->attempt->number = fence_choose(takes[i]).number;
}

/* Clocks that were set back pass the numbers some time; clocks that are apart may stay so. */
enum dlock_status redlock_take_raise_fail(const struct redlock_take *taking,
                                          struct dlock_error *err)
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

/* ---- taking back what was not won ---- */

/* True: the node may have granted the lock, or may grant it later. */
static bool may_hold(const struct redlock_answer *answer)
{
    return answer->state == ANSWER_PENDING || answer->state == ANSWER_SILENT ||
           (answer->state == ANSWER_GIVEN && answer->vote == QUORUM_YES);
}

/* The undoing goes over the connection of the request, so that it arrives after the request. */
void redlock_take_undo(struct redlock_take *taking)
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

bool redlock_take_is_undone(const struct redlock_take *taking)
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

void redlock_take_undo_await(struct redlock_take *const *takes, size_t n)
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
