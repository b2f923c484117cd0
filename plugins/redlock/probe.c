/* SPDX-License-Identifier: MIT */
#include "resp/guard.h"
#include "session.h"
#include "slots.h"

#include <string.h>

#define SKEW_MOST_US INT64_C(1000000)

/* How far the wall clocks of the nodes are apart. All were read while the session connected. */
static int64_t skew_us(const struct redlock_session *session)
{
    int64_t least = INT64_MAX, most = 0;

    for (unsigned i = 0; i < session->config->count; i++) {
        const struct redlock_node *node = &session->nodes[i];

        if (node->connection.state != RESP_READY || node->connection.info.clock_us == 0)
            continue;
        if (node->connection.info.clock_us < least)
            least = node->connection.info.clock_us;
        if (node->connection.info.clock_us > most)
            most = node->connection.info.clock_us;
    }
    return most > least ? most - least : 0;
}

static void node_check(const struct redlock_node *node, dlock_check_fn *fn, void *arg)
{
    char found[160];
    struct dlock_check check = {
        .struct_size = sizeof check, .name = node->connection.config->endpoint, .found = found};

    if (node->connection.state != RESP_READY) {
        (void)snprintf(found, sizeof found, "%s", node->connection.why);
        check.advice = "without a majority there are no locks";
    } else {
        (void)snprintf(found, sizeof found, "%.40s, %s, %s, up for %lld s",
                       node->connection.info.server, node->connection.info.role,
                       node->connection.info.policy, (long long)node->connection.info.uptime_s);
    }
    fn(arg, &check);
}

static void report(const struct redlock_session *session, dlock_check_fn *fn, void *arg)
{
    const struct redlock_config *config = session->config;
    bool eviction = config->nodes[0].unsafe_eviction;
    int64_t apart_us = skew_us(session);
    char guard[64], clocks[64];
    const struct dlock_check checks[] = {
        {.struct_size = sizeof(struct dlock_check),
         .name = "restart_guard",
         .found = guard,
         .advice = config->restart_guard_ms > 0 ? NULL : RESP_UNGUARDED,
         .clears = config->restart_guard_ms > 0 ? 0 : DLOCK_CAP_CRASH_SAFE},
        {.struct_size = sizeof(struct dlock_check),
         .name = "unsafe_eviction",
         .found = eviction ? "on" : "off",
         .advice = eviction ? "a full node may throw locks away" : NULL,
         .clears = eviction ? DLOCK_CAP_CRASH_SAFE : 0},
        {.struct_size = sizeof(struct dlock_check),
         .name = "clocks of the nodes",
         .found = clocks,
         .advice =
             apart_us < SKEW_MOST_US ? NULL : "they should not be stepped while locks are held"},
    };

    (void)snprintf(guard, sizeof guard, "%g s", (double)config->restart_guard_ms / 1000);
    (void)snprintf(clocks, sizeof clocks, "%lld ms apart", (long long)apart_us / 1000);
    for (unsigned i = 0; i < config->count; i++)
        node_check(&session->nodes[i], fn, arg);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        fn(arg, &checks[i]);
}

enum dlock_status redlock_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                                dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    struct redlock_session *session = self;
    enum dlock_status status = redlock_session_connect(session, deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    if (fn != NULL)
        report(session, fn, arg);
    redlock_session_info(info, session);
    return DLOCK_OK;
}
