/* SPDX-License-Identifier: MIT */
/* Unlock, and break for the lease of another owner. */
#include "attempt.h"
#include "inspect.h"
#include "lib/hex.h"
#include "round.h"
#include "slots.h"

#include <string.h>

#define ANY_HOLDER "*"

/* The answer is 1 if the node released the name, else 0. */
static enum redlock_quorum_vote release_read(struct redlock_round *round, unsigned i,
                                             const redisReply *reply)
{
    (void)round;
    (void)i;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0 || reply->integer > 1)
        return QUORUM_REFUSED;
    return reply->integer == 1 ? QUORUM_YES : QUORUM_NO;
}

static enum redlock_quorum_verdict release_judge(const struct redlock_round *round)
{
    return redlock_quorum_released(&round->tally);
}

/* The release is pending for the nodes that it was not sent to. */
static void release_rest(const struct redlock_round *round)
{
    struct redlock_session *session = round->session;

    for (unsigned i = 0; i < session->config->count; i++)
        if (round->answers[i].life == 0)
            redlock_release_later(session, i, &round->sent);
}

/* token: of the owner; NULL: the owner is another program. */
static enum dlock_status release(struct redlock_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *owner, const unsigned char *token,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    const struct redlock_config *config = session->config;
    REDLOCK_NOT_ZEROED struct redlock_release_request request;
    struct redlock_round round = {
        .session = session,
        .request = &request.request,
        .node_timeout_ns = redlock_config_timeout_ns(config, 0),
        .deadline_ns = deadline_ns,
        .all = token == NULL,
        .judge = release_judge,
        .read = release_read,
    };
    enum redlock_quorum_verdict verdict = QUORUM_SHORT;
    enum dlock_status status = DLOCK_OK;

    redlock_release_make(&request, config, name, name_len, owner, REDLOCK_ALL_ROUNDS,
                         REDLOCK_UNLOCK);
    if (token != NULL)
        redlock_release_fill(&round.sent, name, name_len, token, REDLOCK_ALL_ROUNDS,
                             REDLOCK_UNLOCK);
    verdict = redlock_round_run(&round);
    if (token != NULL)
        release_rest(&round);
    if (round.no_memory)
        status = redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a command");
    else if (verdict == QUORUM_LOST)
        status =
            redlock_config_fail(err, config, DLOCK_LOST, "not held by this owner on %u of %u nodes",
                                round.tally.no, round.tally.nodes);
    else if (verdict == QUORUM_SHORT)
        status = redlock_config_fail(err, config, DLOCK_UNAVAILABLE, "no node could be asked");
    else if (verdict != QUORUM_WON)
        status = redlock_config_fail(
            err, config, DLOCK_UNKNOWN, "%u of %u nodes answered, and %u are needed",
            round.tally.yes + round.tally.no, round.tally.nodes, round.tally.need);
    if (status != DLOCK_OK && status != DLOCK_LOST)
        redlock_round_report(err, &round);
    return status;
}

enum dlock_status redlock_unlock(void *self, const struct dlock_request *req,
                                 struct dlock_error *err)
{
    struct redlock_session *session = self;
    char token[RESP_HEX_SIZE];

    redlock_attempt_end(req->attempt); /* [UNL-4] */
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    return release(session, req->name, req->name_len, token, req->token, req->deadline_ns, err);
}

enum dlock_status redlock_unlock_break(void *self, const unsigned char *name, uint32_t name_len,
                                       const char *owner, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    struct redlock_session *session = self;
    enum dlock_status status = DLOCK_LOST;
    char owner_text[REDLOCK_OWNER_SIZE];

    (void)snprintf(owner_text, sizeof owner_text, "%s", owner != NULL ? owner : ANY_HOLDER);
    if (owner == NULL || strcmp(owner, ANY_HOLDER) != 0)
        status = release(session, name, name_len, owner_text, NULL, deadline_ns, err);
    if (status == DLOCK_LOST && redlock_inspect_foreign(session, name, name_len, deadline_ns, err))
        return DLOCK_CONFIG; /* nobody can take the name */
    if (status == DLOCK_LOST)
        return redlock_config_fail(err, session->config, DLOCK_NOT_HELD,
                                   owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
