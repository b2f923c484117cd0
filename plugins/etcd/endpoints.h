/* SPDX-License-Identifier: MIT */
/*
 * endpoints.h - the members that the URI names, and the channel to one of them that the threads of
 * the session share.
 *
 * A member is not asked any more when its channel is dead: the next call connects to the next
 * member in turn, inside its own deadline, with an equal share of the time for each. One thread
 * connects, others wait for it. Each new connection is set up and checked as by `open`.
 */
#ifndef ETCD_ENDPOINTS_H
#define ETCD_ENDPOINTS_H

#include "connect.h"

struct etcd_endpoints {
    struct etcd_cluster cluster;
    pthread_mutex_t mutex;               /* guards the rest; a leaf */
    pthread_cond_t connected;            /* connecting is over */
    struct etcd_connection *connections; /* all that are not freed */
    struct etcd_connection *present;     /* the one to use; NULL: none */
    bool connecting;
    bool counts;               /* the session is open, and its connections are counted [CNT-1] */
    size_t next_index;         /* of the member to try first */
    struct etcd_member member; /* of the last connection; cluster_id 0: there was none */
};

/* A channel and the number of its users. The last user of a dead channel frees it. */
struct etcd_connection {
    struct etcd_connection *next;
    struct etcd_channel *channel;
    struct etcd_member member;
    unsigned users; /* and one for being the present one; under the mutex of the endpoints */
};

/* Zeroed before. False: errno. */
bool etcd_endpoints_init(struct etcd_endpoints *endpoints, const struct etcd_config *config,
                         const struct dlock_host *host, struct tls *tls);
/* The session is open. *member: of the last connection. */
void etcd_endpoints_opened(struct etcd_endpoints *endpoints, struct etcd_member *member);
/* No thread uses it any more. Harmless on zeroes. */
void etcd_endpoints_fini(struct etcd_endpoints *endpoints);
/* In a forked child, instead of fini: closes descriptors, takes no mutex, frees nothing. */
void etcd_endpoints_after_fork(struct etcd_endpoints *endpoints);

/*
 * The channel to use, connected by deadline_ns. *fresh: it was made by this call. Put it back; a
 * channel that failed is retired before (etcd_channel_retire), if it is not dead.
 * UNAVAILABLE: no member answers or has a leader, or one of them does not, and the others are
 * wrong; AUTH; CONFIG; PROTOCOL; NOMEM.
 */
enum dlock_status etcd_endpoints_take(struct etcd_endpoints *endpoints, int64_t deadline_ns,
                                      struct etcd_connection **out, bool *fresh,
                                      struct dlock_error *err);
void etcd_endpoints_put(struct etcd_endpoints *endpoints, struct etcd_connection *connection);

#endif
