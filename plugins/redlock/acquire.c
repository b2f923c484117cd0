/* SPDX-License-Identifier: MIT */
#include "attempt.h"
#include "lib/hex.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "round.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LABEL_SIZE 512
#define OWNER_SIZE 40 /* a token, or the beginning of another program's text */

struct taking {
    struct redlock_session *session;
    const struct dlock_request *req;
    struct redlock_attempt *attempt;
    struct redlock_request script, plain;
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], number[RESP_DIGITS], ttl[RESP_DIGITS];
    char value[RESP_HEX_SIZE + 2 * RESP_DIGITS + LABEL_SIZE]; /* of plain */
    char owners[REDLOCK_NODES_MAX][OWNER_SIZE]; /* of nodes that said no; "": several owners */
    struct redlock_round round;
};

/* SET answers OK or nil; the script answers { 1, lease } or { 0, left, owner, clock }. */
static enum redlock_quorum_vote acquire_read(struct redlock_round *round, unsigned i,
                                             const redisReply *reply)
{
    struct taking *taking = round->data;
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
        return resp_reply_int(reply, 1, 1, RESP_LEASE_MAX_MS, &answer->number) ? QUORUM_YES
                                                                               : QUORUM_REFUSED;
    if (reply->elements != 4 || !resp_reply_int(reply, 1, -1, INT64_MAX, &answer->number) ||
        !resp_reply_int(reply, 3, 0, INT64_MAX, &clock_ms))
        return QUORUM_REFUSED;
    owner = resp_reply_text(reply, 2);
    if (owner == NULL)
        return QUORUM_REFUSED;
    (void)snprintf(taking->owners[i], OWNER_SIZE, "%s", owner->str);
    if (clock_ms > taking->attempt->clock_ms)
        taking->attempt->clock_ms = clock_ms;
    return QUORUM_NO;
}

static bool said_no(const struct redlock_round *round, unsigned i)
{
    return round->answers[i].state == ANSWER_GIVEN && round->answers[i].vote == QUORUM_NO;
}

static unsigned said_no_count(const struct redlock_round *round)
{
    unsigned count = 0;

    for (unsigned i = 0; i < round->session->config->count; i++)
        count += said_no(round, i);
    return count;
}

/* True: one owner may hold a majority, if `more` nodes have it besides the nodes that name it. */
static bool holder_with(const struct redlock_round *round, unsigned more)
{
    const struct taking *taking = round->data;
    unsigned nodes = round->session->config->count;

    for (unsigned i = 0; i < nodes; i++) {
        unsigned his = 0;

        for (unsigned j = 0; j < nodes; j++)
            his += said_no(round, i) && said_no(round, j) &&
                   strcmp(taking->owners[i], taking->owners[j]) == 0;
        if (said_no(round, i) &&
            (taking->owners[i][0] == '\0' || his + more >= round->session->config->need))
            return true;
    }
    return false;
}

/* As long as no owner is known to have a majority, the round waits for all answers: a split vote is
 * repeated. */
static enum redlock_quorum_verdict acquire_judge(const struct redlock_round *round)
{
    enum redlock_quorum_verdict verdict = redlock_quorum_acquired(&round->tally);

    if (verdict == QUORUM_LOST && round->tally.open > 0 && !holder_with(round, 0))
        return QUORUM_WAIT;
    return verdict;
}

/* True: nobody has a majority. The owners that the nodes name have lost the vote, too. */
static bool is_split(const struct redlock_round *round)
{
    const struct redlock_quorum_tally *tally = &round->tally;

    return !holder_with(round, tally->nodes - tally->yes - tally->no);
}

static void script_make(struct taking *taking)
{
    const struct dlock_request *req = taking->req;
    struct resp_command *command = &taking->script.command;

    redlock_request_begin(&taking->script, REDLOCK_SCRIPT_ACQUIRE, 1);
    redlock_request_name(&taking->script, &taking->keys);
    resp_command_text(command, taking->token);
    resp_command_text(command, taking->number);
    resp_command_text(command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(command, taking->ttl);
    resp_command_text(command, "TRY");
    resp_command_text(command, req->label != NULL ? req->label : "");
}

static char *word_put(char *at, const char *word)
{
    size_t len = strlen(word);

    memcpy(at, word, len);
    at[len] = ' ';
    return at + len + 1;
}

/* Makes the SET that does what the script does for a name without holders and waiters. The time in
 * the value is of our clock, as only people read it. */
static void plain_make(struct taking *taking)
{
    const struct dlock_request *req = taking->req;
    struct resp_command *command = &taking->plain.command;
    char since[RESP_DIGITS], *at = taking->value;

    (void)resp_command_number(since, dl_time_now_ns(CLOCK_REALTIME) / DL_NS_PER_MS);
    at = word_put(word_put(word_put(at, taking->token), taking->number), since);
    (void)snprintf(at, LABEL_SIZE, "%s", req->label != NULL ? req->label : "");
    taking->plain.script = NULL;
    resp_command_begin(command);
    resp_command_text(command, "SET");
    resp_command_add(command, taking->keys.bytes[0], taking->keys.lens[0]);
    resp_command_text(command, taking->value);
    resp_command_text(command, "NX");
    resp_command_text(command, "PX");
    resp_command_text(command, taking->ttl);
}

static enum redlock_quorum_verdict take_round(struct taking *taking)
{
    const struct dlock_request *req = taking->req;
    struct redlock_round *round = &taking->round;
    const struct redlock_config *config = taking->session->config;
    bool plain = req->mode == DLOCK_EXCLUSIVE && taking->attempt->round == 0 &&
                 !redlock_client_was_busy(taking->session->client, req->name, req->name_len);

    taking->attempt->round++;
    (void)resp_command_number(taking->number, taking->attempt->round);
    (void)resp_command_number(taking->ttl, req->ttl_ms);
    script_make(taking);
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
    return redlock_round_run(round);
}

/* True: the node may have granted the lock, or may grant it later. */
static bool may_hold(const struct redlock_answer *answer)
{
    return answer->state == ANSWER_PENDING || answer->state == ANSWER_SILENT ||
           (answer->state == ANSWER_GIVEN && answer->vote == QUORUM_YES);
}

/* Undoes the request on each node that may have granted the lock. The undoing goes over the
 * connection of the request, so that it arrives after the request. */
static void take_undo(struct taking *taking)
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
static unsigned unsettled(const struct taking *taking, bool *waiting)
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

/* Waits, after UNSURE, until the nodes have confirmed the undoing. False: too few confirm it. */
static bool take_settle(struct taking *taking)
{
    struct redlock_session *session = taking->session;
    bool waiting = true;

    taking->round.over = true;
    session->round = &taking->round; /* late votes tell whether there is a holder */
    while (unsettled(taking, &waiting) >= session->config->need && waiting &&
           redlock_session_now(session) < taking->req->deadline_ns) {
        redlock_session_sleep(session, taking->req->deadline_ns);
        redlock_release_advance(session);
    }
    session->round = NULL;
    return unsettled(taking, &waiting) < session->config->need;
}

/* The time until so many guards have ended that a majority has a vote. */
static int64_t guards_left(const struct redlock_round *round)
{
    const struct redlock_quorum_tally *tally = &round->tally;
    int64_t left[REDLOCK_NODES_MAX];
    size_t count = 0;

    for (unsigned i = 0; i < tally->nodes; i++)
        if (round->answers[i].guard_ms > 0)
            left[count++] = round->answers[i].guard_ms;
    return redlock_quorum_latest(left, count, tally->need - (tally->nodes - tally->refused));
}

/* The time until a majority can be free and have a vote; -1: not known. */
static int64_t holder_left(const struct redlock_round *round)
{
    int64_t left[REDLOCK_NODES_MAX];
    size_t count = 0;

    for (unsigned i = 0; i < round->session->config->count; i++) {
        const struct redlock_answer *answer = &round->answers[i];

        if (answer->guard_ms > 0)
            left[count++] = answer->guard_ms;
        else if (said_no(round, i) && answer->number >= 0)
            left[count++] = answer->number;
    }
    return redlock_quorum_latest(left, count, round->tally.need - round->tally.yes);
}

static int64_t lease_of(const struct redlock_round *round, int64_t ttl_ms)
{
    int64_t leases[REDLOCK_NODES_MAX];
    size_t count = 0;

    for (unsigned i = 0; i < round->session->config->count; i++)
        if (round->answers[i].state == ANSWER_GIVEN && round->answers[i].vote == QUORUM_YES)
            leases[count++] = round->answers[i].number;
    return resp_reply_lease_ms(redlock_quorum_least(leases, count, round->tally.need), ttl_ms);
}

/* The status that all nodes that refused have in common, if it is AUTH or CONFIG. */
static enum dlock_status refusal(const struct redlock_round *round)
{
    enum dlock_status common = DLOCK_OK;

    for (unsigned i = 0; i < round->session->config->count; i++) {
        const struct redlock_answer *answer = &round->answers[i];

        if (answer->state != ANSWER_REFUSED)
            continue;
        if (common != DLOCK_OK && answer->status != common)
            return DLOCK_NO_QUORUM;
        common = answer->status;
    }
    return common == DLOCK_AUTH || common == DLOCK_CONFIG ? common : DLOCK_NO_QUORUM;
}

/* Counts the nodes in their guard time. 0: without the guards there would be no majority either. */
static unsigned only_guarded(const struct redlock_round *round)
{
    const struct redlock_quorum_tally *tally = &round->tally;
    unsigned guarded = 0;

    for (unsigned i = 0; i < tally->nodes; i++)
        guarded += round->answers[i].guard_ms > 0;
    return tally->nodes - tally->refused + guarded >= tally->need ? guarded : 0;
}

/* [TRY-8] */
static enum dlock_status guard_fail(const struct redlock_round *round, unsigned guarded,
                                    int64_t left_ms, struct dlock_error *err)
{
    const struct redlock_config *config = round->session->config;
    char rest[RESP_GUARD_TEXT_SIZE];

    resp_guard_rest(rest, sizeof rest, left_ms);
    return redlock_config_fail(err, config, DLOCK_BUSY,
                               "%u of %u nodes were started less than %g s ago; %s", guarded,
                               config->count, (double)config->restart_guard_ms / 1000, rest);
}

static enum dlock_status take_failed(struct taking *taking, enum redlock_quorum_verdict verdict,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    const struct redlock_round *round = &taking->round;
    const struct redlock_quorum_tally *tally = &round->tally;
    const struct redlock_config *config = taking->session->config;
    enum dlock_status status = DLOCK_BUSY;

    if (round->no_memory)
        return redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a command");
    if (verdict == QUORUM_UNSURE && take_settle(taking)) {
        if (said_no_count(round) == 0)
            status = redlock_config_fail(err, config, DLOCK_NO_QUORUM,
                                         "too many nodes answered too late");
    } else if (verdict == QUORUM_LOST) {
        grant->holder_ms = holder_left(round);
    } else if (verdict == QUORUM_SHORT && only_guarded(round) > 0) {
        grant->holder_ms = guards_left(round);
        status = guard_fail(round, only_guarded(round), grant->holder_ms, err);
    } else if (verdict == QUORUM_SHORT) {
        status = redlock_config_fail(err, config, refusal(round),
                                     "%u of %u nodes could be asked for the lock, and it needs %u",
                                     tally->nodes - tally->refused, tally->nodes, tally->need);
    } else {
        status = redlock_config_fail(
            err, config, DLOCK_UNKNOWN,
            "%u of %u nodes granted the lock, which needs %u, and %u did not answer "
            "in time",
            tally->yes, tally->nodes, tally->need, tally->silent);
    }
    redlock_round_report(err, round);
    return status;
}

/* Sleeps for a random time, so that attempts that collided do not collide again. False: the
 * deadline is earlier. */
static bool take_pause(struct taking *taking)
{
    struct redlock_session *session = taking->session;
    int64_t most_ns = session->config->retry_delay_ms * DL_NS_PER_MS, until_ns = 0;
    uint64_t chance = 0;

    (void)session->host->random(session->host->ctx, &chance, sizeof chance);
    until_ns = redlock_session_now(session) + (int64_t)(chance % (uint64_t)(most_ns + 1));
    if (until_ns >= taking->req->deadline_ns)
        return false;
    while (redlock_session_now(session) < until_ns) {
        redlock_session_sleep(session, until_ns);
        redlock_release_advance(session);
    }
    return true;
}

/* The first request alone counts: a waiter finds the name free in the end. */
static void note_busy(const struct taking *taking, bool busy)
{
    const struct dlock_request *req = taking->req;

    if (taking->attempt->round == 1)
        redlock_client_note_busy(taking->session->client, req->name, req->name_len, busy);
}

static enum dlock_status take(struct taking *taking, struct dlock_grant *grant,
                              struct dlock_error *err)
{
    for (unsigned retries = 0;; retries++) {
        int64_t sent_ns = redlock_session_now(taking->session);
        enum redlock_quorum_verdict verdict = take_round(taking);

        if (verdict == QUORUM_WON || verdict == QUORUM_LOST)
            note_busy(taking, verdict == QUORUM_LOST);
        if (verdict == QUORUM_WON) {
            grant->lease_ms = lease_of(&taking->round, taking->req->ttl_ms);
            grant->since_ns = retries > 0 ? sent_ns : 0;
            return DLOCK_OK;
        }
        take_undo(taking);
        if (verdict != QUORUM_LOST || retries >= taking->session->config->retry_count ||
            !is_split(&taking->round) || !take_pause(taking))
            return take_failed(taking, verdict, grant, err);
    }
}

enum dlock_status redlock_acquire(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err)
{
    struct redlock_session *session = self;
    const struct redlock_config *config = session->config;
    struct taking *taking = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    status = resp_guard_judge_ttl(REDLOCK_ORIGIN, config->restart_guard_ms, req->ttl_ms, err);
    if (status != DLOCK_OK)
        return status;
    taking = malloc(sizeof *taking); /* too large for the stack */
    if (taking == NULL)
        return redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a request");
    memset(taking->owners, 0, sizeof taking->owners);
    taking->session = session;
    taking->req = req;
    taking->attempt = req->attempt;
    resp_keys_make(&taking->keys, &config->nodes[0], req->name, req->name_len);
    dl_hex_encode(taking->token, req->token, DLOCK_TOKEN_SIZE);
    redlock_attempt_begin(session->client, taking->attempt, req->token);
    status = take(taking, grant, err);
    free(taking);
    return status;
}
