/* SPDX-License-Identifier: MIT */
#include "entry.h"
#include "lib/text.h"
#include "resp/reply.h"
#include "round.h"

#define RECHECK_FIRST_NS (DL_NS_PER_S / 4)
#define RECHECK_DOUBLED  4

/* The answer is { free, left }. */
static enum redlock_quorum_vote wait_read(struct redlock_round *round, unsigned i,
                                          const redisReply *reply)
{
    int64_t free_here = 0;

    (void)i;
    (void)round;
    if (!resp_reply_array(reply, 2) || !resp_reply_int(reply, 0, 0, 1, &free_here))
        return QUORUM_REFUSED;
    return free_here == 1 ? QUORUM_YES : QUORUM_NO;
}

/* Waits for every node that can answer, unless a majority is free. */
static enum redlock_quorum_verdict wait_judge(const struct redlock_round *round)
{
    if (round->tally.yes >= round->tally.need)
        return QUORUM_WON;
    return round->tally.open > 0 ? QUORUM_WAIT : QUORUM_LOST;
}

static void round_begin(struct redlock_entry *entry, struct redlock_session *session)
{
    const struct dlock_request *req = entry->req;
    int64_t now_ns = redlock_session_now(session);
    int64_t timeout_ns = redlock_config_timeout_ns(session->config, req->ttl_ms);

    entry->round = (struct redlock_round){
        .session = session,
        .request = &entry->request,
        .node_timeout_ns = timeout_ns,
        .deadline_ns =
            now_ns + timeout_ns < req->deadline_ns ? now_ns + timeout_ns : req->deadline_ns,
        .strict = true,
        .new_lock = true,
        .judge = wait_judge,
        .read = wait_read,
    };
}

void redlock_entry_begin(struct redlock_entry *entry, struct redlock_session *session,
                         const struct dlock_request *req, int64_t lasts_ms)
{
    struct redlock_attempt *attempt = req->attempt;
    struct resp_command *command = &entry->request.command;

    entry->req = req;
    round_begin(entry, session);
    if (attempt->ticket_ms == 0)
        attempt->ticket_ms = attempt->clock_ms > 0 ? attempt->clock_ms : 1;
    resp_keys_make(&entry->keys, &session->config->nodes[0], req->name, req->name_len);
    dl_hex_encode(entry->token, req->token, DLOCK_TOKEN_SIZE);
    redlock_request_begin(&entry->request, REDLOCK_SCRIPT_WAIT, 1);
    redlock_request_name(&entry->request, &entry->keys);
    resp_command_text(command, entry->token);
    resp_command_text(command, resp_command_number(entry->ticket, attempt->ticket_ms));
    resp_command_text(command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(command, resp_command_number(entry->lasts, lasts_ms));
    resp_command_text(command, session->client->subscriber.channel);
}

unsigned redlock_entry_free_nodes(const struct redlock_entry *entry)
{
    const struct redlock_round *round = &entry->round;
    unsigned free_nodes = 0;

    for (unsigned i = 0; i < round->session->config->count; i++)
        if (round->answers[i].state == ANSWER_GIVEN && round->answers[i].vote == QUORUM_YES)
            free_nodes |= 1u << i;
    return free_nodes;
}

unsigned redlock_entry_take(struct redlock_session *session, const struct dlock_request *req,
                            int64_t lasts_ms)
{
    REDLOCK_NOT_ZEROED struct redlock_entry entry;

    redlock_entry_begin(&entry, session, req, lasts_ms);
    (void)redlock_round_run(&entry.round);
    return redlock_entry_free_nodes(&entry);
}

int64_t redlock_entry_recheck_ns(const struct redlock_session *session,
                                 const struct redlock_attempt *attempt)
{
    unsigned doubled = attempt->rechecks < RECHECK_DOUBLED ? attempt->rechecks : RECHECK_DOUBLED;
    int64_t whole_ns = RECHECK_FIRST_NS << doubled;
    uint32_t chance = 0;

    (void)session->host->random(session->host->ctx, &chance, sizeof chance);
    return redlock_session_now(session) + whole_ns / 2 + chance % (whole_ns / 2);
}
