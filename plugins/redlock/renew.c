/* SPDX-License-Identifier: MIT */
/*
 * Renewal of many leases, RENEW_AT_ONCE in a script. A renewal needs a majority of nodes that still
 * hold the lease, and never makes a lease. After that, nodes that have lost the lease get it again,
 * so that another node may lose it next.
 */
#include "client.h"
#include "lib/text.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "round.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>

#define FOREIGN_KEY   (-2) /* held there, and a key beside the lease is foreign */
#define RENEW_AT_ONCE 60   /* leases in one script; other clients wait meanwhile */

struct renewing {
    struct redlock_session *session;
    struct dlock_lease_op *const *ops;
    size_t n;
    struct redlock_request request;
    struct redlock_round round;
    char token[RENEW_AT_ONCE][RESP_HEX_SIZE];
    char ttl[RENEW_AT_ONCE][RESP_DIGITS];
    int64_t leases[RENEW_AT_ONCE][REDLOCK_NODES_MAX]; /* 0: not held there; < 0: an error */
    struct resp_keys keys[RENEW_AT_ONCE];
};

static int64_t element_lease(const redisReply *element)
{
    if (element->type == REDIS_REPLY_INTEGER && element->integer >= 0 &&
        element->integer <= RESP_LEASE_MAX_MS)
        return element->integer;
    return resp_error_is(element, "WRONGTYPE") ? FOREIGN_KEY : -1;
}

/* The answer has a lease, or an error, for each name. */
static enum redlock_quorum_vote renew_read(struct redlock_round *round, unsigned node,
                                           const redisReply *reply)
{
    struct renewing *renewing = round->data;

    if (!resp_reply_array(reply, renewing->n))
        return QUORUM_REFUSED;
    for (size_t i = 0; i < renewing->n; i++)
        renewing->leases[i][node] = element_lease(reply->element[i]);
    return QUORUM_YES;
}

static enum redlock_quorum_verdict verdict_of(const struct redlock_round *round, size_t op,
                                              struct redlock_quorum_tally *tally)
{
    const struct renewing *renewing = round->data;
    enum redlock_quorum_vote votes[REDLOCK_NODES_MAX];

    for (unsigned i = 0; i < round->session->config->count; i++) {
        votes[i] = round->votes[i];
        if (votes[i] == QUORUM_YES && renewing->leases[op][i] <= 0)
            votes[i] = renewing->leases[op][i] == 0 ? QUORUM_NO : QUORUM_REFUSED;
    }
    *tally = redlock_quorum_count(votes, round->session->config->count);
    return redlock_quorum_renewed(tally);
}

static enum redlock_quorum_verdict renew_judge(const struct redlock_round *round)
{
    const struct renewing *renewing = round->data;
    struct redlock_quorum_tally tally;

    for (size_t i = 0; i < renewing->n; i++)
        if (verdict_of(round, i, &tally) == QUORUM_WAIT)
            return QUORUM_WAIT;
    return QUORUM_WON;
}

static int64_t ttl_of(const struct renewing *renewing, const struct dlock_request *req)
{
    return resp_guard_ttl_ms(renewing->session->config->restart_guard_ms, req->ttl_ms);
}

static void request_make(struct renewing *renewing)
{
    struct redlock_request *request = &renewing->request;

    redlock_node_request_begin(request, REDLOCK_SCRIPT_RENEW, (unsigned)renewing->n);
    for (size_t i = 0; i < renewing->n; i++) {
        const struct dlock_request *req = renewing->ops[i]->req;

        resp_keys_make(&renewing->keys[i], &renewing->session->config->nodes[0], req->name,
                       req->name_len);
        redlock_node_request_name(request, &renewing->keys[i]);
    }
    for (size_t i = 0; i < renewing->n; i++) {
        const struct dlock_request *req = renewing->ops[i]->req;

        dl_hex_encode(renewing->token[i], req->token, DLOCK_TOKEN_SIZE);
        resp_command_text(&request->command, renewing->token[i]);
        resp_command_text(&request->command,
                          resp_command_number(renewing->ttl[i], ttl_of(renewing, req)));
        resp_command_text(&request->command, req->mode == DLOCK_SHARED ? "s" : "x");
    }
}

/* ---- healing ---- */

static enum redlock_quorum_vote heal_read(struct redlock_round *round, unsigned node,
                                          const redisReply *reply)
{
    int64_t taken = 0;

    (void)round;
    (void)node;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        !resp_reply_int(reply, 0, 0, 1, &taken))
        return QUORUM_REFUSED;
    return taken == 1 ? QUORUM_YES : QUORUM_NO;
}

static enum redlock_quorum_verdict heal_judge(const struct redlock_round *round)
{
    return round->tally.open > 0 ? QUORUM_WAIT : QUORUM_WON;
}

static void heal(struct renewing *renewing, size_t op, unsigned nodes, int64_t deadline_ns)
{
    const struct dlock_request *req = renewing->ops[op]->req;
    const struct redlock_attempt *attempt = req->attempt;
    struct redlock_request request;
    char number[RESP_DIGITS], fence[RESP_DIGITS];
    struct redlock_round round = {
        .session = renewing->session,
        .request = &request,
        .sent = {.kind = SENT_ACQUIRE, .round = attempt->round, .name_len = req->name_len},
        .node_timeout_ns =
            redlock_config_timeout_ns(renewing->session->config, ttl_of(renewing, req)),
        .deadline_ns = deadline_ns,
        .strict = true,
        .only = nodes,
        .judge = heal_judge,
        .read = heal_read,
    };

    memcpy(round.sent.token, req->token, sizeof round.sent.token);
    memcpy(round.sent.name, req->name, req->name_len);
    redlock_node_request_begin(&request, REDLOCK_SCRIPT_ACQUIRE, 1);
    redlock_node_request_name(&request, &renewing->keys[op]);
    resp_command_text(&request.command, renewing->token[op]);
    resp_command_text(&request.command, resp_command_number(number, attempt->round));
    resp_command_text(&request.command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(&request.command, renewing->ttl[op]);
    resp_command_text(&request.command, "HEAL");
    resp_command_text(&request.command, req->label != NULL ? req->label : "");
    resp_command_text(&request.command, resp_command_number(fence, attempt->number));
    (void)redlock_round_run(&round);
}

/* Gives leases that a majority has just renewed to nodes that do not hold them: only within the
 * validity before the renewal [REN-5], and only during node_timeout, as other leases wait. */
static void heal_all(struct renewing *renewing, int64_t deadline_ns)
{
    struct redlock_session *session = renewing->session;
    int64_t until_ns = redlock_session_now(session) + renewing->round.node_timeout_ns;

    if (deadline_ns < until_ns)
        until_ns = deadline_ns;
    for (size_t i = 0; i < renewing->n; i++) {
        const struct dlock_lease_op *op = renewing->ops[i];
        int64_t now_ns = redlock_session_now(session);
        unsigned nodes = 0;

        for (unsigned node = 0; op->status == DLOCK_OK && node < session->config->count; node++)
            if (renewing->round.answers[node].state == ANSWER_GIVEN &&
                renewing->leases[i][node] == 0)
                nodes |= 1u << node;
        if (nodes != 0 && now_ns < until_ns && now_ns < op->req->deadline_ns)
            heal(renewing, i, nodes, until_ns);
    }
}

/* ---- the whole ---- */

static int64_t lease_of(const struct renewing *renewing, size_t op, unsigned need)
{
    int64_t leases[REDLOCK_NODES_MAX];
    size_t count = 0;

    for (unsigned i = 0; i < renewing->session->config->count; i++)
        if (renewing->round.votes[i] == QUORUM_YES && renewing->leases[op][i] > 0)
            leases[count++] = renewing->leases[op][i];
    return resp_reply_lease_ms(redlock_quorum_least(leases, count, need),
                               ttl_of(renewing, renewing->ops[op]->req));
}

static bool has_foreign_key(const struct renewing *renewing, size_t op)
{
    bool has = false;

    for (unsigned i = 0; i < renewing->session->config->count; i++)
        has |= renewing->round.votes[i] == QUORUM_YES && renewing->leases[op][i] == FOREIGN_KEY;
    return has;
}

static void op_end(struct renewing *renewing, size_t i, struct dlock_error *err)
{
    const struct redlock_config *config = renewing->session->config;
    struct dlock_lease_op *op = renewing->ops[i];
    struct redlock_quorum_tally tally;

    switch (verdict_of(&renewing->round, i, &tally)) {
    case QUORUM_WON:
        op->grant.lease_ms = lease_of(renewing, i, tally.need);
        op->status = DLOCK_OK;
        return;
    case QUORUM_LOST:
        op->status =
            redlock_config_fail(err, config, DLOCK_LOST, "%u of %u nodes do not hold it any more",
                                tally.no, tally.nodes);
        break;
    case QUORUM_SHORT:
        op->status =
            has_foreign_key(renewing, i)
                ? redlock_config_fail_key(err, config, DLOCK_UNAVAILABLE, &renewing->keys[i])
                : redlock_config_fail(err, config, DLOCK_UNAVAILABLE,
                                      "a renewal reached %u of %u nodes, and needs %u",
                                      tally.yes + tally.no, tally.nodes, tally.need);
        break;
    default:
        op->status = redlock_config_fail(err, config, DLOCK_UNKNOWN,
                                         "%u of %u nodes renewed it, and %u are needed", tally.yes,
                                         tally.nodes, tally.need);
        break;
    }
    redlock_round_report(err, &renewing->round);
}

static void some_renew(struct renewing *renewing, int64_t deadline_ns, struct dlock_error *err)
{
    struct redlock_session *session = renewing->session;
    int64_t least_ms = INT64_MAX;
    bool adopts = false; /* [REN-6] */

    for (size_t i = 0; i < renewing->n; i++) {
        const struct dlock_request *req = renewing->ops[i]->req;

        adopts |= (req->flags & DLOCK_REQ_ADOPT) != 0;
        redlock_client_attempt_begin(session->client, req->attempt,
                                     req->token); /* it was adopted */
        if (ttl_of(renewing, req) < least_ms)
            least_ms = ttl_of(renewing, req);
    }
    request_make(renewing);
    renewing->round = (struct redlock_round){
        .session = session,
        .request = &renewing->request,
        .node_timeout_ns = redlock_config_timeout_ns(session->config, least_ms),
        .deadline_ns = deadline_ns,
        .all = true,
        .new_lock = adopts,
        .judge = renew_judge,
        .read = renew_read,
        .data = renewing,
    };
    (void)redlock_round_run(&renewing->round);
    for (size_t i = 0; i < renewing->n; i++)
        op_end(renewing, i, err);
    heal_all(renewing, deadline_ns);
}

enum dlock_status redlock_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                int64_t deadline_ns, struct dlock_error *err)
{
    struct redlock_session *session = self;
    struct renewing *renewing = calloc(1, sizeof *renewing);

    if (renewing == NULL)
        return redlock_config_fail(err, session->config, DLOCK_NOMEM, "no memory for renewals");
    renewing->session = session;
    for (size_t done = 0; done < n; done += renewing->n) {
        renewing->ops = ops + done;
        renewing->n = n - done < RENEW_AT_ONCE ? n - done : RENEW_AT_ONCE;
        some_renew(renewing, deadline_ns, err);
    }
    free(renewing);
    return DLOCK_OK;
}
