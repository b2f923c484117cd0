/* SPDX-License-Identifier: MIT */
/*
 * node.h - one connection to one of the nodes, which nobody ever waits for.
 *
 * redlock_node_advance does what can be done now: connect, TLS, who we are, what the server is,
 * send what is left to send, take what has arrived. Answers come in the order of the requests, so
 * that a late one belongs to the oldest request that has none. What fails is closed, and made anew
 * after a while; a new connection is set up and looked at before anything else is sent on it.
 *
 * One thread at a time.
 */
#ifndef REDLOCK_NODE_H
#define REDLOCK_NODE_H

#include "net/resolve.h"
#include "resp/command.h"
#include "resp/config.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/info.h"
#include "resp/keys.h"
#include "resp/reader.h"
#include "resp/reply.h"
#include "resp/setup.h"

enum redlock_node_state {
    NODE_DOWN, /* until retry_ns; status and why say what happened */
    NODE_RESOLVING,
    NODE_CONNECTING,
    NODE_SECURING,
    NODE_SETTING_UP,
    NODE_READY
};

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
#define NODE_WHY_SIZE 96 /* as dlock_node_error.message */

/* For what the build would zero on the stack, and nobody reads before it is written. */
#define REDLOCK_NOT_ZEROED __attribute__((uninitialized))

struct redlock_node;
struct redlock_place;

/* An answer to a request; freed by the caller. NULL: the connection ended without one. Subscribers:
 * a message, and ask is NULL; or reply is NULL, of a ping. May send on the node. */
typedef void redlock_deliver_fn(struct redlock_node *node, const struct redlock_ask *ask,
                                const redisReply *reply);

struct redlock_node {
    const struct redlock_place *all;
    const struct resp_config *place;   /* in it */
    const struct dlock_target *target; /* to read passwords of; valid while it is advanced */
    const struct tls *tls;
    const struct dlock_host *host;
    redlock_deliver_fn *deliver;
    void *owner;         /* for deliver */
    unsigned index;      /* among the nodes */
    const char *channel; /* to subscribe to; NULL: a node for requests */

    enum redlock_node_state state;
    enum dlock_status status; /* of the last failure; OK: none yet */
    char why[NODE_WHY_SIZE];
    unsigned failures;
    int64_t retry_ns;   /* not to be tried before */
    int64_t limit_ns;   /* READY by then, or DOWN */
    uint64_t life;      /* counts connections that became READY */
    bool knows_release; /* the text of its script went out on this connection */

    struct resolve_job *job;
    struct addrinfo *addresses, *at;
    struct stream stream;
    struct resp_reader reader;
    short events; /* of a handshake, or of what is left to send */
    struct resp_setup setup;
    char *secret; /* the password that the server was told; until READY */
    struct resp_info facts;
    int64_t votes_ns; /* no new lock before [restart_guard] */
    int64_t heard_ns; /* subscribers: when the server last said something */

    char *out; /* to be sent */
    size_t out_len, out_room;
    struct redlock_ask asks[NODE_ASKS_MAX];
    unsigned first, count; /* of asks */
};

void redlock_node_init(struct redlock_node *node, const struct redlock_place *all, unsigned index,
                       const struct tls *tls, const struct dlock_host *host,
                       redlock_deliver_fn *deliver, void *owner);
/* Says nothing to the server. */
void redlock_node_close(struct redlock_node *node);
/* In a forked child: gives the descriptor back, and no memory. */
void redlock_node_leave(struct redlock_node *node);

void redlock_node_advance(struct redlock_node *node, int64_t now_ns);

/* What to poll its descriptor for; 0: nothing now. */
short redlock_node_events(const struct redlock_node *node);

/* From when on there is something to do even if its descriptor is silent. */
int64_t redlock_node_due_ns(const struct redlock_node *node, int64_t now_ns);
/* There may be now. */
bool redlock_node_restless(const struct redlock_node *node, int64_t now_ns);

/* On its way to READY, or about to be. */
bool redlock_node_coming(const struct redlock_node *node, int64_t now_ns);

/* Sends a request, or keeps it to be sent. False: certainly not sent, and why says the reason. */
bool redlock_node_send(struct redlock_node *node, const char *bytes, size_t len,
                       const struct redlock_ask *ask);

/* When the oldest request without an answer was sent; 0: there is none. */
int64_t redlock_node_waiting_since(const struct redlock_node *node);

/* Ends the connection. */
__attribute__((format(printf, 3, 4))) void
redlock_node_drop(struct redlock_node *node, enum dlock_status status, const char *format, ...);

#endif
