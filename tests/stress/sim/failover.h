/* SPDX-License-Identifier: MIT */
/* failover.h - what the servers of a store that fails over share with the guard in them. */
#ifndef SIM_FAILOVER_H
#define SIM_FAILOVER_H

#include "world.h"

/* The record of a master's term. It is a key: replicas have it, too. */
struct sim_term {
    uint64_t id;
    int64_t since_ns, last_ns, looked_ns, written;
    unsigned joined;
};

struct sim_server {
    bool is_master;
    uint64_t id; /* another one after each promotion and each start */
    int64_t written, ahead_ns;
    unsigned joins;
    struct sim_term term;
    struct { /* what this master knows of another server */
        bool online;
        int64_t received;
    } replicas[SIM_SERVERS];
    int follows;
    int64_t moved_ns; /* since when */
    int64_t cut_ns;   /* receives nothing until then */
    int64_t stands_ns;
    bool applies;          /* a copy is on its way */
    bool acknowledges;     /* and so is what it says of one */
    uint64_t acknowledged; /* the master's id */
    int64_t received;
};

static inline int64_t sim_server_now(const struct sim_server *server)
{
    return sim_now() - SIM_START_NS + server->ahead_ns;
}

/* ---- failover.c ---- */

/* The server that executes a request now. */
struct sim_server *sim_failover_executing(void);
/* The server has written something: replicas will have it, and say so. */
void sim_failover_wrote(struct sim_server *master);

/* ---- failover_guard.c ---- */

/* Chooses T, D and S of the guard. */
void sim_failover_terms_choose(void);
/* T + D: how long a master grants nothing. */
int64_t sim_failover_grants_ns(void);
/* S: how far the clocks of the servers differ at most. */
int64_t sim_failover_differ_ns(void);

#endif
