/* SPDX-License-Identifier: MIT */
/*
 * pipeline.h - one connection that any number of threads ask on at once.
 *
 * The server answers in the order of the requests, so that a list of who asked says whose an
 * answer is. There is no thread for it: of those who wait, one is the leader. It sends what has
 * gathered, reads for all, hands each answer to its owner, and passes the lead on when it has its
 * own. Who asks while the leader is awake only adds its request; while the leader sleeps in poll,
 * it sends, too.
 *
 * A request that is given up leaves its place in the list behind: its answer is dropped when it
 * comes. Nothing new is asked on that connection then (C9); what others asked before is still
 * answered, and the last of them to leave closes it.
 *
 * The mutex is a leaf. It is held for calls that wait for nothing, and for TLS whenever OpenSSL is
 * called; never in poll.
 */
#ifndef REDIS_PIPELINE_H
#define REDIS_PIPELINE_H

#include "setup.h"

#include <pthread.h>
#include <stdatomic.h>

/* A request, on the stack of who asks it. */
struct redis_exchange {
    const char *bytes;
    size_t len, reply_max;
    int64_t deadline_ns;
    bool spin; /* looking for the answer may be better than sleeping for it */
    /* False: this is no answer to `asked`, and the connection is over for all who ask on it. */
    bool (*validate)(const void *asked, redisReply *reply);
    const void *asked;

    enum dlock_status status; /* OK; UNAVAILABLE: not a byte has left; UNKNOWN; PROTOCOL; NOMEM */
    redisReply *reply;        /* OK: to be freed by freeReplyObject */
    char why[STREAM_WHY_SIZE];

    struct redis_exchange *next;
    uint64_t begins;        /* the byte of the connection that is its first */
    unsigned skip;          /* answers before its own that nobody wants any more */
    size_t skip_max;        /* bytes of the longest of them */
    _Atomic uint32_t state; /* see pipeline.c */
};

enum redis_leader { REDIS_LEADER_NONE, REDIS_LEADER_AWAKE, REDIS_LEADER_ASLEEP };

struct redis_pipeline {
    struct redis_pipeline *next; /* both under the pool's mutex */
    unsigned users;
    _Atomic bool dead;       /* takes no more requests; never set back */
    _Atomic int64_t role_ns; /* when the server was last asked whether it is a master; the pool's */
    int64_t guard_until_ns;  /* the server grants nothing before [restart_guard]; the pool's */

    pthread_mutex_t mutex;
    struct redis_connection connection;
    int wake_fd;                         /* eventfd: there is more to send than the leader knows */
    struct redis_exchange *first, *last; /* asked and not answered, in order */
    enum redis_leader leader;
    char *out; /* to be sent: the last out_len bytes of `asked` */
    size_t out_len, out_size;
    uint64_t asked, bytes_sent; /* bytes of all requests, and how many of them may have left */
    char chunk[8192];           /* the leader's: what was read */
    bool write_failed;          /* sending failed; what was answered before is still read */
};

/* Connects, and asks what resp_setup asks. The same status; NULL unless OK. */
enum dlock_status redis_pipeline_open(struct redis_pipeline **out, const struct resp_config *config,
                                      const struct tls *tls, const struct dlock_host *host,
                                      int64_t deadline_ns, struct resp_info *server_info,
                                      struct dlock_error *err);

/* Nobody asks on it any more. */
void redis_pipeline_close(struct redis_pipeline *pipeline);
/* In a forked child: gives descriptors back, and no memory. */
void redis_pipeline_after_fork(struct redis_pipeline *pipeline);

/*
 * Asks, and waits for the answer until exchange->deadline_ns. False: nothing was done, because the
 * connection is dead, or was found to be: another one may do.
 */
bool redis_pipeline_exchange(struct redis_pipeline *pipeline, struct redis_exchange *exchange);

#endif
