/* SPDX-License-Identifier: MIT */
/*
 * endpoint.h - the members that the URI names, and the channel to one of them that the threads of
 * the session share.
 *
 * A member is left when its channel is dead: the next call connects to the next member in turn,
 * inside its own deadline, with an equal share of what is left for each. One thread connects,
 * others wait for it. Each new connection is set up and checked as by `open`: login, version, a
 * leader, and that the cluster is the one of before: two clusters would be two holders (CONFIG).
 */
#ifndef ETCD_ENDPOINT_H
#define ETCD_ENDPOINT_H

#include "channel.h"
#include "config.h"

/* What a member said of itself when the channel was made. */
struct etcd_member {
    char version[24];
    char endpoint[64]; /* "host:port" */
    uint64_t cluster_id;
};

struct etcd_endpoints {
    const struct etcd_config *config;
    const struct dlock_host *host;
    struct tls *tls; /* NULL: plain */
    pthread_mutex_t mutex;
    pthread_cond_t connected; /* connecting is over */
    struct etcd_link *link;   /* the present one; NULL: none */
    bool connecting;
    size_t turn;               /* the member to try first */
    struct etcd_member member; /* of the last connection */
};

/* A channel in use by so many threads; freed with the last of them once it is dead. */
struct etcd_link {
    struct etcd_channel *channel;
    unsigned users; /* and one for being the present one */
};

/* Zeroed before. False: errno. */
bool etcd_endpoints_init(struct etcd_endpoints *endpoints, const struct etcd_config *config,
                         const struct dlock_host *host, struct tls *tls);
/* No thread uses it any more. */
void etcd_endpoints_fini(struct etcd_endpoints *endpoints);
void etcd_endpoints_after_fork(struct etcd_endpoints *endpoints);

/*
 * The channel to use, connected by deadline_ns. not: a link that must not be given again, which
 * failed; NULL: none. *fresh: it was made by this call. Put it back.
 * UNAVAILABLE: no member answers or has a leader; AUTH; CONFIG; PROTOCOL; NOMEM.
 */
enum dlock_status etcd_endpoints_take(struct etcd_endpoints *endpoints, int64_t deadline_ns,
                                      struct etcd_link **out, bool *fresh, struct dlock_error *err);
void etcd_endpoints_put(struct etcd_endpoints *endpoints, struct etcd_link *link);

/* connect.c: a connection of its own to one member (index), set up and checked; for take and for
 * probes. */
enum dlock_status etcd_connect(struct etcd_endpoints *endpoints, size_t index, int64_t deadline_ns,
                               struct etcd_channel **out, struct etcd_member *member,
                               struct dlock_error *err);

#endif
