/* SPDX-License-Identifier: MIT */
/*
 * zk_client.h - a client of ZooKeeper that tests have beside the one of the plugin. It speaks the
 * protocol itself: what it sees does not depend on the client library that is tested.
 *
 * It asks in words, as zkCli.sh does:
 *
 *     create [-e] [-s] [-c] PATH [DATA]   the path that was made (-c: a container)
 *     set PATH DATA, get PATH             the data
 *     ls PATH                             the children, in order of their names, one a line
 *     stat PATH                           "czxid=N ephemeralOwner=0xN children=N version=N
 * length=N" delete PATH                         "" deleteall PATH                      with all
 * below it; how many could be deleted addauth SCHEME ID                   as "addauth digest
 * u:secret" getAcl PATH                         "SCHEME:ID:PERMISSIONS", one a line, as
 * "world:anyone:cdrwa" setAcl PATH SCHEME:ID:PERMISSIONS sync PATH                           waits
 * for the leader
 *
 * Errors are answers, too: "no node", "node exists", "not empty", "no auth", "auth failed",
 * "connection loss", "error N".
 */
#ifndef DLT_ZK_CLIENT_H
#define DLT_ZK_CLIENT_H

#include "zk_server.h"

#include <stdint.h>

struct dlt_zk_client {
    int fd; /* -1: it is not connected */
    int64_t session_id;
    unsigned char password[16];
    int32_t timeout_ms; /* as negotiated */
    int32_t xid;
};

/* A new session at that server. Nothing keeps it alive but its questions. False: no connection. */
bool dlt_zk_client_open(struct dlt_zk_client *client, const struct dlt_zk_member *member,
                        int32_t timeout_ms);
/* Takes over the session of another client, which loses its connection. False: no connection, or
 * that session has ended. */
bool dlt_zk_client_join(struct dlt_zk_client *client, const struct dlt_zk_member *member,
                        int64_t session_id);
/* The session ends with all its nodes. Harmless twice. */
void dlt_zk_client_close(struct dlt_zk_client *client);
/* Only the connection ends. */
void dlt_zk_client_drop(struct dlt_zk_client *client);

/* Valid until the next question of this thread. */
__attribute__((format(printf, 2, 3))) const char *dlt_zk_client_ask(struct dlt_zk_client *client,
                                                                    const char *format, ...);

/* The same in a session of its own at the first server that runs, as DLT_ZK_SUPER and after a sync,
 * so that it sees everything. */
__attribute__((format(printf, 2, 3))) const char *dlt_zk_ask(const struct dlt_zk *server,
                                                             const char *format, ...);

/* Ends a session, whosever it is, as if it had lasted too long without a word. False: it has ended
 * already. */
bool dlt_zk_expire(const struct dlt_zk *server, int64_t session_id);

#endif
