/* SPDX-License-Identifier: MIT */
/*
 * sentinel_server.h - a service of a test's own: a Redis master with two replicas, which three
 * sentinels watch, on free ports of 127.0.0.1. Their directories are removed with them, and they
 * end with the process that started them.
 *
 * The sentinels take a silent server for dead after half a second, and may fail over again after
 * two. A master without a replica that answered a second or two ago takes no write: the bound that
 * failovers need.
 *
 * Sentinels and replicas log in as users of their own, so that dlt_sentinels_part can cut a master
 * off from them while clients still reach it.
 */
#ifndef DLT_SENTINEL_SERVER_H
#define DLT_SENTINEL_SERVER_H

#include "redis_server.h"

#define DLT_SENTINELS_COUNT   3 /* sentinels, and as many servers with data */
#define DLT_SENTINELS_SERVICE "locks"

struct dlt_sentinel {
    pid_t pid; /* 0: it does not run */
    unsigned port;
    char directory[DLT_DIRECTORY_SIZE];
    char address[32]; /* "127.0.0.1:PORT" */
};

struct dlt_sentinels {
    struct dlt_redis redis[DLT_SENTINELS_COUNT];
    struct dlt_sentinel sentinels[DLT_SENTINELS_COUNT];
    char args_text[DLT_SENTINELS_COUNT][64]; /* what the args of servers borrow */
    char hosts[160];                         /* of the sentinels, for a URI */
    bool discreet; /* the default user, which clients are, may not read the servers' settings */
    char why[768]; /* after a false */
};

/* Starts all, and waits until the sentinels know each other and the replicas are in step. args: of
 * the servers with data, after those that are always there; NULL: none. False: why. */
bool dlt_sentinels_start(struct dlt_sentinels *service, const char *const *args);
/* The same, with servers that never stop to take writes and whose settings no client may read. */
bool dlt_sentinels_start_alone(struct dlt_sentinels *service);
/* Harmless twice. */
void dlt_sentinels_stop(struct dlt_sentinels *service);

/* The server that most sentinels say is the master; -1: they do not agree. */
int dlt_sentinels_master(struct dlt_sentinels *service);
/* Waits until the master is another server than `before`, and takes writes; for a minute at most.
 * -1: there is none. before: -1 for any. */
int dlt_sentinels_master_wait(struct dlt_sentinels *service, int before);
/* A failover by hand. False: the sentinels refuse. */
bool dlt_sentinels_failover(struct dlt_sentinels *service);

/* Cuts a server off from the sentinels and from its replicas, or ends that. Clients reach it. */
void dlt_sentinels_part(struct dlt_sentinels *service, unsigned node, bool part);

/* Ends the links of a master to its replicas and lets none begin, or ends that: the replicas lack
 * what it grants meanwhile. Clients and sentinels reach it. */
void dlt_sentinels_lag(struct dlt_sentinels *service, unsigned node, bool lag);

/* Cuts a master off from the sentinels alone, or ends that: its replicas follow it until they are
 * told to follow another one, and the sentinels cannot tell the old master. */
void dlt_sentinels_blind(struct dlt_sentinels *service, unsigned node, bool blind);

/* SIGKILL to a sentinel; SIGSTOP, and SIGCONT. */
void dlt_sentinels_kill(struct dlt_sentinels *service, unsigned sentinel);
void dlt_sentinels_pause(struct dlt_sentinels *service, unsigned sentinel, bool pause);

#endif
