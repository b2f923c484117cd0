/* SPDX-License-Identifier: MIT */
/* Giving a name back: unlock, and break for another owner's. */
#include "hub.h"
#include "lib/hex.h"
#include "look.h"
#include "redlock.h"

#include <string.h>

#define ANY_HOLDER "*"

/* 1: freed */
static enum quorum_vote release_read(struct redlock_round *round, unsigned i,
                                     const redisReply *reply)
{
    (void)round;
    (void)i;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0 || reply->integer > 1)
        return QUORUM_REFUSED;
    return reply->integer == 1 ? QUORUM_YES : QUORUM_NO;
}

static enum quorum_verdict release_judge(const struct redlock_round *round)
{
    return quorum_released(&round->tally);
}

/* Those that could not be told are told later. */
static void release_rest(const struct redlock_round *round)
{
    struct redlock_session *session = round->session;

    for (unsigned i = 0; i < session->place->count; i++)
        if (round->answers[i].life == 0)
            redlock_release_later(session, i, &round->ask);
}

/* token: of owner; NULL: not one of ours. */
static enum dlock_status release(struct redlock_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *owner, const unsigned char *token,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    const struct redlock_place *place = session->place;
    REDLOCK_NOT_ZEROED struct redlock_release_request request;
    struct redlock_round round = {
        .session = session,
        .request = &request.request,
        .node_timeout_ns = redlock_place_timeout_ns(place, 0),
        .deadline_ns = deadline_ns,
        .all = token == NULL,
        .judge = release_judge,
        .read = release_read,
    };
    enum quorum_verdict verdict = QUORUM_SHORT;
    enum dlock_status status = DLOCK_OK;

    redlock_release_make(&request, place, name, name_len, owner, REDLOCK_ALL_ROUNDS,
                         REDLOCK_UNLOCK);
    if (token != NULL)
        redlock_ask_fill(&round.ask, name, name_len, token, REDLOCK_ALL_ROUNDS, REDLOCK_UNLOCK);
    verdict = redlock_round_run(&round);
    if (token != NULL)
        release_rest(&round);
    if (round.no_memory)
        status = redlock_fail(err, place, DLOCK_NOMEM, "no memory for a command");
    else if (verdict == QUORUM_LOST)
        status = redlock_fail(err, place, DLOCK_LOST, "not held by this owner on %u of %u nodes",
                              round.tally.no, round.tally.nodes);
    else if (verdict == QUORUM_SHORT)
        status = redlock_fail(err, place, DLOCK_UNAVAILABLE, "no node could be told");
    else if (verdict != QUORUM_WON)
        status =
            redlock_fail(err, place, DLOCK_UNKNOWN, "%u of %u nodes answered, and %u are needed",
                         round.tally.yes + round.tally.no, round.tally.nodes, round.tally.need);
    if (status != DLOCK_OK && status != DLOCK_LOST)
        redlock_report(err, session, &round);
    return status;
}

enum dlock_status redlock_unlock(void *self, const struct dlock_request *req,
                                 struct dlock_error *err)
{
    struct redlock_session *session = self;
    char token[RESP_HEX_SIZE];

    redlock_hub_end(req->attempt); /* [UNL-4] */
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    return release(session, req->name, req->name_len, token, req->token, req->deadline_ns, err);
}

enum dlock_status redlock_break(void *self, const unsigned char *name, uint32_t name_len,
                                const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct redlock_session *session = self;
    enum dlock_status status = DLOCK_LOST;
    char shown[REDLOCK_OWNER_SIZE];

    (void)snprintf(shown, sizeof shown, "%s", owner != NULL ? owner : ANY_HOLDER);
    if (owner == NULL || strcmp(owner, ANY_HOLDER) != 0)
        status = release(session, name, name_len, shown, NULL, deadline_ns, err);
    if (status == DLOCK_LOST && redlock_look_foreign(session, name, name_len, deadline_ns, err))
        return DLOCK_CONFIG; /* not free either */
    if (status == DLOCK_LOST)
        return redlock_fail(err, session->place, DLOCK_NOT_HELD,
                            owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
