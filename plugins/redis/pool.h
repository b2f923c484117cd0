/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the connections of a session for requests.
 *
 * As long as there are no more requests at a time than connections allowed, each has one to
 * itself; beyond that they share. Dead ones that still have users are not counted. A connection is
 * made when a request finds all others in use, by whoever asks it and inside its deadline, one at
 * a time.
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
    unsigned processors;      /* to spin on; 0: never */
    _Atomic uint32_t numbers; /* of the requests so far */
    _Atomic unsigned asking;  /* threads */
    _Atomic uint32_t caps;    /* that every connection found in force */
    _Atomic bool contended;   /* others want what we want: a processor that spins is not theirs */

    pthread_mutex_t mutex; /* guards the rest; a leaf */
    pthread_cond_t changed;
    struct redis_pipeline *pipelines;
    bool connecting;
    int64_t retry_ns, pause_ns; /* no further connection before that, and after so long */
};

void redis_pool_init(struct redis_pool *pool, void *session, const struct dlock_host *host,
                     const struct resp_config *config, const struct tls *tls, int64_t limit);
/* Nobody asks any more. */
void redis_pool_fini(struct redis_pool *pool);
/* In a forked child, instead of fini: gives descriptors back, and no memory. */
void redis_pool_after_fork(struct redis_pool *pool);

/* Makes a connection, looks at the server and judges it [OPN-1]: as slot open. `keep` it for
 * requests, or was it for the sake of the look? */
enum dlock_status redis_pool_connect(struct redis_pool *pool, bool keep, int64_t deadline_ns,
                                     struct resp_info *server_info, uint32_t *caps,
                                     struct dlock_error *err);

/* A number for a request; 0 is none. */
uint32_t redis_pool_number(struct redis_pool *pool);

/* restart_guard, as it applies here: 0 where every connection found a durable server. */
int64_t redis_pool_guard_ms(const struct redis_pool *pool);

struct redis_request;
typedef bool redis_validate_fn(const struct redis_request *request, const redisReply *reply);

/*
 * While the server at the other end of a connection was up for less than restart_guard, what
 * `grants` is not sent on it (BUSY, with a text), and `guarded`, a word of the command, says "1" to
 * the others, which are to pass nothing on; else "0".
 */
struct redis_request {
    const struct resp_command *command;
    uint32_t number;  /* the answer has to end with it, or be it; PROTOCOL otherwise; 0: none */
    size_t reply_max; /* bytes of the answer */
    int64_t deadline_ns;
    bool grants;
    bool keeps;    /* a renewal: for it and for what grants the server has to be a master still */
    char *guarded; /* NULL: nobody wants to know */
    int64_t *guard_left_ms; /* set with BUSY; NULL unless `grants` */
    /* Whether an answer that is no error, the number taken off, has the shape of one. Where it has
     * not, answers may have slipped: PROTOCOL, and nobody is answered on that connection. */
    redis_validate_fn *validate;
    size_t expects; /* for validate */
};

/*
 * One command, one answer, to be freed by freeReplyObject. UNAVAILABLE, BUSY, or what
 * redis_pool_connect says: not a byte has left; UNKNOWN; PROTOCOL; NOMEM.
 */
enum dlock_status redis_pool_send_request(struct redis_pool *pool,
                                          const struct redis_request *request, redisReply **out,
                                          struct dlock_error *err);

#endif
