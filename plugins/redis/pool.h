/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the connections of a session for requests.
 *
 * While there are no more requests at a time than connections allowed, each request has a
 * connection to itself; beyond that requests share. A dead connection that still has users is not
 * counted. A request that finds all connections in use makes a further one, inside its deadline;
 * the pool makes one connection at a time.
 */
#ifndef REDIS_POOL_H
#define REDIS_POOL_H

#include "resp/command.h"
#include "resp/info.h"
#include "resp/reader.h"

#include <pthread.h>
#include <stdatomic.h>

struct redis_pipeline;

struct redis_pool {
    void *session; /* `self`, for the host */
    const struct dlock_host *host;
    const struct resp_config *config;
    const struct tls *tls;
    unsigned limit;           /* of connections */
    unsigned processors;      /* to spin on; 0: the pool never spins */
    _Atomic uint32_t numbers; /* counts the requests */
    _Atomic unsigned asking;  /* threads in redis_pool_send_request */
    _Atomic uint32_t caps;    /* in force on every connection */
    _Atomic bool
        contended; /* others want the same names: spinning would take the processor from them */

    pthread_mutex_t mutex; /* guards the rest; a leaf */
    pthread_cond_t changed;
    struct redis_pipeline *pipelines;
    bool connecting;
    int64_t retry_ns, pause_ns; /* the time of the next further connection; the last pause */
};

void redis_pool_init(struct redis_pool *pool, void *session, const struct dlock_host *host,
                     const struct resp_config *config, const struct tls *tls, int64_t limit);
/* No thread uses it any more. */
void redis_pool_fini(struct redis_pool *pool);
/* In a forked child, instead of fini: closes descriptors and frees nothing. */
void redis_pool_after_fork(struct redis_pool *pool);

/* Makes a connection and judges the server [OPN-1], with the status of slot open. keep: the
 * connection is kept for requests; else it is closed. */
enum dlock_status redis_pool_connect(struct redis_pool *pool, bool keep, int64_t deadline_ns,
                                     struct resp_info *server_info, uint32_t *caps,
                                     struct dlock_error *err);

/* A number for a request, never 0. */
uint32_t redis_pool_number(struct redis_pool *pool);

/* The restart guard that applies: 0 if the server was durable on every connection. */
int64_t redis_pool_guard_ms(const struct redis_pool *pool);

struct redis_request;
typedef bool redis_validate_fn(const struct redis_request *request, const redisReply *reply);

/*
 * While the server of a connection has been up for less than restart_guard, a request that `grants`
 * is not sent on it (BUSY, with a text). In other requests `guarded`, a word of the command, is "1"
 * then, and the script passes nothing on; else it is "0".
 */
struct redis_request {
    const struct resp_command *command;
    uint32_t number;  /* the answer is it or ends with it, else PROTOCOL; 0: no number */
    size_t reply_max; /* bytes of the answer */
    int64_t deadline_ns;
    bool grants;
    bool keeps;             /* a renewal: as for `grants`, the server has to be a master still */
    char *guarded;          /* NULL: the command has no such word */
    int64_t *guard_left_ms; /* set with BUSY; NULL unless `grants` */
    /* True: an answer that is no error, without its number, has the right form. False: answers may
     * belong to other requests: PROTOCOL, and no request is answered on that connection any more.
     */
    redis_validate_fn *validate;
    size_t expects; /* for validate */
};

/*
 * Sends one command and waits for its answer, to be freed by freeReplyObject. UNAVAILABLE, BUSY, or
 * a status of redis_pool_connect: no byte was sent; UNKNOWN; PROTOCOL; NOMEM.
 */
enum dlock_status redis_pool_send_request(struct redis_pool *pool,
                                          const struct redis_request *request, redisReply **out,
                                          struct dlock_error *err);

#endif
