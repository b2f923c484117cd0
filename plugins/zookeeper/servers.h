/* SPDX-License-Identifier: MIT */
/*
 * servers.h - the servers of a URI: their addresses, and the shortest session that they give. The
 * servers are asked for it one after another, before the client library gets the addresses.
 *
 * All host names are looked up at the same time, at open and again for each new connection.
 *
 * The library tells neither why it cannot connect nor how long a tick of the servers is. A session
 * of 1 ms is made as long as the servers' minSessionTimeout: two ticks, unless their configuration
 * says otherwise. So half of it is the tick, or more; where minSessionTimeout is set to less than
 * two ticks, tick= must be given. The session is closed at once.
 */
#ifndef ZK_SERVERS_H
#define ZK_SERVERS_H

#include "config.h"

#include <netdb.h>

#define ZK_HOSTS_SIZE ((size_t)64 * 4 * ZK_SERVERS_MAX)

/* Used by one thread at a time. */
struct zk_names {
    const struct zk_config *config;
    struct zk_lookup {
        struct resolve_job *job; /* NULL: done */
        int result;              /* 0, or a value of EAI_* */
        struct addrinfo *list;
    } lookups[ZK_SERVERS_MAX];
};

/* Starts the lookup of each name; numbers are done at once. zk_servers_lookup_end ends it. */
void zk_servers_lookup(struct zk_names *names, const struct zk_config *config);
/* Whether the lookup of a server is done. Waits for nothing. */
bool zk_servers_is_looked_up(struct zk_names *names, size_t server);
/* Lookups that are not done are abandoned. Harmless twice, and on zeroed names. */
void zk_servers_lookup_end(struct zk_names *names);

/* Writes the addresses that are known, numbers only, for the library: "127.0.0.1:2181,::1:2181" (it
 * takes what is behind the last colon for the port). Of an even number the first one is there
 * twice: the library would try half of them. While one of the names has none, those of `before`
 * follow: an address may be of that name. before: ""; or what was written before. */
void zk_servers_write(const struct zk_names *names, const char *before, char out[ZK_HOSTS_SIZE]);

struct zk_servers {
    char hosts[ZK_HOSTS_SIZE]; /* as zk_servers_write gives them */
    char endpoint[64];         /* of the server that answered, as the URI has it */
    int64_t least_ms;          /* minSessionTimeout */
};

/*
 * OK: a server answered; the hosts are those of all servers whose names could be looked up. An
 * equal share of the time for each server.
 * UNAVAILABLE: none answers, and why; PROTOCOL: it is no ZooKeeper; INVALID, NOMEM.
 */
enum dlock_status zk_servers_ask(struct zk_servers *servers, const struct zk_config *config,
                                 const struct dlock_host *host, int64_t deadline_ns,
                                 struct dlock_error *err);

#endif
