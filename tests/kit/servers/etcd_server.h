/* SPDX-License-Identifier: MIT */
/*
 * etcd_server.h - a cluster of etcd of a test's own, of one member or of several, on free ports of
 * 127.0.0.1. Its directory is removed with it, and it ends with the process that started it.
 *
 * It grants leases from a second on: its heartbeats and elections are short. With several members
 * an election takes a second on a busy machine; with less time for it they elect all the time. It
 * does not wait for the disk, unless args say --unsafe-no-fsync=false.
 */
#ifndef DLT_ETCD_SERVER_H
#define DLT_ETCD_SERVER_H

#include "process.h"

#define DLT_ETCD_MEMBERS_MAX 5
#define DLT_ETCD_ARGS_MAX    32
#define DLT_ETCD_URL_SIZE    48

struct dlt_etcd_member {
    pid_t pid; /* 0: it does not run */
    unsigned port, peer_port;
    unsigned metrics_port; /* plain also with TLS: /health and /metrics */
    char directory[DLT_DIRECTORY_SIZE];
    char address[32]; /* "127.0.0.1:PORT" */
    bool paused;
};

struct dlt_etcd {
    struct dlt_etcd_member members[DLT_ETCD_MEMBERS_MAX];
    unsigned count;
    char directory[DLT_DIRECTORY_SIZE];  /* with TLS, of the certificates, too */
    char hosts[160];                     /* for a URI: "127.0.0.1:PORT,127.0.0.1:PORT" */
    char why[768];                       /* after a false */
    const char *args[DLT_ETCD_ARGS_MAX]; /* borrowed: "--auth-token-ttl", "1", ..., NULL */
    const char *certificate;             /* borrowed; NULL: no TLS */
    bool certified;                      /* clients have to show a certificate */
    bool auth;                           /* clients have to log in */
    bool borrowed;                       /* somebody else's */
};

/* Makes one of a single member, and waits until it answers. args ends with NULL, and may be NULL.
 * False: why. */
bool dlt_etcd_start(struct dlt_etcd *server, const char *const *args);

/* The same with so many members. */
bool dlt_etcd_start_cluster(struct dlt_etcd *server, unsigned count, const char *const *args);

/* A single member with TLS, and with dlt_certificates_make's certificates in its directory. It
 * shows the one of this name ("server"). certified: each client has to show one that "ca" signed,
 * and its CN is the user. */
bool dlt_etcd_start_tls(struct dlt_etcd *server, const char *certificate, bool certified,
                        const char *const *args);

/* The one that with_server started, if it is a single member without TLS and users; one of its own
 * otherwise. */
bool dlt_etcd_borrow(struct dlt_etcd *server);

/* From now on clients have to log in: "root" (password "root"), who may do everything, and "u"
 * (password "secret") and "client" (by certificate only), who may read and write the keys that
 * begin with prefix. */
bool dlt_etcd_auth(struct dlt_etcd *server, const char *prefix);

/* SIGKILL to a member (from 0 on), and waits for its end. */
void dlt_etcd_kill(struct dlt_etcd *server, unsigned member);
/* SIGSTOP, and SIGCONT. */
void dlt_etcd_pause(struct dlt_etcd *server, unsigned member, bool pause);
/* Runs it again, on the same ports and with the same data, and waits until it answers. */
bool dlt_etcd_again(struct dlt_etcd *server, unsigned member);
/* The same for all members, at once. */
bool dlt_etcd_again_all(struct dlt_etcd *server);
/* Removes the data of a member, which was killed. The only one begins anew then, as the same
 * cluster. */
void dlt_etcd_forget(struct dlt_etcd *server, unsigned member);

/* "http://127.0.0.1:PORT", or https. */
void dlt_etcd_url(char url[DLT_ETCD_URL_SIZE], const struct dlt_etcd *server, unsigned port);

/* It answers, and has a leader. */
bool dlt_etcd_healthy(const struct dlt_etcd_member *member);
/* Which member leads, as it says itself; -1: nobody, at present. */
int dlt_etcd_leader(const struct dlt_etcd *server);
/* Waits for a leader, for ten seconds at most. */
int dlt_etcd_leader_wait(const struct dlt_etcd *server);

/* The sum of all values of a metric of a member, as "etcd_debugging_mvcc_events_total", or with
 * labels, as they stand in /metrics; -1: no answer. */
double dlt_etcd_metric(const struct dlt_etcd *server, unsigned member, const char *name);

/* Ends it, and removes its directory; nothing happens to one that was borrowed. Harmless twice. */
void dlt_etcd_stop(struct dlt_etcd *server);

/* What `etcdctl WORDS` says, as root, with the words as a shell reads them; without the last end of
 * line. Valid until the next question of this thread. */
__attribute__((format(printf, 2, 3))) const char *dlt_etcd_ask(const struct dlt_etcd *server,
                                                               const char *format, ...);

#endif
