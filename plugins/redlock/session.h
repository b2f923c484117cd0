/* SPDX-License-Identifier: MIT */
/*
 * session.h - a connection to each node, for one call at a time.
 *
 * While a thread waits for a name, its session lends the connections to other sessions.
 */
#ifndef REDLOCK_SESSION_H
#define REDLOCK_SESSION_H

#include "client.h"
#include "net/spin.h"

#define REDLOCK_CAPS                                                                   \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_CRASH_SAFE | \
     DLOCK_CAP_WATCH)

struct redlock_round;

struct redlock_session {
    const struct dlock_host *host;
    const struct dlock_target *target;
    struct redlock_client *client;
    const struct redlock_config *config; /* the client's */
    struct redlock_node *nodes;          /* config->count; NULL: lent */
    redlock_deliver_fn *deliver;         /* takes the answers of the nodes */
    struct redlock_round *const *rounds; /* in progress; for deliver */
    size_t round_count;
    size_t rounds_before;  /* of the exchange before */
    unsigned backlog_mask; /* bits: nodes that owed many answers when the rounds began */
    struct spin spin;
    bool polled;            /* ready_mask is fresh */
    unsigned ready_mask;    /* bits: nodes that can send or receive */
    unsigned deferred_mask; /* bits: nodes that wake nobody, and are advanced with the next one */
};

/* Connects until a majority is ready and the others had a moment more, or until the deadline. */
enum dlock_status redlock_session_open(struct redlock_session *session,
                                       const struct dlock_host *host,
                                       const struct dlock_target *target,
                                       redlock_deliver_fn *deliver, int64_t deadline_ns,
                                       struct dlock_error *err);
void redlock_session_close(struct redlock_session *session);
void redlock_session_after_fork(struct redlock_session *session);

static inline int64_t redlock_session_now(const struct redlock_session *session)
{
    return session->host->now_ns(session->host->ctx);
}

/* What is sent between cork and uncork leaves in one write to each node. */
void redlock_session_cork(struct redlock_session *session);
void redlock_session_uncork(struct redlock_session *session);

/* Advances all nodes. */
void redlock_session_advance(struct redlock_session *session);
/* Sleeps until a node can be advanced, or until until_ns. */
void redlock_session_sleep(struct redlock_session *session, int64_t until_ns);
/* Makes all connections again. The status is as that of redlock_session_open. */
enum dlock_status redlock_session_connect(struct redlock_session *session, int64_t deadline_ns,
                                          struct dlock_error *err);

/* Lends the connections, if another session may need them. */
void redlock_session_lend(struct redlock_session *session);
/* Takes back connections, or makes new ones, which connect with the next request. False: no
 * memory. */
bool redlock_session_borrow(struct redlock_session *session);

/* Fills what open and probe report. At least one node is ready. */
void redlock_session_info(struct dlock_session_info *info, const struct redlock_session *session);

/* Adds a line for each node to err: what is wrong with its connection. */
void redlock_session_report(struct dlock_error *err, const struct redlock_session *session);

#endif
