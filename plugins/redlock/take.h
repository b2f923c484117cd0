/* SPDX-License-Identifier: MIT */
/* take.h - a request for a new lock to all nodes, and what their answers say. */
#ifndef REDLOCK_TAKE_H
#define REDLOCK_TAKE_H

#include "client.h"
#include "fence.h"
#include "round.h"

#define REDLOCK_TAKE_LABEL 512
#define REDLOCK_TAKE_OWNER 40 /* a token, or the beginning of another program's text */

struct redlock_take {
    struct redlock_session *session;
    const struct dlock_request *req;
    struct redlock_attempt *attempt;
    struct dlock_grant *grant; /* out, and so are status and err */
    struct dlock_error *err;
    enum dlock_status status;
    unsigned retries;                    /* of split votes */
    int64_t sent_ns;                     /* when it was asked for last */
    enum redlock_quorum_verdict verdict; /* on the lock and its fencing token */
    bool won;                            /* a majority took the name */
    struct redlock_request script, plain;
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], number[RESP_DIGITS], ttl[RESP_DIGITS];
    char fence[RESP_DIGITS]; /* the number that the lease is to have; "-": none */
    struct redlock_fence_vote fences[REDLOCK_NODES_MAX];
    char value[RESP_HEX_SIZE + 2 * RESP_DIGITS + REDLOCK_TAKE_LABEL]; /* of plain */
    char owners[REDLOCK_NODES_MAX]
               [REDLOCK_TAKE_OWNER]; /* of nodes that said no; "": several owners */
    struct redlock_round round;
    struct redlock_round raise; /* of redlock_take_raise */
};

void redlock_take_init(struct redlock_take *taking, struct redlock_session *session,
                       const struct dlock_request *req);
/* Asks all nodes for the lock of each take of one session, in one write to each node. n: at most
 * REDLOCK_BATCH_MOST. */
void redlock_take_ask(struct redlock_take *const *takes, size_t n);

bool redlock_take_wants_fence(const struct redlock_take *taking);
/* True: the node said that another owner has the lock. */
bool redlock_take_is_no(const struct redlock_round *round, unsigned node);
unsigned redlock_take_noes(const struct redlock_round *round);
/* True: nobody has a majority. The owners that the nodes name have lost the vote, too. */
bool redlock_take_is_split(const struct redlock_round *round);

/* ---- fencing tokens (fence.h) ---- */

/* For each take whose name a majority took: sets its verdict. WON: a majority has one number for
 * the lease, which is its token, or the lease has none. SHORT: no number fits the clocks of a
 * majority. UNSURE: too few nodes confirmed it. n: at most REDLOCK_BATCH_MOST, of one session. */
void redlock_take_raise(struct redlock_take *const *takes, size_t n);

/* Why no number fits. */
enum dlock_status redlock_take_raise_fail(const struct redlock_take *taking,
                                          struct dlock_error *err);

/* ---- locks that were not won ---- */

/* Undoes the request of a take on each node that may have granted the lock. */
void redlock_take_undo(struct redlock_take *taking);

/* Waits, after the verdict UNSURE, until the nodes have confirmed the undoing of each take, by the
 * deadline of its request. n: at most REDLOCK_BATCH_MOST, of one session. */
void redlock_take_undo_await(struct redlock_take *const *takes, size_t n);

/* True: so many nodes have confirmed it that no majority can have the lock. */
bool redlock_take_is_undone(const struct redlock_take *taking);

#endif
