/* SPDX-License-Identifier: MIT */
/*
 * round.h - one request to all nodes at once, and a verdict as soon as the answers allow one.
 *
 * A round does not wait for an answer that cannot change the verdict. Such an answer is taken when
 * the connection is used again (redlock_round_deliver).
 *
 * Rounds that run together share the writes to the nodes, and nothing else: each has its own
 * answers, deadline and verdict.
 */
#ifndef REDLOCK_ROUND_H
#define REDLOCK_ROUND_H

#include "quorum.h"
#include "release.h"

enum redlock_answer_state {
    ANSWER_NOT_SENT, /* not yet */
    ANSWER_REFUSED,  /* certainly not executed: status, why */
    ANSWER_PENDING,  /* or it is a vote already, and the look behind it is missing */
    ANSWER_SILENT,   /* sent; no answer came in time, or the connection ended */
    ANSWER_GIVEN     /* vote: yes or no */
};

struct redlock_answer {
    enum redlock_answer_state state;
    enum redlock_quorum_vote vote;
    bool straggler;       /* an older answer was overdue when the request was sent */
    bool again;           /* the node was asked `next` */
    bool voted;           /* PENDING: the vote is there */
    uint64_t request;     /* its number on the connection, or that of the look behind it */
    int64_t until_ns;     /* PENDING: the round waits until then */
    uint64_t life;        /* of the connection that it was sent on; 0: not sent */
    uint64_t undone_life; /* of the connection on which its undoing was answered; 0: none */
    char server[RESP_RUN_ID_SIZE]; /* that it was sent to; "": not sent */
    int64_t number;                /* GIVEN: what `read` took from it */
    int64_t
        guard_ms; /* REFUSED: time for which the node has no vote on new locks; 0: another cause */
    enum dlock_status status;
    char why[RESP_WHY_SIZE];
};

/* The caller zeroes it and fills it down to `data`. */
struct redlock_round {
    struct redlock_session *session;
    struct redlock_request *request;
    struct redlock_request *next;     /* for nodes that are to be asked again; NULL: none are */
    struct redlock_sent_request sent; /* as it is remembered; round_id and sent_ns are filled in */
    int64_t node_timeout_ns;
    int64_t deadline_ns;
    bool strict; /* a node has node_timeout_ns, and is left out while an older answer is overdue */
    bool new_lock; /* or an adoption: nodes in their guard time are left out [restart_guard] */
    bool over;     /* nothing more is sent; late answers are taken */
    bool all;      /* a verdict does not end it before node_timeout_ns while answers are missing */
    unsigned only; /* bits: these nodes alone; 0: all */
    enum redlock_quorum_verdict (*judge)(const struct redlock_round *round);
    /* The vote in a reply that is no error. QUORUM_REFUSED: the reply makes no sense. QUORUM_OPEN:
     * the node is asked `next`. */
    enum redlock_quorum_vote (*read)(struct redlock_round *round, unsigned node,
                                     const redisReply *reply);
    void *data; /* for read */

    enum redlock_quorum_verdict verdict; /* once it has ended */
    bool ended;                          /* takes no further answer */
    int64_t start_ns;
    enum redlock_quorum_vote votes[REDLOCK_NODES_MAX];
    struct redlock_quorum_tally tally; /* of votes */
    struct redlock_answer answers[REDLOCK_NODES_MAX];
    char *bytes; /* of request, while it runs */
    size_t len;
    bool no_memory;
};

/* A judge: waits for every node that can answer. WON: a majority answered. */
enum redlock_quorum_verdict redlock_round_judge_heard(const struct redlock_round *round);

/* Runs it. QUORUM_SHORT if there is no memory. */
enum redlock_quorum_verdict redlock_round_run(struct redlock_round *round);
/* Runs n rounds of one session together, and sets their verdicts. */
void redlock_round_run_all(struct redlock_round *const *rounds, size_t n);

/* The redlock_deliver_fn of all sessions, which are the owners of their nodes. What a node granted
 * after its round is given back, unless the attempt lives. A release that a node did not execute
 * becomes pending. */
void redlock_round_deliver(struct redlock_node *node, const struct redlock_sent_request *sent,
                           const redisReply *reply);

/* Adds a line for each node to err: the vote, or why there is none. */
void redlock_round_report(struct dlock_error *err, const struct redlock_round *round);

#endif
