/* SPDX-License-Identifier: MIT */
/*
 * redlock://h1,h2,h3 - a majority of independent Redis or Valkey masters, by the Redlock algorithm;
 * redlocks: uses TLS. README.md says how to set up the servers, and what a user can rely on.
 */
#include "client.h"
#include "net/tls.h"
#include "release.h"
#include "resp/guard.h"
#include "round.h"
#include "session.h"
#include "slots.h"
#include "wait.h"

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

static enum dlock_status redlock_probe(void *self, int64_t deadline_ns,
                                       struct dlock_session_info *info, dlock_check_fn *fn,
                                       void *arg, struct dlock_error *err)
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

#define LOG_INFO 2 /* DLOCK_LOG_INFO of dlock.h */

static enum dlock_status redlock_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    return redlock_client_init()
               ? DLOCK_OK
               : dlock_fail(err, REDLOCK_ORIGIN, DLOCK_NOMEM, 0, "no memory for fork handlers");
}

/* Logs once a client. */
static void unguarded_log(const struct redlock_session *session)
{
    char all[64], line[300];

    if (session->config->restart_guard_ms > 0 || !redlock_client_first(session->client))
        return;
    redlock_config_print(session->config, all, sizeof all);
    (void)snprintf(line, sizeof line, "%s: restart_guard is off: %s", all, RESP_UNGUARDED);
    session->host->log(session->host->ctx, LOG_INFO, line);
}

static enum dlock_status redlock_open(void *self, const struct dlock_host *host,
                                      const struct dlock_target *target, int64_t deadline_ns,
                                      struct dlock_session_info *info, struct dlock_error *err)
{
    struct redlock_session *session = self;
    enum dlock_status status =
        redlock_session_open(session, host, target, redlock_round_deliver, deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    redlock_session_info(info, session);
    unguarded_log(session);
    return DLOCK_OK;
}

static void redlock_close(void *self, bool forked)
{
    if (forked)
        redlock_session_after_fork(self);
    else
        redlock_session_close(self);
}

/* An attempt that waited has queue entries on the nodes. */
static void redlock_forget(void *self, const struct dlock_request *req)
{
    struct redlock_session *session = self;
    struct redlock_attempt *attempt = req->attempt;
    bool queued = attempt->waiter.subscriber != NULL && attempt->ticket_ms != 0;

    redlock_client_attempt_end(attempt);
    if (queued && session != NULL)
        redlock_release_send_all(session, UINT32_MAX, req->name, req->name_len, req->token,
                                 REDLOCK_ALL_ROUNDS, REDLOCK_DEQUEUE);
}

static const struct dlock_backend_ops redlock_ops = {
    .struct_size = sizeof redlock_ops,
    .session_size = sizeof(struct redlock_session),
    .attempt_size = sizeof(struct redlock_attempt),
    .open = redlock_open,
    .close = redlock_close,
    .trylock = redlock_acquire,
    .renew = redlock_renew,
    .unlock = redlock_unlock,
    .forget = redlock_forget,
    .watch = redlock_wait_watch,
    .interrupt = redlock_wait_interrupt,
    .inspect = redlock_inspect,
    .list = redlock_inspect_list,
    .break_lock = redlock_unlock_break,
    .probe = redlock_probe,
    .wait_any = redlock_wait_any,
    .trylock_batch = redlock_acquire_batch,
    .unlock_batch = redlock_unlock_batch,
};

static const char *const redlock_schemes[] = {"redlock", "redlocks", NULL};

static const struct dlock_option_spec redlock_options[] = {
    {"node", "list", NULL, "1..1024",
     "a further node, as redis://[user:password@]host[:port][/db] or rediss://, percent-encoded as "
     "a whole; may be given again"},
    {"any_count", "bool", "off", NULL, "accept an even number of nodes, or fewer than 3"},
    {"prefix", "text", "rl:", "0..64", "the beginning of all keys; no braces"},
    {"node_timeout", "duration", "0", "0..10s",
     "how long one node may take to answer; 0: ttl/20, between 5ms and 50ms"},
    {"restart_guard", "duration", "30s", "0..7d",
     "a node that has been up for a shorter time has no vote on new locks: at least the longest "
     "ttl of "
     "any client. 0: off, a restart of a majority may make two holders"},
    {"retry_count", "int", "3", "0..100",
     "how often one attempt repeats a split vote: several callers asked at once, and no one got a "
     "majority"},
    {"retry_delay", "duration", "50ms", "1ms..10s",
     "the longest of the random pauses between these repetitions"},
    {"spin", "bool", "on", NULL,
     "look for an answer for some microseconds before sleeping for it, where answers come that "
     "fast"},
    TLS_OPTION_ROWS,
    {"unsafe_eviction", "bool", "off", NULL,
     "accept nodes that remove keys when their memory is full"},
    {NULL, NULL, NULL, NULL, NULL},
};

static const struct dlock_plugin redlock_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof redlock_plugin,
    .caps = REDLOCK_CAPS,
    .name = "redlock",
    .version = "1",
    .schemes = redlock_schemes,
    .options = redlock_options,
    .init = redlock_init,
    .ops = &redlock_ops,
};

DLOCK_PLUGIN_ENTRY(redlock, &redlock_plugin)
