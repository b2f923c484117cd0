/* SPDX-License-Identifier: MIT */
/* flight.h - requests that leave together, and their answers. */
#ifndef ZK_FLIGHT_H
#define ZK_FLIGHT_H

#include "link.h"

enum zk_op { ZK_CREATE, ZK_DELETE, ZK_SET, ZK_CHILDREN, ZK_EXISTS, ZK_GET, ZK_SYNC };

/* One request. A call belongs to a flight, lives in its memory, and is not moved. */
struct zk_call {
    /* Set by zk_flight_add and what follows it. */
    enum zk_op op;
    char *path;       /* malloced with the flight */
    const char *data; /* ZK_CREATE, ZK_SET: the value; borrowed until the call is begun */
    size_t data_len;
    char *value;                /* zk_flight_value: what data is then; malloced with the flight */
    int flags;                  /* of ZK_CREATE: ZOO_EPHEMERAL ... */
    int version;                /* of ZK_SET: that of the present value; else ZBADVERSION */
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
    struct zk_flight *flight;
    bool open; /* the library has it */
    int64_t sent_ns;
};

#define ZK_FLIGHT_MOST 128

/*
 * Calls that leave together, and are executed in this order. A flight that was given up at its
 * deadline lives on until its last answer is there.
 */
struct zk_flight;

/* NULL: no memory. `most` calls at most. */
struct zk_flight *zk_flight_new(struct zk_link *link, size_t most);
/* The answers may be read until then. Calls without an answer go on. NULL is fine. */
void zk_flight_free(struct zk_flight *flight);
/* NULL: no memory. */
struct zk_call *zk_flight_add(struct zk_flight *flight, enum zk_op op, const char *path);
/* "PARENT/CHILD" */
struct zk_call *zk_flight_add_child(struct zk_flight *flight, enum zk_op op, const char *parent,
                                    const char *child);
/* Gives the call a copy of data. False: no memory. */
bool zk_flight_value(struct zk_call *call, const char *data, size_t len);

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
enum dlock_status zk_flight_run(struct zk_flight *flight, int64_t *session_id, int64_t deadline_ns,
                                struct dlock_error *err);

/*
 * What zk_flight_run would have said of `count` of its calls alone, from number `first` on. said,
 * why: what it did say. With LOST, and if nothing was sent, that is true of each part.
 */
enum dlock_status zk_flight_part(const struct zk_flight *flight, size_t first, size_t count,
                                 enum dlock_status said, const struct dlock_error *why,
                                 struct dlock_error *err);

/*
 * A run without waiting: on_end is called once, with the mutex held, when each call has an
 * answer or an error (ZCONNECTIONLOSS and the like), and must free the flight. False: not sent, and
 * on_end is not called. With the mutex held.
 */
bool zk_flight_begin(struct zk_flight *flight, void (*on_end)(struct zk_flight *flight, void *arg),
                     void *arg);
struct zk_call *zk_flight_call(struct zk_flight *flight, size_t i);

/* ---- for link.c, with the mutex held ---- */

/* The library's handle is gone: nothing that was sent by it is answered any more. */
void zk_flight_end_all(struct zk_link *link);

#endif
