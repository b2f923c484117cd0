/* SPDX-License-Identifier: MIT */
/* Unlock, and break for the lease of another owner. */
#include "client.h"
#include "lib/text.h"
#include "round.h"
#include "slots.h"

#include <stdlib.h>
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

/* A round that releases a name, and what it borrows. */
struct releasing {
    struct redlock_release_request request;
    const unsigned char *token; /* of the owner; NULL: the owner is another program */
    char owner[RESP_HEX_SIZE];  /* the token as text */
    struct redlock_round round;
};

/* owner: the text of another program, or NULL with a token. */
static void release_begin(struct releasing *releasing, struct redlock_session *session,
                          const struct dlock_request *req, const char *owner)
{
    releasing->token = owner == NULL ? req->token : NULL;
    releasing->round = (struct redlock_round){
        .session = session,
        .request = &releasing->request.request,
        .node_timeout_ns = redlock_config_timeout_ns(session->config, 0),
        .deadline_ns = req->deadline_ns,
        .all = owner != NULL,
        .judge = release_judge,
        .read = release_read,
    };
    if (owner == NULL) {
        dl_hex_encode(releasing->owner, req->token, DLOCK_TOKEN_SIZE);
        redlock_release_fill(&releasing->round.sent, req->name, req->name_len, req->token,
                             REDLOCK_ALL_ROUNDS, REDLOCK_UNLOCK);
    }
    redlock_release_make(&releasing->request, session->config, req->name, req->name_len,
                         owner == NULL ? releasing->owner : owner, REDLOCK_ALL_ROUNDS,
                         REDLOCK_UNLOCK);
}

/* The release is pending for the nodes that it was not sent to. */
static void release_rest(const struct redlock_round *round)
{
    struct redlock_session *session = round->session;

    for (unsigned i = 0; i < session->config->count; i++)
        if (round->answers[i].life == 0)
            redlock_release_later(session, i, &round->sent);
}

static enum dlock_status release_end(const struct releasing *releasing, struct dlock_error *err)
{
    const struct redlock_round *round = &releasing->round;
    const struct redlock_config *config = round->session->config;
    enum dlock_status status = DLOCK_OK;

    if (releasing->token != NULL)
        release_rest(round);
    if (round->no_memory)
        status = redlock_config_fail(err, config, DLOCK_NOMEM, "no memory for a command");
    else if (round->verdict == QUORUM_LOST)
        status =
            redlock_config_fail(err, config, DLOCK_LOST, "not held by this owner on %u of %u nodes",
                                round->tally.no, round->tally.nodes);
    else if (round->verdict == QUORUM_SHORT)
        status = redlock_config_fail(err, config, DLOCK_UNAVAILABLE, "no node could be asked");
    else if (round->verdict != QUORUM_WON)
        status = redlock_config_fail(
            err, config, DLOCK_UNKNOWN, "%u of %u nodes answered, and %u are needed",
            round->tally.yes + round->tally.no, round->tally.nodes, round->tally.need);
    if (status != DLOCK_OK && status != DLOCK_LOST)
        redlock_round_report(err, round);
    return status;
}

static enum dlock_status release(struct redlock_session *session, const struct dlock_request *req,
                                 const char *owner, struct dlock_error *err)
{
    REDLOCK_NOT_ZEROED struct releasing releasing;

    release_begin(&releasing, session, req, owner);
    (void)redlock_round_run(&releasing.round);
    return release_end(&releasing, err);
}

enum dlock_status redlock_unlock(void *self, const struct dlock_request *req,
                                 struct dlock_error *err)
{
    redlock_client_attempt_end(req->attempt); /* [UNL-4] */
    return release(self, req, NULL, err);
}

static void some_unlock(struct redlock_session *session, struct releasing *room,
                        struct dlock_batch_op *const *ops, size_t n)
{
    struct redlock_round *rounds[REDLOCK_BATCH_MOST] = {NULL};

    for (size_t i = 0; i < n; i++) {
        release_begin(&room[i], session, ops[i]->req, NULL);
        rounds[i] = &room[i].round;
    }
    redlock_round_run_all(rounds, n);
    for (size_t i = 0; i < n; i++)
        ops[i]->status = release_end(&room[i], ops[i]->err);
}

enum dlock_status redlock_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct releasing *room = malloc(redlock_batch_part(n, 0) * sizeof *room);

    for (size_t i = 0; i < n; i++)
        redlock_client_attempt_end(ops[i]->req->attempt); /* [UNL-4] */
    if (room == NULL)
        return redlock_config_fail(err, session->config, DLOCK_NOMEM, "no memory for a batch");
    for (size_t done = 0; done < n; done += REDLOCK_BATCH_MOST)
        some_unlock(session, room, ops + done, redlock_batch_part(n, done));
    free(room);
    return DLOCK_OK;
}

enum dlock_status redlock_unlock_break(void *self, const unsigned char *name, uint32_t name_len,
                                       const char *owner, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    struct redlock_session *session = self;
    const struct dlock_request req = {
        .name = name, .name_len = name_len, .deadline_ns = deadline_ns};
    enum dlock_status status = DLOCK_LOST;
    char owner_text[REDLOCK_OWNER_SIZE];

    (void)snprintf(owner_text, sizeof owner_text, "%s", owner != NULL ? owner : ANY_HOLDER);
    if (owner == NULL || strcmp(owner, ANY_HOLDER) != 0)
        status = release(session, &req, owner_text, err);
    if (status == DLOCK_LOST && redlock_inspect_foreign(session, name, name_len, deadline_ns, err))
        return DLOCK_CONFIG; /* nobody can take the name */
    if (status == DLOCK_LOST)
        return redlock_config_fail(err, session->config, DLOCK_NOT_HELD,
                                   owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
