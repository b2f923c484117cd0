/* SPDX-License-Identifier: MIT */
#include "resp/guard.h"
#include "resp/reply.h"
#include "slots.h"
#include "take.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

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

/* A majority took the lock, and it is taken back. */
static bool is_without_fence(const struct redlock_take *taking)
{
    return taking->won && taking->verdict == QUORUM_SHORT;
}

static enum dlock_status take_failed(const struct redlock_take *taking)
{
    const struct redlock_round *round = &taking->round;
    const struct redlock_quorum_tally *tally = &round->tally;
    const struct redlock_config *config = taking->session->config;
    struct dlock_error *err = taking->err;
    enum dlock_status status = DLOCK_BUSY;

    if (is_without_fence(taking) && redlock_take_is_undone(taking))
        return redlock_take_raise_fail(taking, err);
    if (is_without_fence(taking))
        return redlock_config_fail(err, config, DLOCK_UNKNOWN,
                                   "no number fits as its fencing token, and it is not certain "
                                   "that the nodes took the lock back");
    if (round->no_memory)
        return redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a command");
    if (taking->verdict == QUORUM_UNSURE && redlock_take_is_undone(taking)) {
        if (redlock_take_noes(round) == 0)
            status = redlock_config_fail(err, config, DLOCK_NO_QUORUM,
                                         "too many nodes answered too late");
    } else if (taking->verdict == QUORUM_LOST) {
        taking->grant->holder_ms = holder_left(round);
    } else if (taking->verdict == QUORUM_SHORT && only_guarded(round) > 0) {
        taking->grant->holder_ms = guards_left(round);
        status = guard_fail(round, only_guarded(round), taking->grant->holder_ms, err);
    } else if (taking->verdict == QUORUM_SHORT) {
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

static enum dlock_status take_won(struct redlock_take *taking)
{
    struct dlock_grant *grant = taking->grant;

    grant->lease_ms = lease_of(&taking->round, taking->req->ttl_ms);
    grant->since_ns = taking->retries > 0 ? taking->sent_ns : 0;
    grant->fence = (uint64_t)taking->attempt->number;
    grant->fence_room = grant->fence != 0 ? REDLOCK_FENCE_NUMBERS - 1 : 0;
    return DLOCK_OK;
}

/* ---- many at once ---- */

/* The first request alone counts: a waiter finds the name free in the end. */
static void note_busy(const struct redlock_take *taking)
{
    const struct dlock_request *req = taking->req;

    if (taking->attempt->round == 1 && (taking->won || taking->verdict == QUORUM_LOST))
        redlock_client_note_busy(taking->session->client, req->name, req->name_len, !taking->won);
}

static void all_ask(struct redlock_take *const *takes, size_t n)
{
    redlock_take_ask(takes, n);
    for (size_t i = 0; i < n; i++)
        note_busy(takes[i]);
    redlock_take_raise(takes, n);
}

/* Takes back what was not won. */
static void others_undo(struct redlock_take *const *takes, size_t n)
{
    struct redlock_session *session = takes[0]->session;
    struct redlock_take *unsure[REDLOCK_BATCH_MOST] = {NULL};
    size_t count = 0;

    redlock_session_cork(session);
    for (size_t i = 0; i < n; i++) {
        if (takes[i]->verdict == QUORUM_WON)
            continue;
        redlock_take_undo(takes[i]);
        if (takes[i]->verdict == QUORUM_UNSURE || is_without_fence(takes[i]))
            unsure[count++] = takes[i];
    }
    redlock_session_uncork(session);
    redlock_take_undo_await(unsure, count);
}

/* A random time, so that attempts that collided do not collide again. */
static int64_t pause_until(struct redlock_session *session)
{
    int64_t most_ns = session->config->retry_delay_ms * DL_NS_PER_MS;
    uint64_t chance = 0;

    (void)session->host->random(session->host->ctx, &chance, sizeof chance);
    return redlock_session_now(session) + (int64_t)(chance % (uint64_t)(most_ns + 1));
}

static void pause(struct redlock_session *session, int64_t until_ns)
{
    while (redlock_session_now(session) < until_ns) {
        redlock_session_sleep(session, until_ns);
        redlock_release_advance(session);
    }
}

/* A split vote is repeated after a pause, if there is time. *pause_ns: the end of it; 0: not set.
 */
static bool is_repeated(struct redlock_take *taking, int64_t *pause_ns)
{
    if (taking->verdict != QUORUM_LOST || taking->retries >= taking->session->config->retry_count ||
        !redlock_take_is_split(&taking->round))
        return false;
    if (*pause_ns == 0)
        *pause_ns = pause_until(taking->session);
    return *pause_ns < taking->req->deadline_ns;
}

/* Ends the takes, but for those whose votes are repeated, of which it returns the number. They are
 * the first ones then. */
static size_t others_end(struct redlock_take **takes, size_t n, int64_t *pause_ns)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (takes[i]->verdict == QUORUM_WON) {
            takes[i]->status = take_won(takes[i]);
        } else if (is_repeated(takes[i], pause_ns)) {
            takes[i]->retries++;
            takes[count++] = takes[i];
        } else {
            takes[i]->status = take_failed(takes[i]);
        }
    }
    return count;
}

/* Sets the status of each. The array is used up. */
static void all_take(struct redlock_take **takes, size_t n)
{
    while (n > 0) {
        struct redlock_session *session = takes[0]->session;
        int64_t pause_ns = 0;

        all_ask(takes, n);
        others_undo(takes, n);
        n = others_end(takes, n, &pause_ns);
        if (n > 0)
            pause(session, pause_ns);
    }
}

/* ---- the slots ---- */

static bool take_begin(struct redlock_take *taking, struct redlock_session *session,
                       const struct dlock_request *req, struct dlock_grant *grant,
                       struct dlock_error *err)
{
    taking->status =
        resp_guard_judge_ttl(REDLOCK_ORIGIN, session->config->restart_guard_ms, req->ttl_ms, err);
    if (taking->status != DLOCK_OK)
        return false;
    redlock_take_init(taking, session, req);
    taking->grant = grant;
    taking->err = err;
    redlock_client_attempt_begin(session->client, taking->attempt, req->token);
    redlock_wait_ask(session, req);
    return true;
}

/* A waiter of wait_any that was refused enters the queues of the nodes. */
static void refused_enqueue(struct redlock_take *const *takes, size_t n)
{
    const struct dlock_request *reqs[REDLOCK_BATCH_MOST];
    struct dlock_grant *grants[REDLOCK_BATCH_MOST];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (takes[i]->status != DLOCK_BUSY || takes[i]->req->waiter == 0)
            continue;
        reqs[count] = takes[i]->req;
        grants[count++] = takes[i]->grant;
    }
    if (count > 0)
        redlock_wait_enqueue(takes[0]->session, reqs, grants, count);
}

static void run(struct redlock_take *const *takes, size_t n)
{
    struct redlock_take *used[REDLOCK_BATCH_MOST];

    memcpy(used, takes, n * sizeof *takes);
    all_take(used, n);
    refused_enqueue(takes, n);
}

enum dlock_status redlock_acquire(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct redlock_take *taking = malloc(sizeof *taking); /* too large for the stack */
    enum dlock_status status = DLOCK_INTERNAL;

    if (taking == NULL)
        return redlock_config_fail(err, session->config, DLOCK_NOMEM, "no memory for a request");
    if (take_begin(taking, session, req, grant, err))
        run(&taking, 1);
    status = taking->status;
    free(taking);
    return status;
}

static void some_acquire(struct redlock_session *session, struct redlock_take *room,
                         struct dlock_batch_op *const *ops, size_t n)
{
    struct redlock_take *takes[REDLOCK_BATCH_MOST];
    struct dlock_batch_op *of[REDLOCK_BATCH_MOST];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        struct redlock_take *taking = &room[count];

        if (!take_begin(taking, session, ops[i]->req, &ops[i]->grant, ops[i]->err)) {
            ops[i]->status = taking->status;
            continue;
        }
        of[count] = ops[i];
        takes[count++] = taking;
    }
    if (count > 0)
        run(takes, count);
    for (size_t i = 0; i < count; i++)
        of[i]->status = takes[i]->status;
}

enum dlock_status redlock_acquire_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                        struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct redlock_take *room = malloc(redlock_batch_part(n, 0) * sizeof *room);

    if (room == NULL)
        return redlock_config_fail(err, session->config, DLOCK_NOMEM, "no memory for a batch");
    for (size_t done = 0; done < n; done += REDLOCK_BATCH_MOST)
        some_acquire(session, room, ops + done, redlock_batch_part(n, done));
    free(room);
    return DLOCK_OK;
}
