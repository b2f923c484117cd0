/* SPDX-License-Identifier: MIT */
/*
 * redlock.h - what the files of the redlock plugin share.
 *
 * A lock is held by whoever holds it on a majority of independent Redis servers. A session has a
 * connection to each of them and is used by one call at a time; a call is a round or two: one
 * request to all nodes at once, and a verdict as soon as their answers allow one.
 *
 *   plugin.c   the slots, in the order of plugin.h
 *   place.c    what the URI says
 *   quorum.c   what the answers of N nodes mean together
 *   node.c     one connection
 *   round.c    one request to all nodes
 *   request.c  the requests: scripts with their keys and arguments
 *   session.c  connecting
 *   release.c  giving back on a node what nobody waits for
 *   pending.c  the releases that nodes have yet to be told
 *   deliver.c  what becomes of an answer
 *   report.c   errors, with a line for each node
 *   lease.c    trylock
 *   unlock.c   unlock, break
 *   renew.c    renew, and putting back what a minority lost
 *   hub.c      what a client has once: its leases, and who waits
 *   watch.c    waiting for a majority to be free
 *   look.c     inspect, look.h
 *   list.c     list
 *   probe.c    looking at the nodes
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include "lib/time.h"
#include "node.h"
#include "pending.h"
#include "quorum.h"
#include "script.h"

#define REDLOCK_ORIGIN    "redlock"
#define REDLOCK_NODES_MAX DLOCK_NODE_ERRORS_MAX
#define REDLOCK_OWNER_SIZE                                                \
    256 /* with its NUL, as inspect shows it: it may be another program's \
         */

/* ---- place.c ---- */

/* What a client's URI says. Freed by redlock_place_free; a zeroed one is fine. */
struct redlock_place {
    struct resp_config nodes[REDLOCK_NODES_MAX];
    unsigned count, need;
    int64_t node_timeout_ms; /* 0: from the ttl */
    int64_t restart_guard_ms;
    int64_t retry_delay_ms;
    unsigned retry_count;
    bool spin;
    unsigned named;                 /* bits: nodes whose node= has a user of its own */
    char *common[2];                /* owned: user and prefix of the URI */
    char *texts[REDLOCK_NODES_MAX]; /* owned: node= taken apart */
    size_t text_lens[REDLOCK_NODES_MAX];
};

/* OK, INVALID, CONFIG or NOMEM. Only the files of certificates stay target's. */
enum dlock_status redlock_place_init(struct redlock_place *place, const struct dlock_target *target,
                                     struct dlock_error *err);
void redlock_place_free(struct redlock_place *place);
/* "h1:6379 and 2 more" */
void redlock_place_show(const struct redlock_place *place, char *out, size_t size);

/*
 * The present password of a node, from the URI's or from its line of node=, read again. NULL: there
 * is none. To be freed by resp_secret_free.
 */
enum dlock_status redlock_place_secret(const struct redlock_place *place, unsigned node,
                                       const struct dlock_target *target, char **secret,
                                       struct dlock_error *err);

/* How long one node may take to answer, for a lease of ttl_ms; 0: not for one lease. */
int64_t redlock_place_timeout_ns(const struct redlock_place *place, int64_t ttl_ms);

/* ---- session.c ---- */

struct redlock_hub;
struct redlock_round;

struct redlock_session {
    const struct dlock_host *host;
    const struct dlock_target *target;
    struct redlock_hub *hub;
    const struct redlock_place *place; /* the hub's */
    struct redlock_node *nodes;        /* place->count; NULL: lent, while it watches */
    struct redlock_pending *pending;   /* the hub's */
    redlock_deliver_fn *deliver;       /* takes the answers */
    struct redlock_round *round;       /* the one in progress */
    struct spin spin;
    bool polled;    /* stirs is fresh */
    unsigned stirs; /* bits: nodes at which something can be done */
    unsigned quiet; /* bits: nodes that nobody is to be woken for; looked at afterwards */
};

/* Opens connections until a majority is ready and the others had a moment, or by the deadline. */
enum dlock_status redlock_session_open(struct redlock_session *session,
                                       const struct dlock_host *host,
                                       const struct dlock_target *target,
                                       redlock_deliver_fn *deliver, int64_t deadline_ns,
                                       struct dlock_error *err);
void redlock_session_close(struct redlock_session *session);
void redlock_session_leave(struct redlock_session *session);

static inline int64_t redlock_now(const struct redlock_session *session)
{
    return session->host->now_ns(session->host->ctx);
}

/* Advances all nodes. */
void redlock_session_advance(struct redlock_session *session);
/* Sleeps until something happened at one of them, or until_ns. */
void redlock_session_sleep(struct redlock_session *session, int64_t until_ns);
/* Makes all connections anew. OK; or as redlock_session_open. */
enum dlock_status redlock_session_connect(struct redlock_session *session, int64_t deadline_ns,
                                          struct dlock_error *err);
unsigned redlock_session_ready(const struct redlock_session *session);

/* Gives the connections to the hub, for any session of the client, while this one sleeps. */
void redlock_session_lend(struct redlock_session *session);
/* Takes some again, or makes new ones, which connect with the next request. False: no memory. */
bool redlock_session_borrow(struct redlock_session *session);

/* What open and probe say of it; a node is ready. */
void redlock_info_fill(struct dlock_session_info *info, const struct redlock_session *session);

/* ---- request.c ---- */

/* A script with its keys and arguments, which are borrowed until it was sent. */
struct redlock_request {
    const struct resp_script *script; /* NULL: a plain command */
    char count[RESP_DIGITS];
    struct resp_command command;
};

void redlock_request_begin(struct redlock_request *request, enum redlock_script_id script,
                           unsigned names);
void redlock_request_name(struct redlock_request *request, const struct resp_keys *keys);
/* The bytes to be sent, to be freed by free; with the script's text, for a server that does not
 * know it. NULL: no memory. */
char *redlock_request_format(struct redlock_request *request, bool whole, size_t *len);

enum redlock_release { REDLOCK_UNLOCK, REDLOCK_UNDO, REDLOCK_LEAVE };
#define REDLOCK_ALL_ROUNDS UINT32_MAX

/* A release by token; but for the owner, the texts it borrows are in it. */
struct redlock_release_request {
    struct redlock_request request;
    struct resp_keys keys;
    char round[RESP_DIGITS];
};
/* owner: a token in hex, another program's text, or "*" for any holder; borrowed. */
void redlock_release_make(struct redlock_release_request *release,
                          const struct redlock_place *place, const unsigned char *name,
                          uint32_t name_len, const char *owner, uint32_t last_round,
                          enum redlock_release what);

/* ---- round.c ---- */

enum redlock_answer_state {
    ANSWER_NOT_SENT, /* yet */
    ANSWER_REFUSED,  /* certainly not executed: status, why */
    ANSWER_PENDING,
    ANSWER_SILENT, /* sent, and no answer came in time; or the connection ended */
    ANSWER_GIVEN   /* vote: yes or no */
};

struct redlock_answer {
    enum redlock_answer_state state;
    enum quorum_vote vote;
    bool straggler;                /* was behind when it was asked */
    bool again;                    /* asked `next` */
    int64_t until_ns;              /* PENDING: waited for */
    uint64_t life;                 /* of the connection that it was sent on; 0: it was not sent */
    uint64_t undone_life;          /* of the one on which a release of it was answered; 0: none */
    char server[RESP_RUN_ID_SIZE]; /* that it was sent to; "": to none */
    int64_t number;                /* GIVEN: what `read` took from it */
    int64_t guard_ms; /* REFUSED: the node has no vote on new locks for so long; 0: another cause */
    enum dlock_status status;
    char why[RESP_WHY_SIZE];
};

/* One request to all nodes. Zeroed, then filled down to `data`. */
struct redlock_round {
    struct redlock_session *session;
    struct redlock_request *request;
    struct redlock_request *next; /* for nodes that are to be asked again; NULL: none are */
    struct redlock_ask ask;       /* as it is remembered; call and sent_ns are filled in */
    int64_t node_timeout_ns;
    int64_t deadline_ns;
    bool strict;   /* a node has node_timeout_ns, and is left out while it owes an older answer */
    bool new_lock; /* nodes that may not grant one are left out [restart_guard] */
    bool over;     /* nothing is sent for it any more; late answers are taken */
    bool all;      /* a verdict does not end it before node_timeout_ns, if there are open nodes */
    unsigned only; /* bits: these nodes alone; 0: all */
    enum quorum_verdict (*judge)(const struct redlock_round *round);
    /* The vote in a reply that is no error. QUORUM_REFUSED: it makes no sense. QUORUM_OPEN: the
     * node is asked `next`. */
    enum quorum_vote (*read)(struct redlock_round *round, unsigned node, const redisReply *reply);
    void *data; /* for read */

    enum quorum_vote votes[REDLOCK_NODES_MAX];
    struct quorum_tally tally; /* of votes */
    struct redlock_answer answers[REDLOCK_NODES_MAX];
    char *bytes; /* of request */
    size_t len;
    bool no_memory;
};

/* For judge: everybody who can answers. WON: a majority did. */
enum quorum_verdict redlock_judge_heard(const struct redlock_round *round);

/* Runs it. QUORUM_SHORT if there is no memory. */
enum quorum_verdict redlock_round_run(struct redlock_round *round);

/* An answer to the request of the round in progress. */
void redlock_round_answer(struct redlock_round *round, struct redlock_node *node,
                          const redisReply *reply);

/* ---- release.c ---- */

/* What is remembered of a release. */
void redlock_ask_fill(struct redlock_ask *ask, const unsigned char *name, uint32_t name_len,
                      const unsigned char *token, uint32_t last_round, enum redlock_release what);

/* Sends a release to the nodes of these bits without waiting for the answers; to one that has no
 * connection now, when it has. */
void redlock_session_release(struct redlock_session *session, unsigned nodes,
                             const unsigned char *name, uint32_t name_len,
                             const unsigned char *token, uint32_t last_round,
                             enum redlock_release what);

/* The node is told when there is a connection to it. */
void redlock_release_later(struct redlock_session *session, unsigned node,
                           const struct redlock_ask *release);
/* Sends it now. False: it could not be sent, and is told later. */
bool redlock_release_send(struct redlock_session *session, struct redlock_node *node,
                          const struct redlock_ask *release);

/* Advances all nodes, and tells them what is pending. */
void redlock_release_advance(struct redlock_session *session);

/* ---- deliver.c ---- */

/* An answer to any request of a session. */
void redlock_deliver(struct redlock_node *node, const struct redlock_ask *ask,
                     const redisReply *reply);

/* ---- report.c ---- */

/* Fills err: the status, one line for all, and one for each node. */
__attribute__((format(printf, 4, 5))) enum dlock_status
redlock_fail(struct dlock_error *err, const struct redlock_place *place, enum dlock_status status,
             const char *format, ...);
/* The name's key of the lock, or another one of the name, is something else. */
enum dlock_status redlock_fail_key(struct dlock_error *err, const struct redlock_place *place,
                                   enum dlock_status status, const struct resp_keys *keys);
/* Adds a line for each node, of a round or of the connections alone (NULL). */
void redlock_report(struct dlock_error *err, const struct redlock_session *session,
                    const struct redlock_round *round);

/* ---- lease.c, unlock.c, renew.c, watch.c, look.c, probe.c: slots of plugin.h ---- */

enum dlock_status redlock_trylock(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status redlock_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                int64_t deadline_ns, struct dlock_error *err);
enum dlock_status redlock_unlock(void *self, const struct dlock_request *req,
                                 struct dlock_error *err);
enum dlock_status redlock_break(void *self, const unsigned char *name, uint32_t name_len,
                                const char *owner, int64_t deadline_ns, struct dlock_error *err);
enum dlock_status redlock_watch(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
void redlock_interrupt(void *self, const struct dlock_request *req);
enum dlock_status redlock_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);
enum dlock_status redlock_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                               int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err);
enum dlock_status redlock_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                                dlock_check_fn *fn, void *arg, struct dlock_error *err);

#endif
