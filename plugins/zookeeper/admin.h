/* SPDX-License-Identifier: MIT */
/* admin.h - slot inspect: the holders of a name. */
#ifndef ZK_ADMIN_H
#define ZK_ADMIN_H

#include "queue.h"
#include "session.h"

/* A name, and what is below its node. */
struct zk_admin_name {
    unsigned char bytes[256];
    uint32_t len;
    const struct String_vector *children; /* of a call of a flight */
    bool gone; /* out: they held the name, and have gone before they were read */
};

enum dlock_status zk_admin_inspect(struct zk_session *session, const unsigned char *name,
                                   uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                   void *arg, struct dlock_error *err);

/* Reports the holders of n names, which it reads in flights. Each flight takes timeout_ns at most.
 * A waiter that may take a permit counts for the holders that are read in one flight with it. A
 * holder that has gone meanwhile is not reported; if that leaves none of a name, the name is looked
 * at again, for timeout_ns at most. *stopped: fn wants no more. */
enum dlock_status zk_admin_report(struct zk_session *session, struct zk_admin_name *names, size_t n,
                                  int64_t timeout_ns, dlock_holder_fn *fn, void *arg, bool *stopped,
                                  struct dlock_error *err);

/* The children of a node, as the leader knows them now. *flight, which has them, is the caller's to
 * free, also after a failure. *children NULL: there is no node. */
enum dlock_status zk_admin_children(struct zk_session *session, const char *path,
                                    int64_t deadline_ns, struct zk_flight **flight,
                                    struct String_vector **children, struct dlock_error *err);

/* The path of a name. INVALID: with key=raw it has none. */
enum dlock_status zk_admin_path(struct zk_path *path, const struct zk_session *session,
                                const unsigned char *name, uint32_t name_len,
                                struct dlock_error *err);

/* Of a contender's node: another program's owner may be long, and is cut. */
struct zk_admin_texts {
    char owner[129], label[256];
    int64_t permit;  /* of a semaphore's holder; -1: none */
    size_t label_at; /* where the label and the data begin in the value */
};

/* get: the answer to ZK_GET of the node; without one there is no label. */
void zk_admin_texts(struct zk_admin_texts *texts, const struct zk_node *node,
                    const struct zk_call *get);

/* The nodes that hold a name, or may take a permit. */
struct zk_admin_holders {
    struct zk_admin_holder {
        size_t index;      /* of the name, for zk_admin_report */
        uint32_t waiters;  /* behind the nodes that hold the name, or may take a permit */
        const char *child; /* name of the node; points into the children */
        struct zk_node node;
    } * items; /* malloced */
    size_t count, room;
    size_t index; /* of what is added next */
    bool failed;  /* no memory */
};

/* Adds the holders among the children. False: no memory. */
bool zk_admin_add(struct zk_admin_holders *holders, const struct String_vector *children);

#endif
