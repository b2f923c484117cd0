/* SPDX-License-Identifier: MIT */
/*
 * zk_server.h - servers of ZooKeeper of a test's own, one alone or several that elect a leader, on
 * free ports of 127.0.0.1. Their directory is removed with them, and they end with the process that
 * started them.
 *
 * Java runs them: one starts in a second or two. A tick is 200 ms, and a session lasts from 400 ms
 * to a minute. A follower and its leader give each other up after two seconds of silence. The
 * servers do not wait for the disk. Lines of a test may say otherwise.
 */
#ifndef DLT_ZK_SERVER_H
#define DLT_ZK_SERVER_H

#include "process.h"

#include <proxy_client.h>

#define DLT_ZK_MEMBERS_MAX 3
#define DLT_ZK_LINES_MAX   16
#define DLT_ZK_TICK_MS     200
#define DLT_ZK_SYNC_TICKS  10             /* syncLimit */
#define DLT_ZK_SUPER       "super:secret" /* scheme digest: may do everything */

struct dlt_zk_member {
    pid_t pid; /* 0: it does not run */
    unsigned port, peer_port, election_port;
    char directory[DLT_DIRECTORY_SIZE];
    char address[32]; /* "127.0.0.1:PORT" */
    bool paused;
};

struct dlt_zk {
    struct dlt_zk_member members[DLT_ZK_MEMBERS_MAX];
    unsigned count;
    char directory[DLT_DIRECTORY_SIZE];
    char hosts[160];                     /* for a URI: "127.0.0.1:PORT,127.0.0.1:PORT" */
    char why[768];                       /* after a false */
    const char *lines[DLT_ZK_LINES_MAX]; /* borrowed: "tickTime=500", ..., NULL */
    /* links[a][b]: the way of member a, as a follower, to member b, as its leader. */
    struct dlt_proxy links[DLT_ZK_MEMBERS_MAX][DLT_ZK_MEMBERS_MAX];
    bool linked;   /* there are links */
    bool borrowed; /* somebody else's */
};

/* Starts one server alone, and waits until it answers. lines: of its zoo.cfg, after those that are
 * always there, so that they win; one that begins with '-' is an argument of java. They end with
 * NULL; lines may be NULL. False: why. */
bool dlt_zk_start(struct dlt_zk *server, const char *const *lines);

/* The same with so many servers, which elect a leader. */
bool dlt_zk_start_cluster(struct dlt_zk *server, unsigned count, const char *const *lines);

/* The same, and dlt_zk_cut can cut them off from each other. */
bool dlt_zk_start_linked(struct dlt_zk *server, unsigned count, const char *const *lines);

/* Those that with_server started, if it did; one of its own otherwise. */
bool dlt_zk_borrow(struct dlt_zk *server);

/* SIGKILL to a server (from 0 on), and waits for its end. */
void dlt_zk_kill(struct dlt_zk *server, unsigned member);
/* SIGSTOP, and SIGCONT. */
void dlt_zk_pause(struct dlt_zk *server, unsigned member, bool pause);
/* Runs it again, on the same ports and with the same data, and waits until it answers. */
bool dlt_zk_again(struct dlt_zk *server, unsigned member);
/* The same for all servers, at once. */
bool dlt_zk_again_all(struct dlt_zk *server);
/* Removes the data of a server, which was killed. */
void dlt_zk_forget(struct dlt_zk *server, unsigned member);

/* Cuts a server off: what it and the others send to each other vanishes from now on. Clients reach
 * it. Its end resets those connections, as bytes are missing in them. The servers go on to talk
 * about elections, but cut off nobody can follow a leader or be followed. False: a proxy did not do
 * it. */
bool dlt_zk_cut(struct dlt_zk *server, unsigned member, bool cut);
/* How many pieces of what servers sent to each other have vanished so far. */
int64_t dlt_zk_swallowed(struct dlt_zk *server);

/* It answers, and has a leader or is alone. */
bool dlt_zk_serves(const struct dlt_zk_member *member);
/* Which server leads, or is alone, as it says itself; -1: nobody, at present. */
int dlt_zk_leader(const struct dlt_zk *server);
/* A majority serves, and one of them leads: clients can work. */
bool dlt_zk_has_quorum(const struct dlt_zk *server);
/* Waits for a leader, for ten seconds at most. */
int dlt_zk_leader_wait(const struct dlt_zk *server);
/* Waits until one server leads and all others that run follow, for ten seconds at most. */
bool dlt_zk_settled(const struct dlt_zk *server);

/* What a server answers to one of its words of four letters: "mntr", "cons", "dump". "": nothing.
 * Valid until the next word of this thread. */
const char *dlt_zk_word(const struct dlt_zk_member *member, const char *word);
/* A number of "mntr", as "zk_znode_count"; -1: none. */
int64_t dlt_zk_number(const struct dlt_zk_member *member, const char *name);

/* Ends them, and removes their directory; nothing happens to those that were borrowed. Harmless
 * twice. */
void dlt_zk_stop(struct dlt_zk *server);

#endif
