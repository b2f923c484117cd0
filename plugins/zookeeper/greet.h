/* SPDX-License-Identifier: MIT */
/*
 * greet.h - asks the servers of a URI, one after another, for the shortest session that they give,
 * before the client library gets their addresses.
 *
 * The library tells neither why it cannot connect nor how long a tick of the servers is. A session
 * of 1 ms is made as long as the servers' minSessionTimeout: two ticks, unless their configuration
 * says otherwise. So half of it is the tick, or more; where minSessionTimeout is set to less than
 * two ticks, tick= must be given. The session is closed at once.
 */
#ifndef ZK_GREET_H
#define ZK_GREET_H

#include "names.h"

struct zk_greeting {
    char hosts[ZK_HOSTS_SIZE]; /* as zk_names_write gives them */
    char endpoint[64];         /* of the server that answered, as the URI has it */
    int64_t least_ms;          /* minSessionTimeout */
};

/*
 * OK: a server answered; the hosts are those of all servers whose names could be looked up. An
 * equal share of the time for each server.
 * UNAVAILABLE: none answers, and why; PROTOCOL: it is no ZooKeeper; INVALID, NOMEM.
 */
enum dlock_status zk_greet(struct zk_greeting *greeting, const struct zk_config *config,
                           const struct dlock_host *host, int64_t deadline_ns,
                           struct dlock_error *err);

#endif
