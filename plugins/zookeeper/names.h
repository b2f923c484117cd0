/* SPDX-License-Identifier: MIT */
/*
 * names.h - the addresses of the servers of a URI: all host names are looked up at the same time,
 * at open and again for each new connection. Used by one thread at a time.
 */
#ifndef ZK_NAMES_H
#define ZK_NAMES_H

#include "config.h"

#include <netdb.h>

#define ZK_HOSTS_SIZE ((size_t)64 * 4 * ZK_SERVERS_MAX)

struct zk_names {
    const struct zk_config *config;
    struct zk_lookup {
        struct resolve_job *job; /* NULL: done */
        int result;              /* 0, or a value of EAI_* */
        struct addrinfo *list;
    } lookups[ZK_SERVERS_MAX];
};

/* Starts the lookup of each name; numbers are done at once. zk_names_end ends it. */
void zk_names_begin(struct zk_names *names, const struct zk_config *config);
/* Whether the lookup of a server is done. Waits for nothing. */
bool zk_names_done(struct zk_names *names, size_t server);
/* Lookups that are not done are abandoned. Harmless twice, and on zeroed names. */
void zk_names_end(struct zk_names *names);

/* Writes the addresses that are known, numbers only, for the library: "127.0.0.1:2181,::1:2181" (it
 * takes what is behind the last colon for the port). Of an even number the first one is there
 * twice: the library would try half of them. While one of the names has none, those of `before`
 * follow: an address may be of that name. before: ""; or what was written before. */
void zk_names_write(const struct zk_names *names, const char *before, char out[ZK_HOSTS_SIZE]);

#endif
