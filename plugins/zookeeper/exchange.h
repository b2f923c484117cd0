/* SPDX-License-Identifier: MIT */
/*
 * exchange.h - requests that leave together, and their answers; watchers, which hear of the next
 * change of a node; and the statuses of dlock for errors of ZooKeeper.
 */
#ifndef ZK_EXCHANGE_H
#define ZK_EXCHANGE_H

#include "link.h"
#include "liveness.h"

enum zk_op { ZK_CREATE, ZK_DELETE, ZK_SET, ZK_CHILDREN, ZK_EXISTS, ZK_GET, ZK_SYNC };

/* One request. A call belongs to an exchange, lives in its memory, and is not moved. */
struct zk_call {
    /* Set by zk_exchange_add and what follows it. */
    enum zk_op op;
    char *path;       /* malloced with the exchange */
    const char *data; /* ZK_CREATE, ZK_SET: the value; borrowed until the call is begun */
    size_t data_len;
    char *value; /* zk_exchange_value: what data is then; malloced with the exchange */
    int flags;   /* of ZK_CREATE: ZOO_EPHEMERAL ... */
    int version; /* of ZK_SET: that of the present value; else ZBADVERSION */
    struct zk_watcher *watcher; /* ZK_EXISTS, ZK_GET: hears of the node; ZK_CHILDREN: of children
                                   that come and go; NULL: none. Only ZK_EXISTS hears of a node that
                                   is not there yet */

    /* The answer. */
    bool done;
    int rc; /* ZOK, or an error of zookeeper.h */
    struct Stat stat;
    char *text; /* ZK_CREATE: the path with the sequence; ZK_GET: the value; malloced; or NULL */
    size_t text_len;
    struct String_vector children; /* ZK_CHILDREN: a copy */

    /* Under the mutex of the link. */
    struct zk_exchange *exchange;
    bool open; /* the library has it */
    int64_t sent_ns;
};

#define ZK_EXCHANGE_MOST 128

/*
 * Calls that leave together, and are executed in this order. An exchange that was given up at its
 * deadline lives on until its last answer is there.
 */
struct zk_exchange;

/* NULL: no memory. `most` calls at most. */
struct zk_exchange *zk_exchange_new(struct zk_link *link, size_t most);
/* The answers may be read until then. Calls without an answer go on. NULL is fine. */
void zk_exchange_free(struct zk_exchange *exchange);
/* NULL: no memory. */
struct zk_call *zk_exchange_add(struct zk_exchange *exchange, enum zk_op op, const char *path);
/* "PARENT/CHILD" */
struct zk_call *zk_exchange_add_child(struct zk_exchange *exchange, enum zk_op op,
                                      const char *parent, const char *child);
/* Gives the call a copy of data. False: no memory. */
bool zk_exchange_value(struct zk_call *call, const char *data, size_t len);

/*
 * Waits for a connection (inside the deadline), sends the calls, and waits for all answers.
 *
 * OK: each call has an answer; its rc says which. ZNONODE and the like are answers.
 * UNAVAILABLE: nothing was sent, or only calls that change nothing were without an answer.
 * UNKNOWN: a create, delete or set has no answer. It may be executed later in the same session.
 * AUTH: the servers refused the credentials. NOMEM: nothing was sent. PROTOCOL.
 * LOST: *session_id is not 0 and not the present session: that one is over, nothing was sent.
 * *session_id 0 gets the id of the session that the calls were sent in.
 */
enum dlock_status zk_exchange_run(struct zk_exchange *exchange, int64_t *session_id,
                                  int64_t deadline_ns, struct dlock_error *err);

/*
 * What zk_exchange_run would have said of `count` of its calls alone, from number `first` on. said,
 * why: what it did say. With LOST, and if nothing was sent, that is true of each part.
 */
enum dlock_status zk_exchange_part(const struct zk_exchange *exchange, size_t first, size_t count,
                                   enum dlock_status said, const struct dlock_error *why,
                                   struct dlock_error *err);

/*
 * A run without waiting: on_end is called once, with the mutex held, when each call has an
 * answer or an error (ZCONNECTIONLOSS and the like), and must free the exchange. False: not sent,
 * and on_end is not called. With the mutex held.
 */
bool zk_exchange_begin(struct zk_exchange *exchange,
                       void (*on_end)(struct zk_exchange *exchange, void *arg), void *arg);
struct zk_call *zk_exchange_call(struct zk_exchange *exchange, size_t i);

/*
 * The status of an answer that a slot has no better word for, with err filled: "what PATH: TEXT".
 * ZNOAUTH and ZAUTHFAILED: AUTH. Quota, ZINVALIDACL, ZNOCHILDRENFOREPHEMERALS and the like: CONFIG.
 * ZOPERATIONTIMEOUT, ZCONNECTIONLOSS, ZCLOSING, ZSESSIONEXPIRED, ZSESSIONMOVED: UNAVAILABLE (the
 * caller knows if a write is in doubt). All others: PROTOCOL.
 */
enum dlock_status zk_exchange_fail(struct dlock_error *err, int rc, const char *what,
                                   const char *path);

/* ---- watchers ---- */

/*
 * The library keeps a watcher until its node changes, its user has gone, or the session ends; so it
 * has memory of its own and outlives its user. A watcher is for one call that is sent.
 */
struct zk_watcher {
    struct zk_watcher *next, **link; /* the link's list */
    bool fired;                      /* the node changed, or the session ended; under the mutex */
    bool pending;                    /* the library has it, or may keep it with the answer */
    bool kept;                       /* the library has answered, and keeps it */
    bool unused;                     /* its user has gone */
    bool children;                   /* of the node, and not of its value */
    char *path;                      /* of the node, while it is pending; NULL: not known */
    struct zk_wait *wait;            /* woken by it; NULL: nobody. Under the mutex */
};

/* NULL: no memory. */
struct zk_watcher *zk_watcher_new(struct zk_link *link);
/* Nobody waits for it any more. NULL is fine. */
void zk_watcher_free(struct zk_link *link, struct zk_watcher *watcher);

/* A thread that waits for a watcher or an interrupt. */
struct zk_wait {
    struct zk_link *link;
    pthread_cond_t cond;
    bool interrupted;
};

/* Sleeps until the watcher has fired (OK), the wait is interrupted (CANCELED) or the deadline
 * (TIMEOUT). wait->cond is made and destroyed by it. *where: under the mutex, set to wait
 * meanwhile, for the one who interrupts. *interrupted: sticky, under the mutex. */
enum dlock_status zk_watcher_await(struct zk_link *link, struct zk_watcher *watcher,
                                   struct zk_wait **where, const bool *interrupted,
                                   int64_t deadline_ns);
/* Wakes it. With the mutex held. */
void zk_watcher_interrupt(struct zk_wait *wait);

/* ---- for link.c, with the mutex held ---- */

/* The library's handle is gone: nothing that was sent by it is answered any more. */
void zk_exchange_end_all(struct zk_link *link);
/* The session has ended. */
void zk_watcher_fire_all(struct zk_link *link);
/* The library's handle is gone. */
void zk_watcher_forget_all(struct zk_link *link);

#endif
