/* SPDX-License-Identifier: MIT */
#include "hub.h"
#include "lib/deadline_cond.h"
#include "lib/time.h"
#include "redlock.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINGER_NS (50 * DL_NS_PER_MS) /* for the rest, once a majority is connected */

/* ---- all nodes ---- */

/* What is left until then, or until a node has something to do that no descriptor tells of. */
static int64_t left_until(const struct redlock_session *session, int64_t until_ns)
{
    int64_t now_ns = redlock_now(session);

    for (unsigned i = 0; i < session->place->count; i++) {
        int64_t due_ns = redlock_node_due_ns(&session->nodes[i], now_ns);

        if (due_ns < until_ns)
            until_ns = due_ns;
    }
    return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* Which nodes want something, after at most left_ns. */
static void poll_all(struct redlock_session *session, int64_t left_ns)
{
    struct pollfd fds[REDLOCK_NODES_MAX];
    struct timespec timeout = dl_deadline_cond_slice(left_ns);

    for (unsigned i = 0; i < session->place->count; i++) {
        const struct redlock_node *node = &session->nodes[i];
        short events = resp_connection_events(&node->connection);

        if ((session->quiet & 1u << i) != 0 && events == POLLIN)
            events = 0;
        fds[i] =
            (struct pollfd){.fd = events != 0 ? node->connection.stream.fd : -1, .events = events};
    }
    session->stirs = session->quiet;
    session->polled = true;
    if (ppoll(fds, session->place->count, &timeout, NULL) <= 0)
        return;
    for (unsigned i = 0; i < session->place->count; i++)
        if (fds[i].revents != 0)
            session->stirs |= 1u << i;
}

void redlock_session_advance(struct redlock_session *session)
{
    int64_t now_ns = redlock_now(session);

    if (!session->polled)
        poll_all(session, 0);
    session->polled = false;
    for (unsigned i = 0; i < session->place->count; i++)
        if ((session->stirs & 1u << i) != 0 || redlock_node_restless(&session->nodes[i], now_ns))
            redlock_node_advance(&session->nodes[i], now_ns);
}

void redlock_session_sleep(struct redlock_session *session, int64_t until_ns)
{
    if (spin_more(&session->spin, dl_time_now_ns(CLOCK_MONOTONIC)))
        (void)sched_yield();
    else
        poll_all(session, left_until(session, until_ns));
}

unsigned redlock_session_ready(const struct redlock_session *session)
{
    unsigned ready = 0;

    for (unsigned i = 0; i < session->place->count; i++)
        ready += session->nodes[i].connection.state == RESP_READY;
    return ready;
}

/* Two nodes are one server: CONFIG. */
static enum dlock_status twins(const struct redlock_session *session, struct dlock_error *err)
{
    for (unsigned i = 0; i < session->place->count; i++) {
        const struct redlock_node *one = &session->nodes[i];

        for (unsigned j = 0; j < i && one->connection.state == RESP_READY; j++) {
            const struct redlock_node *other = &session->nodes[j];

            if (other->connection.state == RESP_READY &&
                strcmp(one->connection.info.run_id, other->connection.info.run_id) == 0)
                return redlock_fail(
                    err, session->place, DLOCK_CONFIG, "%.63s and %.63s are the same server",
                    other->connection.config->endpoint, one->connection.config->endpoint);
        }
    }
    return DLOCK_OK;
}

/* ---- connecting ---- */

static bool all_decided(const struct redlock_session *session)
{
    for (unsigned i = 0; i < session->place->count; i++)
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
        int64_t now_ns = redlock_now(session);

        redlock_session_advance(session);
        if (!enough && redlock_session_ready(session) >= session->place->need) {
            enough = true;
            if (now_ns + LINGER_NS < until_ns)
                until_ns = now_ns + LINGER_NS;
        }
        if (all_decided(session) || now_ns >= until_ns)
            return;
        redlock_session_sleep(session, until_ns);
    }
}

/* What all that failed have in common, if they do. */
static enum dlock_status common_status(const struct redlock_session *session)
{
    enum dlock_status common = DLOCK_OK;

    for (unsigned i = 0; i < session->place->count; i++) {
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
    for (unsigned i = 0; i < session->place->count; i++) {
        redlock_node_init(&session->nodes[i], session->place, i, redlock_hub_tls(session->hub),
                          session->host, session->deliver, session);
        session->nodes[i].target = session->target;
    }
}

/* OK: a majority is there. */
static enum dlock_status connections_check(struct redlock_session *session, struct dlock_error *err)
{
    unsigned ready = redlock_session_ready(session);

    if (twins(session, err) != DLOCK_OK)
        return err->status;
    if (ready >= session->place->need)
        return DLOCK_OK;
    (void)redlock_fail(err, session->place, common_status(session),
                       "%u of %u nodes can be used, and a lock needs %u", ready,
                       session->place->count, session->place->need);
    redlock_report(err, session, NULL);
    return err->status;
}

/* What has no answer yet is delivered without one. */
static void nodes_close(struct redlock_session *session)
{
    for (unsigned i = 0; i < session->place->count; i++) {
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
    for (unsigned i = 0; nodes != NULL && i < session->place->count; i++) {
        nodes[i].owner = session;
        nodes[i].target = session->target;
    }
}

/* ready: all are, too. */
static bool all_answered(const struct redlock_session *session, bool ready)
{
    for (unsigned i = 0; i < session->place->count; i++)
        if (session->nodes[i].count > 0 ||
            (ready && session->nodes[i].connection.state != RESP_READY))
            return false;
    return true;
}

static void nodes_end(struct redlock_session *session)
{
    nodes_close(session);
    free(session->nodes);
    nodes_use(session, NULL);
}

void redlock_session_lend(struct redlock_session *session)
{
    if (redlock_hub_keep(session->hub, session->nodes))
        nodes_use(session, NULL);
    else if (all_answered(session, false))
        nodes_end(session);
}

bool redlock_session_borrow(struct redlock_session *session)
{
    struct redlock_node *nodes = session->nodes;

    if (nodes == NULL)
        nodes = redlock_hub_take(session->hub);
    if (nodes != NULL) {
        nodes_use(session, nodes);
        return true;
    }
    session->nodes = calloc(session->place->count, sizeof *session->nodes);
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
    session->hub = redlock_hub_join(host, target, err);
    if (session->hub == NULL)
        return err->status;
    session->place = redlock_hub_place(session->hub);
    session->pending = redlock_hub_pending(session->hub);
    if (!redlock_session_borrow(session))
        return redlock_fail(err, session->place, DLOCK_NOMEM, "no memory for connections");
    connect_all(session, deadline_ns);
    status = connections_check(session, err);
    spin_init(&session->spin, session->place->spin ? spin_processors() : 0);
    return status;
}

void redlock_session_close(struct redlock_session *session)
{
    bool failed = false;

    if (session->hub == NULL)
        return;
    failed = session->nodes != NULL && !all_answered(session, true);
    if (session->nodes != NULL)
        nodes_end(session);
    while (failed && (session->nodes = redlock_hub_take(session->hub)) != NULL) {
        nodes_use(session, session->nodes); /* they may be just as dead */
        nodes_end(session);
    }
    redlock_hub_leave(session->hub);
    session->hub = NULL;
}

void redlock_session_leave(struct redlock_session *session)
{
    for (unsigned i = 0; session->nodes != NULL && i < session->place->count; i++)
        resp_connection_after_fork(&session->nodes[i].connection);
    if (session->hub != NULL)
        redlock_hub_abandon(session->hub);
}
