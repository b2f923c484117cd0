/* SPDX-License-Identifier: MIT */
/*
 * info.h - the server's answers to INFO and CONFIG GET, and their meaning for a lock.
 */
#ifndef RESP_INFO_H
#define RESP_INFO_H

#include "resp/config.h"

#include <hiredis/hiredis.h>

#define RESP_RUN_ID_SIZE 48

struct resp_info {
    char server[64]; /* "Redis 7.0.15" */
    char role[16];
    char policy[32];               /* maxmemory-policy */
    char fsync[16];                /* appendfsync; "": the user may not read it */
    bool fsync_pauses;             /* no-appendfsync-on-rewrite */
    bool aof_begins;               /* the append-only file is being written for the first time */
    char run_id[RESP_RUN_ID_SIZE]; /* another one after each start; "": unknown */
    int64_t max_memory;
    int64_t uptime_s;
    int64_t major;    /* of the version that the server says it is compatible with */
    int64_t clock_us; /* the server's wall clock; 0: unknown */
    bool aof, cluster, sentinel, loading;
    int64_t replicas;              /* that are connected */
    char followers[128];           /* of what follows the server, backups (port 0) among them */
    char replid[RESP_RUN_ID_SIZE]; /* another one after each start, and after each promotion */
    bool has_past;                 /* the server has a replication id of before */
    bool followed;                 /* it got data from a master, or was told to follow one */
    int64_t min_replicas;          /* min-replicas-to-write; -1: the user may not read it */
    int64_t max_lag_s, node_timeout_ms; /* 0: unknown */
    bool replicas_stay;                 /* cluster-allow-replica-migration no */
    bool is_guarded; /* set by plugins/redis/guard/guard.h: the connection has it */
};

/* Reads the answer to INFO. */
void resp_info_parse(struct resp_info *info, const char *text, size_t len);
/* Reads the answer to CONFIG GET. */
void resp_info_parse_config(struct resp_info *info, const redisReply *reply);

/* Whether an answer to INFO replication is of the server of info, as a master, since the same start
 * and the same promotion. */
bool resp_info_is_same_master(const struct resp_info *info, const redisReply *reply);

/* Whether locks may be taken at this server. OK: caps is set to the capabilities in force;
 * UNAVAILABLE, PROTOCOL or CONFIG: err says why not. */
enum dlock_status resp_info_judge(const struct resp_info *info, const struct resp_config *config,
                                  uint64_t *caps, struct dlock_error *err);

/* Passes the checks of probe to fn. */
void resp_info_report(const struct resp_info *info, const struct resp_config *config,
                      dlock_check_fn *fn, void *arg);

/* True: the server was a replica since its start, and became the master. An id of before alone is
 * no sign: since Redis 7 a master that restarts reads one from its file. */
bool resp_info_was_promoted(const struct resp_info *info);

#endif
