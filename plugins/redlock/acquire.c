/* SPDX-License-Identifier: MIT */
#include "raise.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "slots.h"
#include "wait_any.h"

#include <stdlib.h>

/* True: the node may have granted the lock, or may grant it later. */
static bool may_hold(const struct redlock_answer *answer)
{
    return answer->state == ANSWER_PENDING || answer->state == ANSWER_SILENT ||
           (answer->state == ANSWER_GIVEN && answer->vote == QUORUM_YES);
}

/* Undoes the request on each node that may have granted the lock. The undoing goes over the
 * connection of the request, so that it arrives after the request. */
static void take_undo(struct redlock_take *taking)
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

/* Waits, after UNSURE, until the nodes have confirmed the undoing. False: too few confirm it. */
static bool take_settle(struct redlock_take *taking)
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
        else if (redlock_take_is_no(round, i) && answer->number >= 0)
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

static enum dlock_status take_failed(struct redlock_take *taking,
                                     enum redlock_quorum_verdict verdict, struct dlock_grant *grant,
                                     struct dlock_error *err)
{
    const struct redlock_round *round = &taking->round;
    const struct redlock_quorum_tally *tally = &round->tally;
    const struct redlock_config *config = taking->session->config;
    enum dlock_status status = DLOCK_BUSY;

    if (round->no_memory)
        return redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a command");
    if (verdict == QUORUM_UNSURE && take_settle(taking)) {
        if (redlock_take_noes(round) == 0)
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
static bool take_pause(struct redlock_take *taking)
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
static void note_busy(const struct redlock_take *taking, bool busy)
{
    const struct dlock_request *req = taking->req;

    if (taking->attempt->round == 1)
        redlock_client_note_busy(taking->session->client, req->name, req->name_len, busy);
}

static enum dlock_status take(struct redlock_take *taking, struct dlock_grant *grant,
                              struct dlock_error *err)
{
    for (unsigned retries = 0;; retries++) {
        int64_t sent_ns = redlock_session_now(taking->session);
        enum redlock_quorum_verdict verdict = redlock_take_ask(taking);
        bool won = verdict == QUORUM_WON;

        if (won || verdict == QUORUM_LOST)
            note_busy(taking, verdict == QUORUM_LOST);
        if (won)
            verdict = redlock_raise_fence(taking);
        if (verdict == QUORUM_WON) {
            grant->lease_ms = lease_of(&taking->round, taking->req->ttl_ms);
            grant->since_ns = retries > 0 ? sent_ns : 0;
            grant->fence = (uint64_t)taking->attempt->number;
            grant->fence_room = grant->fence != 0 ? REDLOCK_FENCE_NUMBERS - 1 : 0;
            return DLOCK_OK;
        }
        take_undo(taking);
        if (won && verdict == QUORUM_SHORT)
            return redlock_raise_fail(taking, err);
        if (verdict != QUORUM_LOST || retries >= taking->session->config->retry_count ||
            !redlock_take_is_split(&taking->round) || !take_pause(taking))
            return take_failed(taking, verdict, grant, err);
    }
}

enum dlock_status redlock_acquire(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err)
{
    struct redlock_session *session = self;
    const struct redlock_config *config = session->config;
    struct redlock_take *taking = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    status = resp_guard_judge_ttl(REDLOCK_ORIGIN, config->restart_guard_ms, req->ttl_ms, err);
    if (status != DLOCK_OK)
        return status;
    taking = malloc(sizeof *taking); /* too large for the stack */
    if (taking == NULL)
        return redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a request");
    redlock_take_init(taking, session, req);
    redlock_attempt_begin(session->client, taking->attempt, req->token);
    redlock_wait_any_ask(session, req);
    status = take(taking, grant, err);
    free(taking);
    if (status == DLOCK_BUSY && dlock_request_waiter(req) != 0 &&
        !redlock_wait_any_enqueue(session, req))
        grant->flags |= DLOCK_GRANT_UNREPORTED;
    return status;
}
