/* SPDX-License-Identifier: MIT */
#include "exchange.h"
#include "rpc.h"

#include <stdlib.h>

#define ROUNDS 2 /* a flight is sent once more at most */

/* One call of the flight. */
struct part {
    struct etcd_rpc *rpc;
    enum dlock_status status;
    bool pending; /* to be sent in the next round */
};

struct flight {
    struct etcd_endpoints *endpoints;
    struct part *parts;
    struct etcd_call **calls; /* of one round */
    size_t n;
    bool writes;
    int64_t deadline_ns;
    char endpoint[64]; /* of the last round; "": none */
    struct dlock_error *err;
};

static bool may_write(const struct flight *flight, const struct etcd_rpc *rpc)
{
    return flight->writes && etcd_rpc_writes(rpc);
}

/* ---- one round ---- */

static enum dlock_status part_status(const struct flight *flight, const struct etcd_rpc *rpc,
                                     const struct etcd_verdict *verdict)
{
    bool in_doubt = may_write(flight, rpc);

    if (rpc->no_memory)
        return in_doubt ? DLOCK_UNKNOWN : DLOCK_NOMEM;
    if (verdict->status == DLOCK_OK && rpc->count != rpc->most)
        return DLOCK_PROTOCOL;
    return verdict->status == DLOCK_UNKNOWN && !in_doubt ? DLOCK_UNAVAILABLE : verdict->status;
}

static bool is_login(const struct flight *flight, const struct etcd_verdict *verdict)
{
    return verdict->login && flight->endpoints->cluster.config->user != NULL;
}

/* The member did nothing, or nothing that matters, and another connection may do better. */
static bool is_repeatable(const struct flight *flight, const struct etcd_rpc *rpc,
                          const struct etcd_verdict *verdict)
{
    if (rpc->no_memory || !(verdict->elsewhere || is_login(flight, verdict)))
        return false;
    return verdict->unprocessed || !may_write(flight, rpc);
}

struct outcome {
    bool retire;   /* the channel */
    bool again;    /* calls are pending */
    bool in_doubt; /* a write may have been executed */
};

static void part_judge(struct flight *flight, struct part *part, struct outcome *outcome)
{
    struct etcd_rpc *rpc = part->rpc;
    struct etcd_verdict verdict = etcd_rpc_judge(&rpc->call);

    part->status = part_status(flight, rpc, &verdict);
    part->pending = is_repeatable(flight, rpc, &verdict);
    if (part->status == DLOCK_OK)
        etcd_connect_note(&flight->endpoints->cluster, etcd_rpc_revision(rpc));
    outcome->retire = outcome->retire || verdict.elsewhere || is_login(flight, &verdict);
    outcome->again = outcome->again || part->pending;
    outcome->in_doubt = outcome->in_doubt || part->status == DLOCK_UNKNOWN ||
                        (part->status == DLOCK_PROTOCOL && may_write(flight, rpc));
}

static size_t calls_collect(struct flight *flight)
{
    size_t count = 0;

    for (size_t i = 0; i < flight->n; i++) {
        struct part *part = &flight->parts[i];

        if (!part->pending)
            continue;
        etcd_rpc_again(part->rpc);
        flight->calls[count++] = &part->rpc->call;
    }
    return count;
}

static void pending_fail(struct flight *flight, enum dlock_status status)
{
    for (size_t i = 0; i < flight->n; i++)
        if (flight->parts[i].pending)
            flight->parts[i].status = status;
}

/* A question leaves time to ask another member, if this one hangs. */
static int64_t round_due_ns(const struct flight *flight, int round, int64_t now_ns)
{
    bool halves = round + 1 < ROUNDS && flight->endpoints->cluster.config->count > 1;

    for (size_t i = 0; i < flight->n; i++)
        halves = halves && !may_write(flight, flight->parts[i].rpc);
    return halves ? now_ns + (flight->deadline_ns - now_ns) / 2 : flight->deadline_ns;
}

/* False: no channel, and the error is filled. */
static bool round_run(struct flight *flight, int round, struct outcome *outcome)
{
    const struct dlock_host *host = flight->endpoints->cluster.host;
    struct etcd_connection *connection = NULL;
    bool fresh = false;
    size_t count = 0;
    enum dlock_status status = etcd_endpoints_take(flight->endpoints, flight->deadline_ns,
                                                   &connection, &fresh, flight->err);

    if (status == DLOCK_OK && host->now_ns(host->ctx) >= flight->deadline_ns) {
        etcd_endpoints_put(flight->endpoints, connection);
        status = dlock_fail(flight->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0, "no time left");
    }
    if (status != DLOCK_OK) {
        pending_fail(flight, status);
        return false;
    }
    (void)snprintf(flight->endpoint, sizeof flight->endpoint, "%s", connection->member.endpoint);
    count = calls_collect(flight);
    etcd_channel_run(connection->channel, flight->calls, count,
                     round_due_ns(flight, round, host->now_ns(host->ctx)));
    for (size_t i = 0; i < flight->n; i++)
        if (flight->parts[i].pending)
            part_judge(flight, &flight->parts[i], outcome);
    if (outcome->retire)
        etcd_channel_retire(connection->channel);
    etcd_endpoints_put(flight->endpoints, connection);
    return true;
}

/* ---- the flight ---- */

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

static enum dlock_status flight_status(struct flight *flight)
{
    const struct part *worst = &flight->parts[0];

    for (size_t i = 1; i < flight->n; i++)
        if (rank(flight->parts[i].status) > rank(worst->status))
            worst = &flight->parts[i];
    if (worst->status == DLOCK_OK || worst->pending)
        return worst->status;
    if (worst->rpc->no_memory)
        return dlock_fail(flight->err, ETCD_ORIGIN, worst->status, 0, "%s: no memory for an answer",
                          flight->endpoint);
    return dlock_fail(flight->err, ETCD_ORIGIN, worst->status, worst->rpc->call.grpc_status,
                      "%s: %s%s", flight->endpoint, worst->rpc->call.text,
                      etcd_rpc_hint(&worst->rpc->call));
}

/* A member that does not know yet that it is the leader no more keeps leases alive in its own
 * memory only. The answers of a majority, in the same flight, have a later term then. */
static void term_judge(struct flight *flight)
{
    uint64_t latest = 0;

    for (size_t i = 0; i < flight->n; i++) {
        uint64_t term = etcd_rpc_term(flight->parts[i].rpc);

        if (flight->parts[i].status == DLOCK_OK && term > latest)
            latest = term;
    }
    for (size_t i = 0; i < flight->n; i++) {
        struct part *part = &flight->parts[i];
        struct etcd_call *call = &part->rpc->call;

        if (part->status != DLOCK_OK || part->rpc->method != ETCD_LEASE_KEEP_ALIVE ||
            etcd_rpc_term(part->rpc) >= latest)
            continue;
        part->status = DLOCK_UNAVAILABLE;
        (void)snprintf(call->text, sizeof call->text, "the leader changed");
    }
}

static enum dlock_status flight_run(struct flight *flight)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct outcome outcome = {false, false, false};

        if (!round_run(flight, round, &outcome))
            break;
        if (!outcome.again || outcome.in_doubt || round + 1 == ROUNDS) {
            for (size_t i = 0; i < flight->n; i++)
                flight->parts[i].pending = false;
            break;
        }
    }
    term_judge(flight);
    return flight_status(flight);
}

enum dlock_status etcd_exchange(struct etcd_endpoints *endpoints, struct etcd_rpc *const *rpcs,
                                size_t n, bool writes, int64_t deadline_ns,
                                enum dlock_status *statuses, struct dlock_error *err)
{
    struct flight flight = {
        .endpoints = endpoints,
        .parts = calloc(n, sizeof *flight.parts),
        .calls = calloc(n, sizeof(struct etcd_call *)),
        .n = n,
        .writes = writes,
        .deadline_ns = deadline_ns,
        .err = err,
    };
    enum dlock_status status = n > 0 ? DLOCK_NOMEM : DLOCK_OK;
    bool memory = flight.parts != NULL && flight.calls != NULL;

    for (size_t i = 0; i < n && memory; i++)
        flight.parts[i] = (struct part){rpcs[i], DLOCK_INTERNAL, true};
    if (memory && n > 0)
        status = flight_run(&flight);
    else if (n > 0)
        (void)dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a request");
    for (size_t i = 0; i < n && statuses != NULL; i++)
        statuses[i] = memory ? flight.parts[i].status : status;
    free(flight.parts);
    free(flight.calls);
    return status;
}
