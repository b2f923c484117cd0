/* SPDX-License-Identifier: MIT */
#include "exchange.h"
#include "rpc.h"

#include <stdlib.h>

#define ROUNDS 2 /* an exchange is sent once more at most */

/* One call of the exchange. */
struct part {
    struct etcd_rpc *rpc;
    enum dlock_status status;
    bool pending; /* to be sent in the next round */
};

struct exchange {
    struct etcd_endpoints *endpoints;
    struct part *parts;
    struct etcd_call **calls; /* of one round */
    size_t n;
    bool writes;
    int64_t deadline_ns;
    char endpoint[64]; /* of the last round; "": none */
    struct dlock_error *err;
};

static bool may_write(const struct exchange *exchange, const struct etcd_rpc *rpc)
{
    return exchange->writes && etcd_rpc_writes(rpc);
}

/* ---- one round ---- */

static enum dlock_status part_status(const struct exchange *exchange, const struct etcd_rpc *rpc,
                                     const struct etcd_verdict *verdict)
{
    bool in_doubt = may_write(exchange, rpc);

    if (rpc->no_memory)
        return in_doubt ? DLOCK_UNKNOWN : DLOCK_NOMEM;
    if (verdict->status == DLOCK_OK && rpc->count != rpc->most)
        return DLOCK_PROTOCOL;
    return verdict->status == DLOCK_UNKNOWN && !in_doubt ? DLOCK_UNAVAILABLE : verdict->status;
}

static bool is_login(const struct exchange *exchange, const struct etcd_verdict *verdict)
{
    return verdict->login && exchange->endpoints->cluster.config->user != NULL;
}

/* The member did nothing, or nothing that matters, and another connection may do better. */
static bool is_repeatable(const struct exchange *exchange, const struct etcd_rpc *rpc,
                          const struct etcd_verdict *verdict)
{
    if (rpc->no_memory || !(verdict->elsewhere || is_login(exchange, verdict)))
        return false;
    return verdict->unprocessed || !may_write(exchange, rpc);
}

struct outcome {
    bool retire;   /* the channel */
    bool again;    /* calls are pending */
    bool in_doubt; /* a write may have been executed */
};

static void part_judge(struct exchange *exchange, struct part *part, struct outcome *outcome)
{
    struct etcd_rpc *rpc = part->rpc;
    struct etcd_verdict verdict = etcd_rpc_judge(&rpc->call);

    part->status = part_status(exchange, rpc, &verdict);
    part->pending = is_repeatable(exchange, rpc, &verdict);
    if (part->status == DLOCK_OK)
        etcd_connect_note(&exchange->endpoints->cluster, etcd_rpc_revision(rpc));
    outcome->retire = outcome->retire || verdict.elsewhere || is_login(exchange, &verdict);
    outcome->again = outcome->again || part->pending;
    outcome->in_doubt = outcome->in_doubt || part->status == DLOCK_UNKNOWN ||
                        (part->status == DLOCK_PROTOCOL && may_write(exchange, rpc));
}

static size_t calls_collect(struct exchange *exchange)
{
    size_t count = 0;

    for (size_t i = 0; i < exchange->n; i++) {
        struct part *part = &exchange->parts[i];

        if (!part->pending)
            continue;
        etcd_rpc_again(part->rpc);
        exchange->calls[count++] = &part->rpc->call;
    }
    return count;
}

static void pending_fail(struct exchange *exchange, enum dlock_status status)
{
    for (size_t i = 0; i < exchange->n; i++)
        if (exchange->parts[i].pending)
            exchange->parts[i].status = status;
}

/* A question leaves time to ask another member, if this one hangs. */
static int64_t round_due_ns(const struct exchange *exchange, int round, int64_t now_ns)
{
    bool halves = round + 1 < ROUNDS && exchange->endpoints->cluster.config->count > 1;

    for (size_t i = 0; i < exchange->n; i++)
        halves = halves && !may_write(exchange, exchange->parts[i].rpc);
    return halves ? now_ns + (exchange->deadline_ns - now_ns) / 2 : exchange->deadline_ns;
}

/* False: no channel, and the error is filled. */
static bool round_run(struct exchange *exchange, int round, struct outcome *outcome)
{
    const struct dlock_host *host = exchange->endpoints->cluster.host;
    struct etcd_connection *connection = NULL;
    bool fresh = false;
    size_t count = 0;
    enum dlock_status status = etcd_endpoints_take(exchange->endpoints, exchange->deadline_ns,
                                                   &connection, &fresh, exchange->err);

    if (status == DLOCK_OK && host->now_ns(host->ctx) >= exchange->deadline_ns) {
        etcd_endpoints_put(exchange->endpoints, connection);
        status = dlock_fail(exchange->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0, "no time left");
    }
    if (status != DLOCK_OK) {
        pending_fail(exchange, status);
        return false;
    }
    (void)snprintf(exchange->endpoint, sizeof exchange->endpoint, "%s",
                   connection->member.endpoint);
    count = calls_collect(exchange);
    etcd_channel_run(connection->channel, exchange->calls, count,
                     round_due_ns(exchange, round, host->now_ns(host->ctx)));
    for (size_t i = 0; i < exchange->n; i++)
        if (exchange->parts[i].pending)
            part_judge(exchange, &exchange->parts[i], outcome);
    if (outcome->retire)
        etcd_channel_retire(connection->channel);
    etcd_endpoints_put(exchange->endpoints, connection);
    return true;
}

/* ---- the exchange ---- */

/* Higher: worse for the caller. */
static int rank(enum dlock_status status)
{
    switch (status) {
    case DLOCK_OK:
        return 0;
    case DLOCK_LOST:
        return 1;
    case DLOCK_UNAVAILABLE:
        return 2;
    case DLOCK_NOMEM:
        return 3;
    case DLOCK_UNKNOWN:
        return 6;
    case DLOCK_PROTOCOL:
        return 5;
    default:
        return 4;
    }
}

static enum dlock_status exchange_status(struct exchange *exchange)
{
    const struct part *worst = &exchange->parts[0];

    for (size_t i = 1; i < exchange->n; i++)
        if (rank(exchange->parts[i].status) > rank(worst->status))
            worst = &exchange->parts[i];
    if (worst->status == DLOCK_OK || worst->pending)
        return worst->status;
    if (worst->rpc->no_memory)
        return dlock_fail(exchange->err, ETCD_ORIGIN, worst->status, 0,
                          "%s: no memory for an answer", exchange->endpoint);
    return dlock_fail(exchange->err, ETCD_ORIGIN, worst->status, worst->rpc->call.grpc_status,
                      "%s: %s%s", exchange->endpoint, worst->rpc->call.text,
                      etcd_rpc_hint(&worst->rpc->call));
}

/* A member that does not know yet that it is the leader no more keeps leases alive in its own
 * memory only. The answers of a majority, in the same exchange, have a later term then. */
static void term_judge(struct exchange *exchange)
{
    uint64_t latest = 0;

    for (size_t i = 0; i < exchange->n; i++) {
        uint64_t term = etcd_rpc_term(exchange->parts[i].rpc);

        if (exchange->parts[i].status == DLOCK_OK && term > latest)
            latest = term;
    }
    for (size_t i = 0; i < exchange->n; i++) {
        struct part *part = &exchange->parts[i];
        struct etcd_call *call = &part->rpc->call;

        if (part->status != DLOCK_OK || part->rpc->method != ETCD_LEASE_KEEP_ALIVE ||
            etcd_rpc_term(part->rpc) >= latest)
            continue;
        part->status = DLOCK_UNAVAILABLE;
        (void)snprintf(call->text, sizeof call->text, "the leader changed");
    }
}

static enum dlock_status exchange_run(struct exchange *exchange)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct outcome outcome = {false, false, false};

        if (!round_run(exchange, round, &outcome))
            break;
        if (!outcome.again || outcome.in_doubt || round + 1 == ROUNDS) {
            for (size_t i = 0; i < exchange->n; i++)
                exchange->parts[i].pending = false;
            break;
        }
    }
    term_judge(exchange);
    return exchange_status(exchange);
}

enum dlock_status etcd_exchange(struct etcd_endpoints *endpoints, struct etcd_rpc *const *rpcs,
                                size_t n, bool writes, int64_t deadline_ns,
                                enum dlock_status *statuses, struct dlock_error *err)
{
    struct exchange exchange = {
        .endpoints = endpoints,
        .parts = calloc(n, sizeof *exchange.parts),
        .calls = calloc(n, sizeof(struct etcd_call *)),
        .n = n,
        .writes = writes,
        .deadline_ns = deadline_ns,
        .err = err,
    };
    enum dlock_status status = n > 0 ? DLOCK_NOMEM : DLOCK_OK;
    bool memory = exchange.parts != NULL && exchange.calls != NULL;

    for (size_t i = 0; i < n && memory; i++)
        exchange.parts[i] = (struct part){rpcs[i], DLOCK_INTERNAL, true};
    if (memory && n > 0)
        status = exchange_run(&exchange);
    else if (n > 0)
        (void)dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a request");
    for (size_t i = 0; i < n && statuses != NULL; i++)
        statuses[i] = memory ? exchange.parts[i].status : status;
    free(exchange.parts);
    free(exchange.calls);
    return status;
}
