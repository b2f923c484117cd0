/* SPDX-License-Identifier: MIT */
/*
 * connection.h - what a link is made of, for link.c and exchange.c: the handle of the library, its
 * socket, and the state of the session.
 */
#ifndef ZK_CONNECTION_H
#define ZK_CONNECTION_H

#include "exchange.h"
#include "liveness.h"

#define ZK_WHY_SIZE 96

struct zk_link {
    /* Set by zk_link_open, and not changed. */
    const struct dlock_host *host;
    const struct zk_config *config;
    const struct zk_servers *servers;
    int64_t tick_ns;
    int asked_ms; /* timeout of the session */
    int wake_fd;  /* eventfd: the thread has something to do */
    int lead_fd;  /* eventfd: another thread that leads has */
    pthread_t thread;
    bool has_thread;
    void (*on_over)(struct zk_link *link); /* the session has ended */

    pthread_mutex_t mutex;  /* guards the rest */
    pthread_cond_t changed; /* the state of the session */
    bool closing;
    bool counts; /* it was connected, and later connections are counted [CNT-1] */

    char hosts[ZK_HOSTS_SIZE]; /* that the library has, or gets with the next handle */
    struct zk_names names;
    bool is_resolving;   /* names are looked up for the next connection */
    int64_t resolved_ns; /* since then, or until then */

    zhandle_t *handle;    /* NULL: there is none */
    bool inside;          /* the library runs, and calls back */
    int fd;               /* its socket; -1: none */
    uint64_t inode;       /* of the socket: a forked child closes no other file */
    int64_t begun_ns;     /* when the socket was made */
    int64_t received_ns;  /* when the server sent something, or the socket was made */
    int64_t handshake_ns; /* how long the next one may last */
    short events;         /* that the library waits for */
    int64_t patience_ns;  /* how long it may wait for them */

    bool asleep;                  /* the thread is in poll */
    bool led;                     /* a thread is in poll for the socket: it leads */
    short polled;                 /* events that it waits for */
    const pthread_cond_t *leader; /* what it would sleep on; NULL: it is the link's thread */
    uint64_t led_inode;           /* of the socket then */
    unsigned waits;               /* for watchers */

    int64_t session_id; /* 0: there is none */
    bool connected;
    bool refused;     /* the servers did not take the credentials, */
    bool wants_login; /* or want a login of another kind, or want one at all */
    bool ending;      /* the thread is to end the session */
    int64_t timeout_ms;
    struct zk_liveness liveness;
    char server[64];       /* the present one; "": none */
    char why[ZK_WHY_SIZE]; /* there is no connection */

    int64_t beat_ns; /* of the next beat */
    bool syncing;    /* a sync has no answer yet */
    int64_t sync_ns; /* when it was sent */
    void (*on_beat)(struct zk_link *link, void *arg);
    void *beat_arg;

    struct zk_exchange *exchanges; /* that wait for answers */
    struct zk_watcher *watchers;
};

/* All but the first three are called with the mutex held. */
int64_t zk_connection_now(const struct zk_link *link);
void zk_connection_lock(struct zk_link *link);
void zk_connection_unlock(struct zk_link *link);

/*
 * A thread that waits for an answer or a watcher reads for all, unless another thread does: it
 * leads. Nobody has to wake it then. The thread of the link leads when nobody else does and
 * somebody needs it.
 *
 * sleep: until cond is signalled (zk_connection_signal), for left_ns, or until something may have
 * changed. hand_over: after the last sleep.
 */
void zk_connection_sleep(struct zk_link *link, pthread_cond_t *cond, int64_t left_ns);
void zk_connection_hand_over(struct zk_link *link);
void zk_connection_signal(struct zk_link *link, pthread_cond_t *cond);

/* The thread of the link has something to do. */
void zk_connection_wake(const struct zk_link *link);
/* The one who leads waits for what the library waits for now. */
void zk_connection_cover(const struct zk_link *link);

/*
 * Asks the library what it waits for: fd, events and patience_ns. The library may make a socket in
 * it, or give the connection up, and calls back. False: the connection has failed.
 */
bool zk_connection_poll(struct zk_link *link);
/* The thread that leads has waited. events: of poll. Lets the library write and read what it can.
 */
void zk_connection_process(struct zk_link *link, short events);
/* Whether the thread of the link is to lead. */
bool zk_connection_wants_leader(const struct zk_link *link);
/* From now on, with link->polled. leader: NULL: the link's thread. */
void zk_connection_lead(struct zk_link *link, const pthread_cond_t *leader);

/* The thread is to end the session: nobody uses it from now on. */
void zk_connection_end(struct zk_link *link);

/* The servers serve nobody who has not logged in as they want it. The caller is a callback of the
 * library. */
void zk_connection_refuse(struct zk_link *link);
/* AUTH, if the servers refused the credentials; OK. */
enum dlock_status zk_connection_judge(const struct zk_link *link, struct dlock_error *err);

/* The connection is of no use any more: the library will find its end, and connect again. */
void zk_connection_hang_up(const struct zk_link *link);

/* Finds out whether the server has closed the connection, before something is sent on it. */
void zk_connection_recheck(struct zk_link *link);

/* Waits until the link is connected. session_id: LOST if another one is present; 0: any. OK, LOST,
 * UNAVAILABLE, AUTH. */
enum dlock_status zk_connection_await(struct zk_link *link, int64_t session_id, int64_t deadline_ns,
                                      struct dlock_error *err);

#endif
