/* SPDX-License-Identifier: MIT */
/*
 * node.h - one connection to one of the nodes, and the requests that have no answer yet.
 *
 * Answers arrive in the order of the requests: a late answer belongs to the oldest request without
 * one. One thread at a time uses a node.
 */
#ifndef REDLOCK_NODE_H
#define REDLOCK_NODE_H

#include "config.h"
#include "redlock/lua/script.h"
#include "resp/command.h"
#include "resp/connection.h"
#include "resp/keys.h"

#include <stdbool.h>

/* ---- requests ---- */

#define REDLOCK_BATCH_MOST                                                       \
    64 /* names that leave in one write to each node; a longer batch is executed \
        in parts */

/* How many of n elements are the next part, after `done` of them. */
static inline size_t redlock_batch_part(size_t n, size_t done)
{
    return n - done < REDLOCK_BATCH_MOST ? n - done : REDLOCK_BATCH_MOST;
}

/* For a variable that is written before it is read: the build would zero it on the stack. */
#define REDLOCK_NOT_ZEROED __attribute__((uninitialized))

/* Keys and arguments are borrowed until the request was formatted. */
struct redlock_request {
    const struct resp_script *script; /* NULL: a plain command */
    char count[RESP_DIGITS];
    struct resp_command command;
};

/* names: how many keys follow. */
void redlock_node_request_begin(struct redlock_request *request, enum redlock_script_id script,
                                unsigned names);
void redlock_node_request_name(struct redlock_request *request, const struct resp_keys *keys);
/* The bytes to be sent, to be freed by free; NULL: no memory. whole: with the text of the script,
 * for a server that does not know it. */
char *redlock_node_request_format(struct redlock_request *request, bool whole, size_t *len);

/* Of a request that is no plain command. */
static inline enum redlock_script_id redlock_request_script(const struct redlock_request *request)
{
    return (enum redlock_script_id)(request->script - redlock_scripts);
}

/* ---- the connection ---- */

enum redlock_sent_kind {
    SENT_ANY,     /* the answer matters to its round alone */
    SENT_ACQUIRE, /* the node may have granted a lease */
    SENT_RELEASE, /* is sent again with the text of its script, if the node does not know that */
    SENT_RECHECK  /* whether the node is still the server that was judged; see node.c */
};

/* What is remembered of a request until it is answered. */
struct redlock_sent_request {
    uint64_t round_id; /* of the round that waits for the answer; 0: none does */
    uint64_t number;   /* of the request on its connection, from 1 on; redlock_node_send sets it */
    int64_t sent_ns;
    enum redlock_sent_kind kind;
    bool rechecks; /* its answer counts after the look behind it */
    /* The rest is set for SENT_ACQUIRE and SENT_RELEASE: */
    int what;          /* enum redlock_release_kind */
    unsigned refusals; /* of a release, so far */
    uint32_t round, name_len;
    unsigned char token[DLOCK_TOKEN_SIZE];
    unsigned char name[RESP_NAME_MAX];
};

/* A node with so many requests without an answer is not asked for new locks. */
#define REDLOCK_NODE_SENT_FEW 48
/* ... and more than the requests and undoings of the last exchange, which a node that is a little
 * slower than a majority may still owe. */
#define REDLOCK_NODE_SENT_BATCH 2
/* Room for them, and for a request, a look, an undoing and a queue entry of each name of a batch.
 */
#define REDLOCK_NODE_SENT_MAX \
    (REDLOCK_NODE_SENT_FEW + (REDLOCK_NODE_SENT_BATCH + 4) * REDLOCK_BATCH_MOST)

/*
 * A connection may outlive what it was made to: a proxy keeps it while the server behind it starts
 * anew, and a server keeps it while it is a replica for a moment. Either may have forgotten locks.
 * So a look (INFO replication) follows the requests for new locks of a write, and each so many of
 * them. An answer counts when the look behind it has found the server that on_ready judged: the
 * identity of a server never comes back, so the requests before found it, too. If not, the
 * connection is dropped; else the look is delivered.
 */
#define REDLOCK_NODE_RECHECK 16

struct redlock_node;

/* Takes the answer to a request, which the caller frees. reply NULL: the connection ended without
 * an answer. May send on the node, if there is a reply. */
typedef void redlock_deliver_fn(struct redlock_node *node, const struct redlock_sent_request *sent,
                                const redisReply *reply);

struct redlock_node {
    struct resp_connection connection; /* the first member */
    const struct redlock_config *config;
    const struct dlock_target *target; /* to read passwords of; valid while it is advanced */
    redlock_deliver_fn *deliver;
    void *owner;                     /* for deliver */
    unsigned index;                  /* among the nodes */
    int64_t ready_ns;                /* when the answer to INFO was read */
    int64_t votes_ns;                /* no vote on a new lock before [restart_guard] */
    char promoted[RESP_RUN_ID_SIZE]; /* the replication id since the last promotion; "": none */
    int64_t promoted_ns;             /* when that was seen first */
    bool corked;                     /* requests leave with redlock_node_uncork */
    unsigned unchecked;              /* requests that a look has to follow */
    uint64_t requests;               /* that were sent on this connection */
    uint64_t texts[REDLOCK_SCRIPT_COUNT]; /* the last one with the text of a script; 0: none */
    unsigned first, count;                /* of sent */
    struct redlock_sent_request sent[REDLOCK_NODE_SENT_MAX]; /* a ring; the last member */
};

void redlock_node_init(struct redlock_node *node, const struct redlock_config *config,
                       unsigned index, const struct tls *tls, const struct dlock_host *host,
                       redlock_deliver_fn *deliver, void *owner);
/* Does not deliver. */
void redlock_node_close(struct redlock_node *node);

void redlock_node_advance(struct redlock_node *node, int64_t now_ns);

/* The time from which advance has work even if the descriptor is silent. */
int64_t redlock_node_due_ns(const struct redlock_node *node, int64_t now_ns);
/* Advance may have work now, even if the descriptor is silent. */
bool redlock_node_has_work(const struct redlock_node *node, int64_t now_ns);

/* Sends a request, or queues it to be sent. False: certainly not sent; connection.why says why. */
bool redlock_node_send(struct redlock_node *node, const char *bytes, size_t len,
                       const struct redlock_sent_request *sent);

/* The requests between cork and uncork leave in one write. */
void redlock_node_cork(struct redlock_node *node);
void redlock_node_uncork(struct redlock_node *node);

/* The last request had the text of the script. */
void redlock_node_text_sent(struct redlock_node *node, enum redlock_script_id script);
/* True: the text went out on this connection. */
bool redlock_node_has_text(const struct redlock_node *node, enum redlock_script_id script);
/* The answer to a request was that the node does not know the script. The text that went out before
 * that request is of no use any more; one that went out after it is. */
void redlock_node_text_unknown(struct redlock_node *node, enum redlock_script_id script,
                               const struct redlock_sent_request *sent);

/* When the oldest request without an answer was sent; 0: there is none. */
int64_t redlock_node_waiting_since(const struct redlock_node *node);

#endif
