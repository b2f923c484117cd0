/* SPDX-License-Identifier: MIT */
#include "session.h"
#include "lib/time.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINGER_NS (50 * DL_NS_PER_MS) /* for the other nodes, once a majority is connected */

/* ---- all nodes ---- */

/* The time until until_ns, or until a node has work that its descriptor does not tell of. */
static int64_t left_until(const struct redlock_session *session, int64_t until_ns)
{
    int64_t now_ns = redlock_session_now(session);

    for (unsigned i = 0; i < session->config->count; i++) {
        int64_t due_ns = redlock_node_due_ns(&session->nodes[i], now_ns);

        if (due_ns < until_ns)
            until_ns = due_ns;
    }
    return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* Fills ready_mask, after at most left_ns. */
static void poll_all(struct redlock_session *session, int64_t left_ns)
{
    struct pollfd fds[REDLOCK_NODES_MAX];
    struct timespec timeout = dl_deadline_cond_slice(left_ns);

    for (unsigned i = 0; i < session->config->count; i++) {
        const struct redlock_node *node = &session->nodes[i];
        short events = resp_connection_events(&node->connection);

        if ((session->deferred_mask & 1u << i) != 0 && events == POLLIN)
            events = 0;
        fds[i] =
            (struct pollfd){.fd = events != 0 ? node->connection.stream.fd : -1, .events = events};
    }
    session->ready_mask = session->deferred_mask;
    session->polled = true;
    if (ppoll(fds, session->config->count, &timeout, NULL) <= 0)
        return;
    for (unsigned i = 0; i < session->config->count; i++)
        if (fds[i].revents != 0)
            session->ready_mask |= 1u << i;
}

void redlock_session_cork(struct redlock_session *session)
{
    for (unsigned i = 0; i < session->config->count; i++)
        redlock_node_cork(&session->nodes[i]);
}

void redlock_session_uncork(struct redlock_session *session)
{
    for (unsigned i = 0; i < session->config->count; i++)
        redlock_node_uncork(&session->nodes[i]);
}

void redlock_session_advance(struct redlock_session *session)
{
    int64_t now_ns = redlock_session_now(session);

    if (!session->polled)
        poll_all(session, 0);
    session->polled = false;
    redlock_session_cork(session); /* for what answers lead to */
    for (unsigned i = 0; i < session->config->count; i++)
        if ((session->ready_mask & 1u << i) != 0 ||
            redlock_node_has_work(&session->nodes[i], now_ns))
            redlock_node_advance(&session->nodes[i], now_ns);
    redlock_session_uncork(session);
}

void redlock_session_sleep(struct redlock_session *session, int64_t until_ns)
{
    if (spin_more(&session->spin, dl_time_now_ns(CLOCK_MONOTONIC)))
        (void)sched_yield();
    else
        poll_all(session, left_until(session, until_ns));
}

static unsigned ready_count(const struct redlock_session *session)
{
    unsigned ready = 0;

    for (unsigned i = 0; i < session->config->count; i++)
        ready += session->nodes[i].connection.state == RESP_READY;
    return ready;
}

/* CONFIG: two nodes are the same server. */
static enum dlock_status duplicate_check(const struct redlock_session *session,
                                         struct dlock_error *err)
{
    for (unsigned i = 0; i < session->config->count; i++) {
        const struct redlock_node *one = &session->nodes[i];

        for (unsigned j = 0; j < i && one->connection.state == RESP_READY; j++) {
            const struct redlock_node *other = &session->nodes[j];

            if (other->connection.state == RESP_READY &&
                strcmp(one->connection.info.run_id, other->connection.info.run_id) == 0)
                return redlock_config_fail(
                    err, session->config, DLOCK_CONFIG, "%.63s and %.63s are the same server",
                    other->connection.config->endpoint, one->connection.config->endpoint);
        }
    }
    return DLOCK_OK;
}

/* ---- connecting ---- */

static bool all_decided(const struct redlock_session *session)
{
    for (unsigned i = 0; i < session->config->count; i++)
        if (session->nodes[i].connection.state != RESP_READY &&
            session->nodes[i].connection.failures == 0)
            return false;
    return true;
}

static void connect_all(struct redlock_session *session, int64_t deadline_ns)
{
    int64_t until_ns = deadline_ns;
    bool enough = false;

    for (;;) {
        int64_t now_ns = redlock_session_now(session);

        redlock_session_advance(session);
        if (!enough && ready_count(session) >= session->config->need) {
            enough = true;
            if (now_ns + LINGER_NS < until_ns)
                until_ns = now_ns + LINGER_NS;
        }
        if (all_decided(session) || now_ns >= until_ns)
            return;
        redlock_session_sleep(session, until_ns);
    }
}

/* The status that all failed nodes have in common; else NO_QUORUM. */
static enum dlock_status common_status(const struct redlock_session *session)
{
    enum dlock_status common = DLOCK_OK;

    for (unsigned i = 0; i < session->config->count; i++) {
        const struct redlock_node *node = &session->nodes[i];

        if (node->connection.state == RESP_READY)
            continue;
        if (common != DLOCK_OK && common != node->connection.status)
            return DLOCK_NO_QUORUM;
        common = node->connection.status;
    }
    return common == DLOCK_UNAVAILABLE || common == DLOCK_OK ? DLOCK_NO_QUORUM : common;
}

static void nodes_init(struct redlock_session *session)
{
    for (unsigned i = 0; i < session->config->count; i++) {
        redlock_node_init(&session->nodes[i], session->config, i, session->client->tls,
                          session->host, session->deliver, session);
        session->nodes[i].target = session->target;
    }
}

/* OK: a majority is connected. */
static enum dlock_status connections_check(struct redlock_session *session, struct dlock_error *err)
{
    unsigned ready = ready_count(session);

    if (duplicate_check(session, err) != DLOCK_OK)
        return err->status;
    if (ready >= session->config->need)
        return DLOCK_OK;
    (void)redlock_config_fail(err, session->config, common_status(session),
                              "%u of %u nodes can be used, and a lock needs %u", ready,
                              session->config->count, session->config->need);
    redlock_session_report(err, session);
    return err->status;
}

/* Requests without an answer are delivered. */
static void nodes_close(struct redlock_session *session)
{
    for (unsigned i = 0; i < session->config->count; i++) {
        if (session->nodes[i].count > 0)
            resp_connection_drop(&session->nodes[i].connection, DLOCK_UNAVAILABLE, "not connected");
        redlock_node_close(&session->nodes[i]);
    }
}

enum dlock_status redlock_session_connect(struct redlock_session *session, int64_t deadline_ns,
                                          struct dlock_error *err)
{
    nodes_close(session);
    nodes_init(session);
    connect_all(session, deadline_ns);
    return connections_check(session, err);
}

/* ---- connections that are lent ---- */

static void nodes_use(struct redlock_session *session, struct redlock_node *nodes)
{
    session->nodes = nodes;
    session->polled = false;
    for (unsigned i = 0; nodes != NULL && i < session->config->count; i++) {
        nodes[i].owner = session;
        nodes[i].target = session->target;
    }
}

/* True: no answer is missing, and, with ready, all connections are ready. */
static bool all_answered(const struct redlock_session *session, bool ready)
{
    for (unsigned i = 0; i < session->config->count; i++)
        if (session->nodes[i].count > 0 ||
            (ready && session->nodes[i].connection.state != RESP_READY))
            return false;
    return true;
}

static void nodes_end(struct redlock_session *session)
{
    struct redlock_node *nodes = session->nodes;

    nodes_close(session);
    nodes_use(session, NULL); /* first: a child that is forked meanwhile must not read them */
    free(nodes);
}

void redlock_session_lend(struct redlock_session *session)
{
    if (redlock_client_keep_nodes(session->client, session->nodes))
        nodes_use(session, NULL);
    else if (all_answered(session, false))
        nodes_end(session);
}

bool redlock_session_borrow(struct redlock_session *session)
{
    struct redlock_node *nodes = session->nodes;

    if (nodes == NULL)
        nodes = redlock_client_take_nodes(session->client);
    if (nodes != NULL) {
        nodes_use(session, nodes);
        return true;
    }
    session->nodes = calloc(session->config->count, sizeof *session->nodes);
    if (session->nodes == NULL)
        return false;
    nodes_init(session);
    return true;
}

/* ---- opening ---- */

enum dlock_status redlock_session_open(struct redlock_session *session,
                                       const struct dlock_host *host,
                                       const struct dlock_target *target,
                                       redlock_deliver_fn *deliver, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    session->deliver = deliver;
    session->host = host;
    session->target = target;
    session->client = redlock_client_join(host, target, err);
    if (session->client == NULL)
        return err->status;
    session->config = &session->client->config;
    if (!redlock_session_borrow(session))
        return redlock_config_fail(err, session->config, DLOCK_NOMEM, "no memory for connections");
    connect_all(session, deadline_ns);
    status = connections_check(session, err);
    spin_init(&session->spin, session->config->spin ? spin_processors() : 0);
    return status;
}

void redlock_session_close(struct redlock_session *session)
{
    bool failed = false;

    if (session->client == NULL)
        return;
    failed = session->nodes != NULL && !all_answered(session, true);
    if (session->nodes != NULL)
        nodes_end(session);
    while (failed && (session->nodes = redlock_client_take_nodes(session->client)) != NULL) {
        nodes_use(session, session->nodes); /* the others may be as dead */
        nodes_end(session);
    }
    redlock_client_unref(session->client);
    session->client = NULL;
}

void redlock_session_after_fork(struct redlock_session *session)
{
    for (unsigned i = 0; session->nodes != NULL && i < session->config->count; i++)
        resp_connection_after_fork(&session->nodes[i].connection);
    if (session->client != NULL)
        redlock_client_after_fork(session->client);
}

/* ---- reporting ---- */

void redlock_session_info(struct dlock_session_info *info, const struct redlock_session *session)
{
    const struct redlock_config *config = session->config;
    const struct redlock_node *node = session->nodes;

    while (node->connection.state != RESP_READY)
        node++;
    info->caps = REDLOCK_CAPS;
    if (!config->fences)
        info->caps &= ~DLOCK_CAP_FENCE;
    if (config->restart_guard_ms == 0 || config->nodes[0].unsafe_eviction)
        info->caps &= ~DLOCK_CAP_CRASH_SAFE;
    (void)snprintf(info->server, sizeof info->server, "Redlock of %u, %.40s", config->count,
                   node->connection.info.server);
    redlock_config_print(config, info->endpoint, sizeof info->endpoint);
}

static void line_fill(struct dlock_node_error *line, const struct resp_connection *connection)
{
    const char *text = "connected";

    line->status = DLOCK_OK;
    if (connection->state != RESP_READY) {
        line->status = connection->status;
        text = connection->failures > 0 ? connection->why : "not connected in time";
    }
    (void)snprintf(line->node, sizeof line->node, "%s", connection->config->endpoint);
    (void)snprintf(line->message, sizeof line->message, "%.95s", text);
}

void redlock_session_report(struct dlock_error *err, const struct redlock_session *session)
{
    uint32_t room = err->nodes != NULL ? err->node_room : 0;

    err->node_count = room < session->config->count ? room : session->config->count;
    for (unsigned i = 0; i < err->node_count; i++)
        line_fill(&err->nodes[i], &session->nodes[i].connection);
}
