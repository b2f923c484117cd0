/* SPDX-License-Identifier: MIT */
/*
 * pipeline.h - one connection on which any number of threads send requests at once.
 *
 * The server answers in the order of the requests, so the list of requests says to which request
 * an answer belongs. There is no thread of its own: one of the waiting threads is the leader. The
 * leader sends the requests that have gathered, reads for all threads, gives each answer to its
 * owner, and passes the lead on when it has its own answer. Another thread only adds its request
 * while the leader is awake; while the leader sleeps in poll, the thread sends it, too.
 *
 * When a request is given up, its answer is dropped on arrival. The connection takes no new
 * request then (C9); requests from before are still answered, and the last user closes the
 * connection.
 *
 * The mutex is a leaf. It is held during calls that do not wait, and with TLS during each call of
 * OpenSSL; never in poll.
 */
#ifndef REDIS_PIPELINE_H
#define REDIS_PIPELINE_H

#include "redis/link/connection.h"

#include <pthread.h>
#include <stdatomic.h>

/* A request, in the memory of its thread. */
struct redis_exchange {
    const char *bytes;
    size_t len, reply_max;
    unsigned before; /* answers before the one that counts: the bytes have as many commands more */
    int64_t deadline_ns;
    bool spin; /* poll for the answer for a short time before sleeping */
    /* False: this is no answer to `asked`, and the connection ends for all its requests. */
    bool (*validate)(const void *asked, redisReply *reply);
    const void *asked;

    enum dlock_status status; /* OK; UNAVAILABLE: no byte was sent; UNKNOWN; PROTOCOL; NOMEM */
    redisReply *reply;        /* OK: to be freed by freeReplyObject */
    char why[STREAM_WHY_SIZE];

    struct redis_exchange *next;
    uint64_t begins;        /* the number of its first byte on the connection */
    bool ends_group;        /* the last one of its thread */
    unsigned skip;          /* answers before its own, to requests that were given up */
    size_t skip_max;        /* bytes of the longest of these answers */
    _Atomic uint32_t state; /* see pipeline.c */
};

enum redis_leader { REDIS_LEADER_NONE, REDIS_LEADER_AWAKE, REDIS_LEADER_ASLEEP };

struct redis_guard;

struct redis_pipeline {
    struct redis_pipeline *next; /* next and users: under the pool's mutex */
    unsigned users;
    _Atomic bool dead; /* takes no more requests; never reset */
    /* The last looks at the settings and for the failover guard; call.c's. */
    _Atomic int64_t settings_ns, viewed_ns;
    int64_t guard_until_ns; /* the server grants nothing before [restart_guard]; the pool's */

    struct resp_config config; /* of this connection's server */

    pthread_mutex_t mutex;
    struct redis_connection connection;
    int wake_fd;                         /* eventfd: there is more to send than the leader knows */
    struct redis_exchange *first, *last; /* requests without an answer, in order */
    unsigned askers;                     /* threads that have a request there */
    enum redis_leader leader;
    char *out; /* to be sent: the last out_len of the `asked` bytes */
    size_t out_len, out_size;
    uint64_t asked, bytes_sent; /* bytes of all requests; bytes that may have been sent */
    char chunk[8192];           /* the leader's: bytes just read */
    bool write_failed;          /* sending failed; answers from before are still read */

    struct redis_guard *guard; /* the pool's */
};

/* Connects to the server of config, which is copied, and sets up, as redis_connection_open, whose
 * status it returns. *out is NULL unless OK. */
enum dlock_status redis_pipeline_open(struct redis_pipeline **out, const struct resp_config *config,
                                      const struct tls *tls, const struct dlock_host *host,
                                      int64_t deadline_ns, struct resp_info *server_info,
                                      struct dlock_error *err);

/* No thread uses it any more. */
void redis_pipeline_close(struct redis_pipeline *pipeline);
/* In a forked child: closes descriptors and frees nothing. */
void redis_pipeline_after_fork(struct redis_pipeline *pipeline);

/*
 * Sends the request, and waits for the answer until exchange->deadline_ns. False: nothing was done,
 * because the connection is dead, perhaps only since now: another connection may work.
 */
bool redis_pipeline_exchange(struct redis_pipeline *pipeline, struct redis_exchange *exchange);

/* The same for n requests, which leave together; all have the same deadline. Each has its own
 * outcome: after a cut, some may be OK, the next ones UNKNOWN, and the last ones UNAVAILABLE. */
bool redis_pipeline_exchange_all(struct redis_pipeline *pipeline, struct redis_exchange *exchanges,
                                 size_t n);

#endif
