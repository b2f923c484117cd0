/* SPDX-License-Identifier: MIT */
/*
 * node.h - one connection to one of the nodes, for requests.
 *
 * Replies arrive in the order of the requests: a late reply belongs to the oldest request without
 * one. One thread at a time.
 */
#ifndef REDLOCK_NODE_H
#define REDLOCK_NODE_H

#include "resp/command.h"
#include "resp/config.h"
#include "resp/connection.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/info.h"
#include "resp/keys.h"
#include "resp/reader.h"
#include "resp/reply.h"
#include "resp/setup.h"

enum redlock_ask_kind {
    ASK_ANY,     /* nobody needs to know what became of it */
    ASK_ACQUIRE, /* a lease may come of it */
    ASK_RELEASE  /* has to be repeated with its text, if the node does not know the script */
};

/* What is to be remembered of a request until it is answered. */
struct redlock_ask {
    uint64_t call; /* of the session */
    int64_t sent_ns;
    enum redlock_ask_kind kind;
    /* ASK_ACQUIRE, ASK_RELEASE: */
    int what;          /* enum redlock_release */
    unsigned refusals; /* of a release */
    uint32_t round, name_len;
    unsigned char token[DLOCK_TOKEN_SIZE];
    unsigned char name[RESP_NAME_MAX];
};

#define NODE_ASKS_MAX 64
#define NODE_ASKS_FEW 32 /* with so many that have no answer a node is asked for no more locks */

/* For what the build would zero on the stack, and nobody reads before it is written. */
#define REDLOCK_NOT_ZEROED __attribute__((uninitialized))

struct redlock_node;
struct redlock_place;

/* An answer to a request; freed by the caller. NULL: the connection ended without one. May send on
 * the node. */
typedef void redlock_deliver_fn(struct redlock_node *node, const struct redlock_ask *ask,
                                const redisReply *reply);

struct redlock_node {
    struct resp_connection connection; /* the first member */
    const struct redlock_place *all;
    const struct dlock_target *target; /* to read passwords of; valid while it is advanced */
    redlock_deliver_fn *deliver;
    void *owner;        /* for deliver */
    unsigned index;     /* among the nodes */
    int64_t votes_ns;   /* no new lock before [restart_guard] */
    bool knows_release; /* the text of its script went out on this connection */
    struct redlock_ask asks[NODE_ASKS_MAX];
    unsigned first, count; /* of asks */
};

void redlock_node_init(struct redlock_node *node, const struct redlock_place *all, unsigned index,
                       const struct tls *tls, const struct dlock_host *host,
                       redlock_deliver_fn *deliver, void *owner);
/* Says nothing to the server. */
void redlock_node_close(struct redlock_node *node);

void redlock_node_advance(struct redlock_node *node, int64_t now_ns);

/* From when on there is something to do even if its descriptor is silent. */
int64_t redlock_node_due_ns(const struct redlock_node *node, int64_t now_ns);
/* There may be now. */
bool redlock_node_restless(const struct redlock_node *node, int64_t now_ns);

/* Sends a request, or keeps it to be sent. False: certainly not sent, and why says the reason. */
bool redlock_node_send(struct redlock_node *node, const char *bytes, size_t len,
                       const struct redlock_ask *ask);

/* When the oldest request without an answer was sent; 0: there is none. */
int64_t redlock_node_waiting_since(const struct redlock_node *node);

#endif
